"""An HTTP server that answers as a test says and keeps what it was asked: for what the service seldom answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HANG_UP = 0
"""The status of an answer that is none: the connection ends."""


@dataclass(frozen=True)
class Asked:
    """One request; the names of headers in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Said:
    """One answer. What is no octets goes out as JSON."""

    status: int
    body: object = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class ScriptedService:
    """`asked` so far, in order. Without a script it has nothing at any path."""

    script: Callable[[Asked], Said] = lambda _: Said(404)
    asked: list[Asked] = field(default_factory=list)
    url: str = ""


@contextmanager
def scripted_service() -> Iterator[ScriptedService]:
    """One on a free port of 127.0.0.1."""
    service = ScriptedService()

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, self.path, headers, body)
            service.asked.append(asked)
            said = service.script(asked)
            if said.status == HANG_UP:
                return
            octets = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
            self.send_response(said.status)
            for name, value in {"Content-Length": str(len(octets)), **said.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(octets)

        do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815 - the library's names

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    service.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
