"""An OpenID Connect provider whose responses a test can change, for attacks that no real provider sends."""

import base64
import hashlib
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey
from joserfc.jws import JWSRegistry

from tests.parts.scripted_service import Reply, Request, ScriptedService, scripted_service

CLIENT_ID = "daybreak"
CLIENT_SECRET = "correct horse & battery"


def new_key(kid: str) -> RSAKey:
    """Return a new key for signing."""
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig", "alg": "RS256"})


@cache
def first_key() -> RSAKey:
    """Return the key of a new provider. All providers of a test process have the same."""
    return new_key("first")


@dataclass
class ScriptedProvider:
    """A correct provider, until a test changes one of its parts.

    Attributes:
        keys: Published keys. The last one signs.
        claims: Changes of the claims of the next ID tokens; None removes a claim.
        metadata: Changes of the metadata.
        issue: Replaces the function that signs ID tokens.
        replies: Replies by path that replace the provider's own.
        requests: Paths that the provider received, in order.
    """

    service: ScriptedService
    keys: list[RSAKey] = field(default_factory=lambda: [first_key()])
    claims: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    userinfo: dict[str, Any] = field(default_factory=dict)
    issue: Callable[[dict[str, Any]], str] | None = None
    replies: dict[str, Reply] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def issuer(self) -> str:
        return self.service.url

    @property
    def requests(self) -> list[str]:
        return [request.path for request in self.service.requests]

    def authorize(self, url: str, **changes: str) -> dict[str, str]:
        """Return the parameters of the response to an authorization request, as the browser would receive them."""
        sent = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert (sent["response_type"], sent["code_challenge_method"]) == ("code", "S256")
        code = secrets.token_urlsafe(16)
        self.codes[code] = sent
        return {"code": code, "state": sent["state"], "iss": self.issuer, **changes}

    def sign(self, claims: dict[str, Any], key: RSAKey | None = None, **header: Any) -> str:
        """Return a signed ID token."""
        key = key or self.keys[-1]
        header = {"alg": "RS256", "kid": key.kid, **header}
        return jwt.encode(header, claims, key, registry=JWSRegistry(algorithms=[header["alg"]]))

    def reply(self, request: Request) -> Reply:
        path = urlsplit(request.path).path
        if path in self.replies:
            return self.replies[path]
        if path == "/.well-known/openid-configuration":
            return Reply(200, self._metadata())
        if path == "/jwks":
            return Reply(200, {"keys": [key.as_dict(private=False) for key in self.keys]})
        if path == "/token":
            return self._token(request)
        if path == "/userinfo":
            return Reply(200, self.userinfo)
        return Reply(404)

    def _metadata(self) -> dict[str, Any]:
        document = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            "authorization_response_iss_parameter_supported": True,
        }
        return _changed(document, self.metadata)

    def _token(self, request: Request) -> Reply:
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        if not self._is_authenticated(request, form):
            return Reply(401, {"error": "invalid_client"})
        # A code works once.
        sent = self.codes.pop(form.get("code", ""), None)
        verifier = form.get("code_verifier", "").encode()
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier).digest()).decode().rstrip("=")
        if sent is None or challenge != sent["code_challenge"] or form.get("redirect_uri") != sent["redirect_uri"]:
            return Reply(400, {"error": "invalid_grant"})
        now = int(time.time())
        claims = {
            "iss": self.issuer, "sub": "user-1", "aud": CLIENT_ID, "iat": now, "exp": now + 300,
            "nonce": sent["nonce"], "email": "rosa@example.org", "email_verified": True,
        }  # fmt: skip
        id_token = (self.issue or self.sign)(_changed(claims, self.claims))
        return Reply(200, {"access_token": "access", "token_type": "Bearer", "id_token": id_token})

    def _is_authenticated(self, request: Request, form: dict[str, str]) -> bool:
        scheme, _, value = request.headers.get("authorization", "").partition(" ")
        if scheme == "Basic":
            client_id, _, secret = base64.b64decode(value).decode().partition(":")
            return (unquote_plus(client_id), unquote_plus(secret)) == (CLIENT_ID, CLIENT_SECRET)
        return (form.get("client_id"), form.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)


def _changed(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**values, **changes}.items() if value is not None}


@contextmanager
def scripted_provider() -> Iterator[ScriptedProvider]:
    """Run a provider on a free port."""
    with scripted_service() as service:
        provider = ScriptedProvider(service)
        service.script = provider.reply
        yield provider
