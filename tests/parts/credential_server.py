"""Server that issues temporary AWS credentials like an instance, a container or the security token service."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.parts.scripted_service import Reply, Request, scripted_service


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

    def answer(self, request: Request) -> Reply:
        """Return the reply to a request, which is the script of a service."""
        self.requests.append(f"{request.method} {urlsplit(request.path).path}")
        status, body = (self.error_status, "not now") if self.error_status else self._answer(request)
        return Reply(status, body.encode())

    def _answer(self, request: Request) -> tuple[int, str]:
        method, headers, parts = request.method, request.headers, urlsplit(request.path)
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
    with scripted_service(certificate) as service:
        service.script, found.url = found.answer, service.url
        yield found
