"""The service's processes: replaced when they die, ended in good order, content with few descriptors."""

import os
import resource
import signal
import socket
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tests.acceptance import world as world_module
from tests.acceptance.service import DAYBREAKD, PATIENCE_SECONDS, Service, at_once, serving
from tests.acceptance.world import MAYA, NORTH, World
from tests.parts.hashing import child_of
from tests.parts.processes import running
from tests.parts.waiting import listens, wait_until


def test_what_dies_is_replaced_and_nothing_outlives_the_supervisor(make_world: Callable[[], World]) -> None:
    with serving(make_world(), settings={"snapshot.schedule": True}) as service:
        before = service.workers()
        assert len(before) == 2
        for victim in before:
            os.kill(victim, signal.SIGKILL)
            # A connection that waited at the dead worker is taken by the one in its place.
            assert {found.status_code for found in at_once(lambda _: service.get("/healthz"), 12)} == {200}
        wait_until(lambda: not set(service.workers()) & set(before), what="two new workers")
        (builder,) = wait_until(lambda: _builders(service), what="a builder")
        os.kill(builder, signal.SIGKILL)
        wait_until(lambda: len(_builders(service)) > 1, what="another builder")
        assert service.get("/readyz").status_code == 200
        hashing = service.processes("hashing")
        for victim in hashing:
            os.kill(victim, signal.SIGKILL)
        assert service.log_in(MAYA).status_code == 200, "it waits for one of those in their place"
        wait_until(lambda: not set(service.processes("hashing")) & set(hashing), what="two new hashing processes")
        hashing = service.processes("hashing")
        spare = [wait_until(lambda each=each: child_of(each), what="its child") for each in hashing]  # type: ignore[misc]
        children = [*service.workers(), _builders(service)[-1], *hashing, *spare]
        os.kill(_supervisor_of(children[0]), signal.SIGKILL)
        wait_until(lambda: not any(_alive(child) for child in children), what="the children to follow")


def test_passwords_are_asked_by_workers_and_heard_by_hashing_processes_alone(service: Service) -> None:
    workers = [_sockets(pid) for pid in service.workers()]
    hashing = [_sockets(pid) for pid in service.processes("hashing")]
    (builder,) = (_sockets(pid) for pid in service.processes("builder"))
    # The builder has what all of them have, and neither end.
    asking, answering = (workers[0].intersection(*workers) - builder, hashing[0].intersection(*hashing) - builder)
    assert len(asking) == len(answering) == 1
    assert not asking & hashing[0].union(*hashing)
    assert not answering & workers[0].union(*workers)


def test_a_login_under_way_when_the_service_ends_is_answered(make_world: Callable[[], World]) -> None:
    with serving(make_world(), workers=1) as service, ThreadPoolExecutor(1) as elsewhere:
        assert service.log_in(MAYA).status_code == 200
        (worker,) = service.workers()
        before = _descriptors(worker)
        for process in service.processes("hashing"):
            os.killpg(process, signal.SIGSTOP)
        login = elsewhere.submit(service.log_in, MAYA)
        wait_until(lambda: _descriptors(worker) >= before + 2, what="its connection and its question")
        service.program.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not listens(service.port), what="the port to be closed")
        for process in service.processes("hashing"):
            os.killpg(process, signal.SIGCONT)
        assert login.result().status_code == 200
        assert service.program.process.wait(PATIENCE_SECONDS) == 0
        assert '"cut"' not in service.program.log()


@pytest.fixture
def large_world(make_world: Callable[[], World], monkeypatch: pytest.MonkeyPatch) -> World:
    """A world with a file that no buffer on the way takes whole: whoever reads slowly is waited for."""
    world = make_world()
    monkeypatch.setattr(world_module, "LARGE_ROWS", 17_000)
    _publish(world, seed=3)
    monkeypatch.undo()
    return world


