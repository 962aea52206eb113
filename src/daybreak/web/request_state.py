"""State of a request, which middleware records in `scope["state"]` and Starlette exposes as `request.state`."""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.types import Message, Scope, Send

from daybreak.credentials.redaction import redact
from daybreak.domain.identity import Caller

_USER_AGENT_CHARACTERS = 300


class Client(msgspec.Struct, frozen=True):
    """The client behind any trusted proxies.

    Attributes:
        address: IP address, "" when unknown.
        secure: Whether the client connected over HTTPS.
        loopback: Whether the request comes from this machine, not through a proxy.
        proxied: Whether a trusted proxy sent the request.
    """

    address: str
    secure: bool
    loopback: bool
    proxied: bool


class ResponseHead:
    """Notes the status and the Content-Length of a response while it is sent. Both are 0 if unknown."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = self.length = 0

    async def send(self, message: Message) -> None:
        """Pass a message on."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.length = next((int(value) for name, value in message["headers"] if name == b"content-length"), 0)
        await self._send(message)


def state_of(scope: Scope) -> dict[str, Any]:
    """Return the state of a request, creating it for servers that provide none."""
    state: dict[str, Any] = scope.setdefault("state", {})
    return state


def client_of(scope: Scope) -> Client:
    """Return the client found by `ClientAddressMiddleware`."""
    client: Client = scope["state"]["client"]
    return client


def response_head_of(scope: Scope) -> ResponseHead:
    """Return the head of the response, which `AccessLogMiddleware` notes."""
    head: ResponseHead = scope["state"]["response_head"]
    return head


def request_id_of(scope: Scope) -> str:
    """Return the id assigned by `RequestIdMiddleware`."""
    request_id: str = scope["state"]["request_id"]
    return request_id


def user_agent_of(scope: Scope) -> str:
    """Return the start of the User-Agent header without secrets, "" without one."""
    state = state_of(scope)
    agent: str | None = state.get("user_agent")
    if agent is None:
        sent = next((value for name, value in scope["headers"] if name == b"user-agent"), b"")
        agent = state["user_agent"] = redact(str(sent[:_USER_AGENT_CHARACTERS], "latin-1"))
    return agent


def caller_of(request: Request) -> Caller:
    """Return the sender of a request, as throttles and the audit trail record it."""
    scope = request.scope
    return Caller(client_of(scope).address, user_agent_of(scope), request_id_of(scope))


def record_subject(request: Request, subject: str, client_id: str = "") -> None:
    """Record the credential and the account of a request for the access log."""
    request.state.subject = subject
    request.state.client_id = client_id


def record_refusal(scope: Scope, code: str) -> None:
    """Record the error code of a refused request for the access log."""
    state_of(scope)["code"] = code
