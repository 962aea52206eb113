"""The measured servers: Daybreak, the bare framework on the same HTTP server, and nginx with the same files."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import msgspec

from benchmarks.job import Unavailable
from benchmarks.measure import cpu_of_tree
from benchmarks.serving.load import ClientResult, Plan
from benchmarks.snapshot_run import DAYBREAKD
from tests.parts.ports import free_port
from tests.parts.processes import Running, running

_READY_SECONDS = 60.0
_CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE, CLIENT_CORE = _CORES[0], _CORES[-1]
_PROGRAM = "/usr/sbin/nginx"
# The fastest configuration of nginx for files: one worker, sendfile, persistent connections, cached descriptors.
_NGINX = """
daemon off; master_process on; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx-error.log warn;
events {{ worker_connections 1024; }}
http {{
  access_log {folder}/nginx-access.log; default_type application/gzip;
  sendfile on; tcp_nopush on; keepalive_requests 100000000; open_file_cache max=10000;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  {servers}
}}
"""
_NGINX_FILES = "server {{ listen 127.0.0.1:{port}; root {root}; location = / {{ return 204; }} }}"
# The configuration in docs/how-to/operations.md, without TLS.
_NGINX_ACCELERATED = """upstream daybreak {{ server 127.0.0.1:{upstream}; keepalive 16; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://daybreak; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header Host $http_host; proxy_buffering off; proxy_max_temp_file_size 0; gzip off;
    }}
    location /daybreak-files/ {{
      internal; alias {root}/; etag off; if_modified_since off;
      add_header ETag $upstream_http_etag; add_header Last-Modified $upstream_http_last_modified;
    }}
  }}"""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its port, the id of its main process, and the server behind it."""

    port: int
    pid: int
    upstream: Server | None = None

    def cpu_seconds(self) -> float:
        """Return the CPU time of all its processes so far, including the server behind it."""
        return cpu_of_tree(self.pid) + (0.0 if self.upstream is None else self.upstream.cpu_seconds())


@dataclass(frozen=True, slots=True)
class RoundResult:
    """Result of a client, and the CPU time of the server."""

    client: ClientResult
    server_cpu_seconds: float

    @property
    def per_second(self) -> float:
        """Responses per second of wall time."""
        return self.client.responses / self.client.seconds

    @property
    def microseconds(self) -> float:
        """CPU time of the server per response."""
        return self.server_cpu_seconds / self.client.responses * 1e6

    @property
    def server_busy(self) -> float:
        """Share of the time in which the server used its core."""
        return self.server_cpu_seconds / self.client.seconds

    @property
    def client_busy(self) -> float:
        """Share of the time in which the client used its core."""
        return self.client.cpu_seconds / self.client.seconds


def run_client(server: Server, plan: Plan, *, expected: int) -> RoundResult:
    """Run a client in a separate process. Raises RuntimeError if a response has another status than `expected`."""
    before = server.cpu_seconds()
    with client(plan) as process:
        result = client_result(process)
    after = server.cpu_seconds()
    if set(result.statuses) != {expected}:
        raise RuntimeError(f"statuses of the responses: {result.statuses}. All should be {expected}.")
    return RoundResult(result, after - before)


@contextlib.contextmanager
def client(plan: Plan) -> Iterator[subprocess.Popen[bytes]]:
    """Start a client. It is killed when the context ends."""
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


def client_result(process: subprocess.Popen[bytes]) -> ClientResult:
    """Wait for a client and return its result. Raises CalledProcessError."""
    assert process.stdout is not None
    output = process.stdout.read()
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, "benchmarks.serving.load")
    return msgspec.json.decode(output, type=ClientResult)


@contextlib.contextmanager
def daybreak(
    folder: Path,
    *,
    workers: int = 1,
    core: int | None = SERVER_CORE,
    settings: Mapping[str, object] | None = None,
    ready: str = "/readyz",
) -> Iterator[Server]:
    """Run the service of a folder as in production: JSON log lines in a file, and metrics."""
    port = free_port()
    configure(folder, port, {"workers": workers, **(settings or {})})
    command = [DAYBREAKD, "serve", "--config", str(folder / "daybreak.toml")]
    with started(command, port, folder / "daybreak.log", core=core, ready=ready) as server:
        yield server


