"""The processes of the service: restart after a kill, and shutdown without interrupted transfers."""

import os
import resource
import signal
import socket
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest

from tests.acceptance.installation import MAYA, NORTH, Installation
from tests.acceptance.service import DAYBREAKD, PATIENCE_SECONDS, Service, run_in_parallel, serving
from tests.parts.ports import listens
from tests.parts.processes import cpu_seconds, is_running, resident_megabytes, running
from tests.parts.waiting import wait_until
from tests.parts.warm import running_warm

# Tests of the start of the processes.
started = partial(serving, warm=False)


def test_killed_worker_and_builder_are_restarted(make_installation: Callable[[], Installation]) -> None:
    with serving(make_installation(), settings={"snapshot.schedule": True}) as service:
        workers = service.workers()
        (builder,) = wait_until(lambda: service.processes("builder"), what="a builder")
        for pid in (workers[0], builder):
            os.kill(pid, signal.SIGKILL)
        new_worker = wait_until(lambda: set(service.workers()) - set(workers), what="a new worker")
        wait_until(lambda: set(service.processes("builder")) - {builder}, what="a new builder")
        assert set(service.workers()) == {workers[1]} | new_worker
        assert {found.status_code for found in run_in_parallel(lambda _: service.get("/readyz"), 12)} == {200}


REPORT_FORKS = """
import os, threading

def report():
    names = [thread.name for thread in threading.enumerate()]
    print("fork", os.getpid(), *(name.replace(" ", "") for name in names), flush=True)

os.register_at_fork(before=report)
"""


def test_main_process_starts_no_thread_before_the_first_forks(
    make_installation: Callable[[], Installation], tmp_path: Path
) -> None:
    """A lock that a thread holds at the time of a fork stays locked in the forked process."""
    (tmp_path / "sitecustomize.py").write_text(REPORT_FORKS)
    environment, settings = {"PYTHONPATH": str(tmp_path)}, {"snapshot.schedule": True}
    with serving(make_installation(), settings=settings, environment=environment) as service:
        wait_until(lambda: service.processes("builder"), what="a builder")
        forks = [line.split()[1:] for line in service.program.log().splitlines() if line.startswith("fork ")]
    names = [set(threads) for pid, *threads in forks if pid == str(service.program.pid)]
    # The process of the metrics, then two workers. Granian starts a thread for each worker.
    assert len(names) == 3
    assert {name for threads in names for name in threads if "_watcher" not in name} == {"MainThread"}


@pytest.mark.release
def test_processes_end_with_the_main_process(make_installation: Callable[[], Installation]) -> None:
    with started(make_installation(), settings={"snapshot.schedule": True}) as service:
        (builder,) = wait_until(lambda: service.processes("builder"), what="a builder")
        processes = [*service.workers(), builder]
        os.kill(service.program.pid, signal.SIGKILL)
        wait_until(lambda: not any(is_running(pid) for pid in processes), what="the other processes to end")


@pytest.mark.release
def test_web_and_builder_run_as_separate_services(make_installation: Callable[[], Installation]) -> None:
    settings = {"snapshot.schedule": True}
    with started(make_installation(), command="web", settings=settings) as service:
        assert service.processes("builder") == []
        file = service.installation.folder / "daybreak.toml"
        with running([*DAYBREAKD, "builder", "--config", file], folder=service.installation.folder) as builder:
            builder.wait_for_log('"builder.started"', PATIENCE_SECONDS)
            assert service.get("/readyz").status_code == 200
            assert builder.stop() == 0
        assert service.get("/readyz").status_code == 200
        assert service.program.stop() == 0


@pytest.mark.release
def test_web_keeps_serving_while_the_builder_fails(make_installation: Callable[[], Installation]) -> None:
    # The builder cannot create its folder there.
    settings = {"snapshot.schedule": True, "snapshot.temp_dir": "/proc/nowhere", "source.location": "/nowhere"}
    with serving(make_installation(), settings=settings) as service:
        for builder in wait_until(lambda: service.processes("builder"), what="a builder"):
            os.kill(builder, signal.SIGKILL)
        assert '"starts_again_in_seconds"' in service.program.wait_for_log('"ended"', PATIENCE_SECONDS)
        assert service.get("/healthz").status_code == 200


