"""The layer around every route: strict framing, security headers, request ids, the access log.

One plain ASGI layer, so that it also covers what the framework answers by itself.
"""

from __future__ import annotations

import re
import time
import traceback
from dataclasses import dataclass, field

import structlog
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daybreak.domain.errors import DaybreakError, Forbidden, InvalidRequest, NotFound
from daybreak.web.metrics import Metrics
from daybreak.web.problems import problem_response
from daybreak.web.request_facts import SCOPE_KEY, RequestFacts, gather, host_is_good, transfer_coding_is_good
from daybreak.web.services import WebSettings

Headers = list[tuple[bytes, bytes]]
# Set unless the route has set the header itself, as pages do with the policy.
_ALWAYS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"cache-control", b"no-store"),
    (b"server", b"daybreak"),
]
_HSTS = (b"strict-transport-security", b"max-age=31536000; includeSubDomains")
# Asked by the machine beside the service, not by users.
_PLAIN_HTTP_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})

# An API token or a JSON Web Token: people put them into addresses.
_TOKEN = re.compile(r"service_api_\w+|eyJ[\w.-]+", re.ASCII)

_log = structlog.get_logger("daybreak.web")


@dataclass(slots=True)
class _Watch:
    """What went out on one request."""

    status: int = 0
    length: int = 0
    started: float = field(default_factory=time.perf_counter)


class Hardening:
    """Wraps the application. See the module for what it does."""

    def __init__(self, app: ASGIApp, settings: WebSettings, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._headers = [*_ALWAYS, _HSTS] if settings.secure else list(_ALWAYS)
        self._base_path = settings.base_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request; other kinds of connection go through, web sockets nowhere."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        facts = gather(scope, self._settings.trusted_proxies)
        scope[SCOPE_KEY] = facts
        watch = _Watch()
        send_hardened = self._hardened(send, facts, watch)
        self._metrics.started()
        try:
            refusal = self._refusal(scope, facts)
            if refusal is not None:
                await refusal(scope, receive, send_hardened)
            else:
                self._strip_base_path(scope)
                await self._app(scope, receive, send_hardened)
        except Exception as fault:  # noqa: BLE001 - the outermost layer: the framework has answered 500, the cause goes to the log
            # As text, made here: some renderers would add the values of variables.
            trace = "".join(traceback.format_exception(fault))
            _log.error("request_failed", request_id=facts.request_id, path=_logged_path(scope), trace=trace)
            if not watch.status:
                error = DaybreakError("")
                await self._problem(error, facts)(scope, receive, send_hardened)
        finally:
            self._account(scope, facts, watch)

    def _refusal(self, scope: Scope, facts: RequestFacts) -> Response | None:
        if not host_is_good(scope):
            error: DaybreakError = InvalidRequest(
                "Send exactly one Host header, with the name of the service.", code="invalid_host"
            )
            return self._problem(error, facts, {"Connection": "close"})
        if not transfer_coding_is_good(scope):
            error = InvalidRequest("The only transfer coding that is taken is chunked, once.")
            return self._problem(error, facts, {"Connection": "close"})
        if b"%00" in scope["query_string"]:
            # Databases differ in what they make of a NUL.
            return self._problem(NotFound("Nothing here has a NUL in its address."), facts)
        if self._settings.require_https and not facts.secure:
            if facts.from_loopback and scope["path"] in _PLAIN_HTTP_PATHS:
                return None
            # Refused, not redirected: the credential went over the wire in the clear already.
            error = Forbidden(
                "This service is used by https only. A credential that was sent by plain http is "
                "known to others: change it.",
                code="https_required",
            )
            return self._problem(error, facts)
        return None

    def _problem(self, error: DaybreakError, facts: RequestFacts, headers: dict[str, str] | None = None) -> Response:
        return problem_response(
            error,
            request_id=facts.request_id,
            base_url=self._settings.base_url,
            headers=headers,
        )

    def _strip_base_path(self, scope: Scope) -> None:
        """A proxy may send the path as users see it, or without the path part of `base_url`."""
        base = self._base_path
        if base and (scope["path"] == base or scope["path"].startswith(base + "/")):
            scope["path"] = scope["path"][len(base) :] or "/"
            scope["raw_path"] = scope.get("raw_path", b"")[len(base) :] or b"/"

    def _hardened(self, send: Send, facts: RequestFacts, watch: _Watch) -> Send:
        request_id = (b"x-request-id", facts.request_id.encode("ascii"))
        always = self._headers

        async def send_hardened(message: Message) -> None:
            if message["type"] == "http.response.start":
                watch.status = message["status"]
                given: Headers = list(message.get("headers", ()))
                names = {name for name, _ in given}
                for name, value in given:
                    if name == b"content-length":
                        watch.length = int(value)
                given += [header for header in always if header[0] not in names]
                given.append(request_id)
                message = {**message, "headers": given}
            await send(message)

        return send_hardened

    def _account(self, scope: Scope, facts: RequestFacts, watch: _Watch) -> None:
        seconds = time.perf_counter() - watch.started
        route = scope.get("route")
        label = getattr(route, "path", "") or "unmatched"
        self._metrics.finished(label, scope["method"], watch.status, watch.length, seconds)
        _log.info(
            "request",
            request_id=facts.request_id,
            method=scope["method"],
            path=_logged_path(scope),
            status=watch.status,
            length=watch.length,
            milliseconds=round(seconds * 1000, 2),
            address=facts.address,
            user_agent=facts.user_agent[:200],
            subject=facts.subject,
            client_id=facts.client_id,
        )


def _logged_path(scope: Scope) -> str:
    """The path without what looks like a token. Never the query string: a link's signature stands there."""
    path: str = scope["path"]
    return _TOKEN.sub("[token]", path)[:500]
