"""The servers: the service itself, the bare framework on the same server program, and nginx on the same files."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import msgspec
import psutil

from benchmarks.serving.home import Home
from benchmarks.serving.load import Plan, Seen

_READY_SECONDS = 60.0
_CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE, CLIENT_CORE = _CORES[0], _CORES[-1]
NGINX = "/usr/sbin/nginx"
DAYBREAKD = (str(Path(sys.executable).with_name("daybreakd")),)
# One worker, the kernel sends the file, connections are kept: the way nginx serves files best.
_NGINX = """
daemon off; master_process on; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx-error.log warn;
events {{ worker_connections 1024; }}
http {{
  access_log {folder}/nginx-access.log; default_type application/gzip;
  sendfile on; tcp_nopush on; keepalive_requests 100000000; open_file_cache max=10000;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port}; root {root}; location = / {{ return 204; }} }}
}}
"""


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs: its port and its first process."""

    port: int
    process: subprocess.Popen[bytes]

    def cpu_seconds(self) -> float:
        """What all its processes have used so far, user and system."""
        own = psutil.Process(self.process.pid)
        total = 0.0
        for one in [own, *own.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                times = one.cpu_times()
                total += times.user + times.system
        return total


@dataclass(frozen=True, slots=True)
class Driven:
    """What a client saw of a server, and what that cost the server."""

    seen: Seen
    server_cpu_seconds: float

    @property
    def per_second(self) -> float:
        """Answers a second on the wall."""
        return self.seen.answers / self.seen.seconds

    @property
    def microseconds(self) -> float:
        """CPU of the server an answer."""
        return self.server_cpu_seconds / self.seen.answers * 1e6

    @property
    def server_busy(self) -> float:
        """The share of the time in which the server used its one processor."""
        return self.server_cpu_seconds / self.seen.seconds


def drive(server: Server, plan: Plan, *, expected: int) -> Driven:
    """Runs a client in a process of its own. Raises RuntimeError when any answer has another status."""
    before = server.cpu_seconds()
    with client(plan) as process:
        seen = outcome(process)
    after = server.cpu_seconds()
    if set(seen.statuses) != {expected}:
        raise RuntimeError(f"answers were {seen.statuses}, not all {expected}")
    return Driven(seen, after - before)


@contextlib.contextmanager
def client(plan: Plan) -> Iterator[subprocess.Popen[bytes]]:
    """A client that has begun."""
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.serving.load"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode(plan))
        process.stdin.close()
        try:
            yield process
        finally:
            process.kill()


def outcome(process: subprocess.Popen[bytes]) -> Seen:
    """What a client saw, once it is done. Raises CalledProcessError."""
    assert process.stdout is not None
    said = process.stdout.read()
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, "benchmarks.serving.load")
    return msgspec.json.decode(said, type=Seen)


@contextlib.contextmanager
def daybreak(
    home: Home, *, workers: int = 1, core: int | None = SERVER_CORE, settings: Mapping[str, object] | None = None
) -> Iterator[Server]:
    """The service as in production: JSON log lines into a file, metrics on, the builder process there."""
    port = free_port()
    configure(home, port, {"workers": workers, **(settings or {})})
    command = [*DAYBREAKD, "serve", "--config", str(home.folder / "daybreak.toml")]
    with started(command, port, home.folder / "daybreak.log", core=core, ready="/readyz") as server:
        yield server


def configure(home: Home, port: int, settings: Mapping[str, object]) -> None:
    """Writes the configuration of a home. Logins come from very many addresses; over all, more than usual."""
    chosen = {
        "base_url": f"http://127.0.0.1:{port}",
        "listen": f"127.0.0.1:{port}",
        "log_format": "json",
        "source.location": str(home.folder / "platform"),
        "snapshot.schedule": False,
        "access.login_overall": "1000000/5m",
        "trusted_proxies": ["127.0.0.1/32"],
        **settings,
    }
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in chosen.items())
    (home.folder / "daybreak.toml").write_text(text, "utf-8")


@contextlib.contextmanager
def bare_framework(folder: Path) -> Iterator[Server]:
    """Starlette with one route that says hello, in the service's own worker program."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.serving.hello", str(port)]
    with started(command, port, folder / "hello.log", core=SERVER_CORE) as server:
        yield server


@contextlib.contextmanager
def nginx(folder: Path, root: Path) -> Iterator[Server]:
    """Nginx with one worker process on a folder of files."""
    port = free_port()
    (folder / "nginx.conf").write_text(_NGINX.format(folder=folder, root=root, port=port), "utf-8")
    command = [NGINX, "-e", str(folder / "nginx-error.log"), "-p", str(folder), "-c", "nginx.conf"]
    if os.geteuid() == 0:
        # Its worker keeps the user who made the files.
        command += ["-g", "user root;"]
    with started(command, port, folder / "nginx.log", core=SERVER_CORE) as server:
        yield server


@contextlib.contextmanager
def started(command: Sequence[str], port: int, log: Path, *, core: int | None, ready: str = "/") -> Iterator[Server]:
    """A server in a process group of its own, waited for, and ended at the end."""
    alone = [] if core is None else [*_first_in_line(), "taskset", "-c", str(core)]
    with log.open("ab") as out:
        process = subprocess.Popen([*alone, *command], stdout=out, stderr=out, start_new_session=True)
    try:
        wait_ready(process, port, ready)
        yield Server(port, process)
    finally:
        stop(process)


@cache
def _first_in_line() -> tuple[str, ...]:
    """What lets a server go before everything else that the machine does; nothing where that is not allowed."""
    command = ("chrt", "--rr", "1")
    allowed = subprocess.run([*command, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0
    return command if allowed else ()


def wait_ready(process: subprocess.Popen[bytes], port: int, path: str) -> None:
    """Returns once the path answers well. Raises RuntimeError when the program ends before, or takes a minute."""
    until = time.monotonic() + _READY_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
        with contextlib.suppress(OSError, HTTPError), urlopen(f"http://127.0.0.1:{port}{path}", timeout=5):
            return
        time.sleep(0.005)
    raise RuntimeError(f"{process.args!r} does not answer")


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a program and everything in its group."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