def test_slow_readers_are_cheap_and_the_end_waits_for_transfers(large_world: World) -> None:
    with serving(large_world, workers=1) as service:
        link = service.link(service.token(MAYA, NORTH), NORTH, "members.csv.gz")
        expected = service.get(link).content
        assert len(expected) > 5_000_000
        (worker,) = service.workers()
        before = _resident_megabytes(worker)
        slow = [_slow_connection(service, link, "Range: bytes=1-\r\n" if number % 2 else "") for number in range(200)]
        try:
            begun = [connection.recv(1000) for connection in slow]
            assert all(begun)
            assert service.get(link).content == expected, "others are served meanwhile"
            # A whole file each would be 200 of them and more.
            assert _resident_megabytes(worker) - before < 150
            held = _descriptors(worker)
            assert held > 200, "all of them are being served"
            for connection in slow[::2]:
                _break(connection)
            wait_until(lambda: _descriptors(worker) <= held - 100, what="what was held for half of them to be closed")
            for connection, beginning in list(zip(slow, begun, strict=True))[1:20:2]:
                assert _body(connection, beginning) == expected[1:], "the other half is served whole"
            assert _resident_megabytes(worker) - before < 150
        finally:
            for connection in slow:
                connection.close()
        wait_until(lambda: _descriptors(worker) < 100, what="the descriptors of readers that left to be closed")

        with _slow_connection(service, link) as connection:
            received = connection.recv(2000)
            # Twice and more, as impatient people do it.
            for _ in range(3):
                service.program.process.send_signal(signal.SIGTERM)
            wait_until(lambda: not listens(service.port), what="the port to be closed")
            while piece := connection.recv(65536):
                received += piece
        assert received.partition(b"\r\n\r\n")[2] == expected
        assert service.program.process.wait(PATIENCE_SECONDS) == 0
        assert '"stopped"' in service.program.log()
        assert '"cut"' not in service.program.log()


def test_a_publication_changes_nothing_for_those_who_read(large_world: World) -> None:
    with serving(large_world, workers=1) as service:
        token = service.token(MAYA, NORTH)
        link = service.link(token, NORTH, "members.csv.gz")
        old = service.get(link).content
        readers = [_slow_connection(service, link) for _ in range(10)]
        try:
            begun = [connection.recv(1000) for connection in readers]
            _publish(large_world, seed=2)
            new = service.get(service.link(token, NORTH, "members.csv.gz")).content
            assert new != old, "whoever asks now gets the new file"
            assert service.get(link).content == old, "a link leads to the file that it was given for"
            for connection, beginning in zip(readers, begun, strict=True):
                assert _body(connection, beginning) == old
        finally:
            for connection in readers:
                connection.close()


def test_few_descriptors_are_enough(make_world: Callable[[], World]) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    with serving(make_world(), workers=1, preexec_fn=limit) as service:
        link = service.link(service.token(MAYA, NORTH), NORTH, "members.csv.gz")
        idle = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(100)]
        try:
            time.sleep(0.2)
        finally:
            for connection in idle:
                connection.close()
        found = at_once(lambda _: len(service.get(link).content), 30)
        assert len(set(found)) == 1
        (worker,) = service.workers()
        assert _descriptors(worker) <= 64


def test_a_port_that_is_taken_is_said_so(service: Service) -> None:
    file = service.world.folder / "daybreak.toml"
    with running([*DAYBREAKD, "serve", "--config", file], folder=service.world.folder) as second:
        assert second.process.wait(PATIENCE_SECONDS) == 1
        assert "something listens there already" in second.log()
    assert service.get("/healthz").status_code == 200


def _publish(world: World, *, seed: int) -> None:
    state = world.state()
    try:
        world.publish_snapshot(state, seed=seed)
    finally:
        state.close()


def _builders(service: Service) -> list[int]:
    return [
        line["pid"] for line in service.log_lines() if line["event"] == "started" and line.get("process") == "builder"
    ]


def _slow_connection(service: Service, link: str, header: str = "") -> socket.socket:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(PATIENCE_SECONDS)
    connection.connect(("127.0.0.1", service.port))
    path = link.removeprefix(service.address)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{header}\r\n".encode())
    return connection


def _body(connection: socket.socket, beginning: bytes) -> bytes:
    """The body of an answer whose beginning was read already."""
    received = bytearray(beginning)
    while piece := connection.recv(65536):
        received += piece
    return bytes(received).partition(b"\r\n\r\n")[2]


def _break(connection: socket.socket) -> None:
    """Closes with a reset, as a consumer does that is killed."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _resident_megabytes(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def _descriptors(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def _sockets(pid: int) -> set[str]:
    """The sockets that a process has, by their number in the kernel."""
    found = set()
    for handle in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(str(handle.readlink()))
    return {each for each in found if each.startswith("socket:")}


def _alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def _supervisor_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