@pytest.mark.release
def test_logins_in_progress_are_answered_at_shutdown(make_installation: Callable[[], Installation]) -> None:
    with serving(make_installation(), workers=1) as service, ThreadPoolExecutor(10) as clients:
        assert service.log_in(MAYA).status_code == 200
        (worker,) = service.workers()
        before = _descriptors(worker)
        attempts = [clients.submit(service.log_in, MAYA) for _ in range(10)]
        wait_until(lambda: _descriptors(worker) >= before + 5, what="their connections")
        service.program.process.send_signal(signal.SIGTERM)
        answers = [attempt.result() for attempt in attempts if attempt.exception() is None]
        assert len(answers) >= 5, "at least those that were connected"
        # The limit of the time for a hash includes waiting, and a busy machine can exceed it.
        refused = [answer for answer in answers if answer.status_code != 200]
        assert {answer.json()["code"] for answer in refused} <= {"busy"}
        assert len(refused) < len(answers)
        assert service.program.process.wait(PATIENCE_SECONDS) == 0


@pytest.fixture
def large_installation(make_installation: Callable[[], Installation]) -> Installation:
    """Return an installation with a file larger than the buffers of a connection, so that a slow reader delays it."""
    installation = make_installation()
    replace(installation, large_rows=17_000).publish_snapshot(seed=3)
    return installation


@pytest.mark.release
def test_transfers_of_slow_readers_are_limited(large_installation: Installation) -> None:
    with serving(large_installation, workers=1, settings={"files.max_transfers": 40}) as service:
        link = service.link(service.token(MAYA, NORTH), NORTH, "members.csv.gz")
        expected = service.get(link).content
        assert len(expected) > 5_000_000
        (worker,) = service.workers()
        # A client has the last byte before the service has ended the transfer.
        wait_until(lambda: not _transferred(worker), what="the end of the first transfer")
        before, idle = resident_megabytes(worker), _descriptors(worker)
        slow = [_slow_connection(service, link, "Range: bytes=1-\r\n" if number % 2 else "") for number in range(20)]
        try:
            begun = [connection.recv(1000) for connection in slow]
            assert all(begin.startswith(b"HTTP/1.1 20") for begin in begun)
            busy = service.get(link)
            assert (busy.status_code, busy.json()["code"]) == (503, "busy")
            assert int(busy.headers["Retry-After"]) >= 1
            assert service.get(link, headers={"Range": "bytes=0-9"}).status_code == 206, "small parts are served"
            # As documented: about 4 MB for each of them, and 8 MB for the first four.
            assert resident_megabytes(worker) - before < 16 * 4 + 4 * 8
            for connection in slow[::2]:
                _reset(connection)
            wait_until(lambda: service.get(link).status_code == 200, what="a free transfer slot")
            for connection, beginning in list(zip(slow, begun, strict=True))[1::2]:
                assert _body(connection, beginning) == expected[1:], "other readers get the whole file"
        finally:
            for connection in slow:
                connection.close()
        wait_until(lambda: _descriptors(worker) <= idle + 2, what="the descriptors of the transfers to be closed")


def test_running_transfer_finishes_after_sigterm(large_installation: Installation) -> None:
    with serving(large_installation, workers=1) as service:
        link = service.link(service.token(MAYA, NORTH), NORTH, "members.csv.gz")
        expected = service.get(link).content
        with _slow_connection(service, link) as connection:
            received = connection.recv(2000)
            # Operators may send SIGTERM more than once.
            for _ in range(3):
                service.program.process.send_signal(signal.SIGTERM)
            wait_until(lambda: not listens(service.port), what="the port to be closed")
            while piece := connection.recv(65536):
                received += piece
        assert received.partition(b"\r\n\r\n")[2] == expected
        assert service.program.process.wait(PATIENCE_SECONDS) == 0
        assert '"stopped"' in service.program.log()