def configure(folder: Path, port: int, settings: Mapping[str, object]) -> None:
    """Write the configuration. Logins, links and bytes are not limited, but logins of one address are."""
    chosen = {
        "base_url": f"http://127.0.0.1:{port}",
        "listen": f"127.0.0.1:{port}",
        "log_format": "json",
        "source.location": str(folder / "platform"),
        "snapshot.schedule": False,
        "snapshot.formats": ["csv", "json", "parquet"],
        "attach.s3": True,
        "attach.iceberg": True,
        "attach.request_rate": "1000000/1m",
        "access.login_overall": "1000000/5m",
        "access.login_per_network": "1000000/5m",
        "access.link_rate": "1000000/1m",
        "access.daily_bytes": "1000TB",
        "metrics.listen": f"127.0.0.1:{free_port()}",
        "trusted_proxies": ["127.0.0.1/32"],
        **settings,
    }
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in chosen.items())
    (folder / "daybreak.toml").write_text(text, "utf-8")


@contextlib.contextmanager
def bare_framework(folder: Path) -> Iterator[Server]:
    """Run Starlette with one route on the HTTP server of Daybreak."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.serving.hello", str(port)]
    with started(command, port, folder / "hello.log", core=SERVER_CORE) as server:
        yield server


def nginx_version() -> str:
    """Return the installed version, such as `nginx 1.22.1`. Raises Unavailable."""
    if not Path(_PROGRAM).exists():
        raise Unavailable(f"{_PROGRAM} is missing. Install the Debian package nginx-light")
    output = subprocess.run([_PROGRAM, "-v"], stderr=subprocess.PIPE, text=True, check=True).stderr
    return output.strip().removeprefix("nginx version: ").replace("/", " ")


@contextlib.contextmanager
def nginx(folder: Path, root: Path) -> Iterator[Server]:
    """Run nginx with one worker process on a folder of files."""
    port = free_port()
    with _started_nginx(folder, port, _NGINX_FILES.format(port=port, root=root)) as server:
        yield server


@contextlib.contextmanager
def accelerated(home: Path) -> Iterator[Server]:
    """Run nginx in front of the service of a folder, with `files.accelerate`. Both use one core."""
    port, folder = free_port(), home / "nginx"
    folder.mkdir(exist_ok=True)
    with daybreak(home, settings={"files.accelerate": "nginx"}) as upstream:
        servers = _NGINX_ACCELERATED.format(port=port, upstream=upstream.port, root=home / "files")
        with _started_nginx(folder, port, servers, ready="/readyz") as server:
            yield replace(server, upstream=upstream)


@contextlib.contextmanager
def _started_nginx(folder: Path, port: int, servers: str, ready: str = "/") -> Iterator[Server]:
    (folder / "nginx.conf").write_text(_NGINX.format(folder=folder, servers=servers), "utf-8")
    command = [_PROGRAM, "-e", str(folder / "nginx-error.log"), "-p", str(folder), "-c", "nginx.conf"]
    if os.geteuid() == 0:
        # The worker must be able to read the files of this user.
        command += ["-g", "user root;"]
    with started(command, port, folder / "nginx.log", core=SERVER_CORE, ready=ready) as server:
        yield server


@contextlib.contextmanager
def started(command: Sequence[str], port: int, log: Path, *, core: int | None, ready: str = "/") -> Iterator[Server]:
    """Run a server in a separate process group, and wait until it is ready. `core` is the core of its processes."""
    prefix = [] if core is None else [*_real_time(), "taskset", "-c", str(core)]
    with running([*prefix, *command], log_file=log) as program:
        _wait_ready(program, port, ready)
        yield Server(port, program.pid)


@cache
def _real_time() -> tuple[str, ...]:
    """Return the command prefix for real-time priority, () if the system does not allow it."""
    command = ("chrt", "--rr", "1")
    allowed = subprocess.run([*command, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0
    return command if allowed else ()


def _wait_ready(program: Running, port: int, path: str) -> None:
    """Wait until the path responds without an error. Raises RuntimeError if the program ends, or after a minute."""
    until = time.monotonic() + _READY_SECONDS
    while program.alive() and time.monotonic() < until:
        with contextlib.suppress(OSError, HTTPError), urlopen(f"http://127.0.0.1:{port}{path}", timeout=5):
            return
        time.sleep(0.005)
    raise RuntimeError(f"{program.process.args!r} does not respond:\n{program.log()[-2000:]}")
