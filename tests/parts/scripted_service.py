"""HTTP server with scripted replies, for responses that the real service rarely sends."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

DISCONNECT = 0
"""Status of a reply that closes the connection instead."""
RAW = -1
"""Status of a reply whose body is all that is sent, head included."""


@dataclass(frozen=True)
class Request:
    """Received request. Names of headers are lower-case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Reply:
    """Scripted reply. The pieces of an iterator are sent one by one, another body than bytes as JSON."""

    status: int
    body: object = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class ScriptedService:
    """The script, and the requests so far. Without a script every reply is 404."""

    script: Callable[[Request], Reply] = lambda _: Reply(404)
    requests: list[Request] = field(default_factory=list)
    url: str = ""


def _content(body: object) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


class _Server(ThreadingHTTPServer):
    # Many clients may connect at the same time.
    request_queue_size = 128


@contextmanager
def scripted_service(
    certificate: Path | None = None, host: str = "127.0.0.1", port: int = 0
) -> Iterator[ScriptedService]:
    """Run a server, on a free port unless one is passed, over TLS with a certificate."""
    service = ScriptedService()

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            size = int(self.headers.get("content-length", 0))
            body = self.rfile.read(size)
            if len(body) < size:  # the client was killed
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, self.path, headers, body)
            service.requests.append(request)
            reply = service.script(request)
            if reply.status == DISCONNECT:
                return
            pieces = reply.body if isinstance(reply.body, Iterator) else [_content(reply.body)]
            length = {"Content-Length": str(len(pieces[0]))} if isinstance(pieces, list) else {}
            if reply.status != RAW:
                self.send_response(reply.status)
                for name, value in {**length, **reply.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
            with suppress(ConnectionError):  # a client may refuse the rest
                for piece in pieces:
                    self.wfile.write(piece)

        do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815 - names of http.server

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = _Server((host, port), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    service.url = f"http{'' if certificate is None else 's'}://{host}:{server.server_address[1]}"
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