@pytest.mark.release
def test_publication_does_not_change_running_transfers(large_installation: Installation) -> None:
    with serving(large_installation, workers=1) as service:
        token = service.token(MAYA, NORTH)
        link = service.link(token, NORTH, "members.csv.gz")
        old = service.get(link).content
        readers = [_slow_connection(service, link) for _ in range(10)]
        try:
            begun = [connection.recv(1000) for connection in readers]
            large_installation.publish_snapshot(seed=2)
            new = service.get(service.link(token, NORTH, "members.csv.gz")).content
            assert new != old
            assert service.get(link).content == old, "a link opens the file for which it was issued"
            for connection, beginning in zip(readers, begun, strict=True):
                assert _body(connection, beginning) == old
        finally:
            for connection in readers:
                connection.close()


@pytest.mark.release
def test_service_works_with_few_descriptors(make_installation: Callable[[], Installation]) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    with started(make_installation(), workers=1, preexec_fn=limit) as service:
        link = service.link(service.token(MAYA, NORTH), NORTH, "members.csv.gz")
        (worker,) = service.workers()
        idle = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(100)]
        try:
            time.sleep(0.2)
            before = cpu_seconds(worker)
            time.sleep(1)
            assert cpu_seconds(worker) - before < 0.5, "idle connections use no CPU time"
        finally:
            for connection in idle:
                connection.close()
        found = run_in_parallel(lambda _: len(service.get(link).content), 30)
        assert len(set(found)) == 1
        assert _descriptors(worker) <= 64


def test_port_of_another_service_is_refused(service: Service) -> None:
    file = service.installation.folder / "daybreak.toml"
    with running_warm(["serve", "--config", file], folder=service.installation.folder) as second:
        assert second.process.wait(PATIENCE_SECONDS) == 1
        assert "another process listens there" in second.log()
    assert service.get("/healthz").status_code == 200


@pytest.mark.release
def test_unix_socket_is_private_and_replaced(make_installation: Callable[[], Installation], tmp_path: Path) -> None:
    path = tmp_path / "web.sock"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    installation = make_installation()
    for _ in range(2):
        with serving(installation, settings={"listen": f"unix:{path}"}) as service:
            assert path.stat().st_mode & 0o777 == 0o660
            assert b"200 OK" in _answer_over(path, b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            os.killpg(service.program.pid, signal.SIGKILL)
            wait_until(lambda: service.workers() == [], what="the workers to end")
        assert path.exists(), "a killed service leaves its socket"


@pytest.mark.release
def test_files_of_the_service_are_private(make_installation: Callable[[], Installation]) -> None:
    with started(make_installation(), preexec_fn=lambda: os.umask(0)) as service:
        service.log_in(MAYA)
        for pid in service.workers():
            umask = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "Umask" in line)
            assert umask.split()[1] == "0077"


def _slow_connection(service: Service, link: str, header: str = "") -> socket.socket:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(PATIENCE_SECONDS)
    connection.connect(("127.0.0.1", service.port))
    path = link.removeprefix(service.address)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{header}\r\n".encode())
    return connection


def _body(connection: socket.socket, beginning: bytes) -> bytes:
    """Read the rest of a response and return its body."""
    received = bytearray(beginning)
    while piece := connection.recv(65536):
        received += piece
    return bytes(received).partition(b"\r\n\r\n")[2]


def _reset(connection: socket.socket) -> None:
    """Reset the connection, as a killed client does."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _answer_over(path: Path, octets: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(octets)
        received = b""
        while piece := connection.recv(65536):
            received += piece
    return received


def _descriptors(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def _transferred(pid: int) -> list[str]:
    """Return the paths of the files that a process is sending."""
    return [file.path for file in psutil.Process(pid).open_files() if file.path.endswith(".gz")]
