"""A server that gives Amazon keys for a while, as an instance, a container and the security token service do."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs


@dataclass
class KeyGiver:
    """What it gives, how long that lasts, and what it was asked. With `refusal` it answers that status instead."""

    access_key: str = "ACCESS"
    secret_key: str = "secret"
    token: str = "token"
    lasts: timedelta = timedelta(hours=1)
    refusal: int = 0
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def answer(self, method: str, path: str, headers: dict[str, str], body: str) -> tuple[int, str]:
        """Status and text, as the three services answer."""
        self.asked.append(f"{method} {path}")
        if self.refusal:
            return self.refusal, "not now"
        expiration = f"{datetime.now(UTC) + self.lasts:%Y-%m-%dT%H:%M:%SZ}"
        as_json = json.dumps(
            {"AccessKeyId": self.access_key, "SecretAccessKey": self.secret_key, "Token": self.token,
             "Expiration": expiration, "Code": "Success"}
        )  # fmt: skip
        if (method, path) == ("PUT", "/latest/api/token"):
            return 200, "session"
        if path.startswith("/latest/meta-data/iam/security-credentials/"):
            if headers.get("x-aws-ec2-metadata-token") != "session":
                return 401, "no token"
            return 200, as_json if path.endswith("/the-role") else "the-role"
        if path == "/container":
            return (200, as_json) if headers.get("authorization") == "container-token" else (403, "no token")
        if method == "POST":
            form = {name: values[0] for name, values in parse_qs(body).items()}
            if form.get("WebIdentityToken") != "web-token" or form.get("RoleArn") != "arn:role":
                return 400, "<Error><Code>InvalidIdentityToken</Code></Error>"
            return 200, (
                "<AssumeRoleWithWebIdentityResponse><Credentials>"
                f"<AccessKeyId>{self.access_key}</AccessKeyId><SecretAccessKey>{self.secret_key}</SecretAccessKey>"
                f"<SessionToken>{self.token}</SessionToken><Expiration>{expiration}</Expiration>"
                "</Credentials></AssumeRoleWithWebIdentityResponse>"
            )
        return 404, "unknown"


@contextmanager
def key_giver() -> Iterator[KeyGiver]:
    """One on a free port of 127.0.0.1."""
    giver = KeyGiver()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, text = giver.answer(self.command, self.path, headers, body)
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_PUT = do_POST = _answer  # noqa: N815 - the names the server looks for

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        giver.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield giver
        finally:
            server.shutdown()
            thread.join()
