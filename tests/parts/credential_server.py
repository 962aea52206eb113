"""Server that issues temporary AWS credentials like an instance, a container or the security token service."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit


@dataclass
class CredentialServer:
    """Issued credentials, received requests, and the status of the next responses."""

    access_key: str = "ACCESS"
    secret_key: str = "secret"
    token: str = "token"
    lifetime: timedelta = timedelta(hours=1)
    error_status: int = 0
    requests: list[str] = field(default_factory=list)
    url: str = ""

    def answer(self, method: str, target: str, headers: dict[str, str]) -> tuple[int, str]:
        """Return status and body."""
        parts = urlsplit(target)
        self.requests.append(f"{method} {parts.path}")
        if self.error_status:
            return self.error_status, "not now"
        expiration = f"{datetime.now(UTC) + self.lifetime:%Y-%m-%dT%H:%M:%SZ}"
        as_json = json.dumps(
            {"AccessKeyId": self.access_key, "SecretAccessKey": self.secret_key, "Token": self.token,
             "Expiration": expiration, "Code": "Success"}
        )  # fmt: skip
        if (method, parts.path) == ("PUT", "/latest/api/token"):
            return 200, "session"
        if parts.path.startswith("/latest/meta-data/iam/security-credentials/"):
            if headers.get("x-aws-ec2-metadata-token") != "session":
                return 401, "no token"
            return 200, as_json if parts.path.endswith("/the-role") else "the-role"
        if parts.path == "/container":
            return (200, as_json) if headers.get("authorization") == "container-token" else (403, "no token")
        if method == "POST":
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            if query.get("WebIdentityToken") != "web-token" or query.get("RoleArn") != "arn:role":
                return 400, "<Error><Code>InvalidIdentityToken</Code></Error>"
            return 200, (
                "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
                f"<AccessKeyId>{self.access_key}</AccessKeyId><SecretAccessKey>{self.secret_key}</SecretAccessKey>"
                f"<SessionToken>{self.token}</SessionToken><Expiration>{expiration}</Expiration>"
                "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
            )
        return 404, "unknown"


@contextmanager
def credential_server(certificate: Path | None = None) -> Iterator[CredentialServer]:
    """Start a server on a free port of 127.0.0.1, over https with a certificate."""
    found = CredentialServer()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, text = found.answer(self.command, self.path, headers)
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_PUT = do_POST = _answer  # noqa: N815 - names of the base class

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}"
        if certificate is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
