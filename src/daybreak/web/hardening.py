"""What every request passes: strict framing, its route, errors as problems, security headers, metrics, the access log.

One layer does it all. Layers around layers would each cost as much as an answer does.
"""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Awaitable, Sequence

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from daybreak.domain.errors import DaybreakError, Forbidden, InvalidRequest, NotFound
from daybreak.web.answers import Headers
from daybreak.web.metrics import Metrics
from daybreak.web.problems import MethodNotAllowed, problem_response
from daybreak.web.request_facts import SCOPE_KEY, Peers, RequestFacts, gather, host_is_good, transfer_coding_is_good
from daybreak.web.routing import Handler, Route, find_route
from daybreak.web.services import WebSettings

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


class _Outcome(msgspec.Struct):
    """What became of one request."""

    send: Send
    status: int = 0
    length: int = 0
    begun: bool = False
    route: str = "unmatched"
    started: float = msgspec.field(default_factory=time.perf_counter)

    def noting(self, message: Message) -> Awaitable[None]:
        """As `send`; from then on there is no other answer."""
        self.begun = True
        return self.send(message)


class Hardening:
    """Answers requests by their routes, and by `nowhere` what none has. See the module for what it does around them."""

    def __init__(self, routes: Sequence[Route], nowhere: Handler, settings: WebSettings, metrics: Metrics) -> None:
        self._routes = routes
        self._nowhere = nowhere
        self._settings = settings
        self._metrics = metrics
        self._headers = [*_ALWAYS, _HSTS] if settings.secure else list(_ALWAYS)
        self._base_path = settings.base_path
        self._peers = Peers(settings.trusted_proxies)
        # Bound once: finding what it is set up to do costs as much as writing a line.
        self._log = _log.bind()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one HTTP request, whatever happens."""
        facts = gather(scope, self._peers)
        scope[SCOPE_KEY] = facts
        outcome = _Outcome(send)
        self._metrics.started()
        try:
            try:
                response = self._refusal(scope, facts) or await self._routed(scope, receive, outcome)
                await self._respond(response, scope, receive, outcome, facts)
            except DaybreakError as error:
                if outcome.begun:
                    raise
                await self._respond(self._problem(error, facts), scope, receive, outcome, facts)
        except Exception as fault:  # noqa: BLE001 - the outermost layer: the answer says 500, the cause goes to the log
            # As text, made here: some renderers would add the values of variables.
            trace = "".join(traceback.format_exception(fault))
            self._log.error("request_failed", request_id=facts.request_id, path=_logged_path(scope), trace=trace)
            if not outcome.begun:
                await self._respond(self._problem(DaybreakError(""), facts), scope, receive, outcome, facts)
        finally:
            self._account(scope, facts, outcome)

    async def _routed(self, scope: Scope, receive: Receive, outcome: _Outcome) -> Response:
        self._strip_base_path(scope)
        method = scope["method"]
        route, scope["path_params"] = find_route(self._routes, method, scope["path"])
        if route is None:
            return await self._nowhere(Request(scope, receive))
        outcome.route = route.path
        handler = route.handlers.get(method)
        if handler is None:
            raise MethodNotAllowed(tuple(route.handlers))
        return await handler(Request(scope, receive))

    async def _respond(
        self, response: Response, scope: Scope, receive: Receive, outcome: _Outcome, facts: RequestFacts
    ) -> None:
        """Sends a response with the headers that all have; what the route has set itself stays."""
        given = response.raw_headers
        by_name = dict(given)
        outcome.length = int(by_name.get(b"content-length", 0))
        given += [header for header in self._headers if header[0] not in by_name]
        given.append((b"x-request-id", facts.request_id.encode("ascii")))
        outcome.status = response.status_code
        await response(scope, receive, outcome.noting)

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

    def _account(self, scope: Scope, facts: RequestFacts, outcome: _Outcome) -> None:
        seconds = time.perf_counter() - outcome.started
        self._metrics.finished(outcome.route, scope["method"], outcome.status, outcome.length, seconds)
        self._log.info(
            "request",
            request_id=facts.request_id,
            method=scope["method"],
            path=_logged_path(scope),
            status=outcome.status,
            length=outcome.length,
            # As `round` would, which first writes the number down in letters.
            milliseconds=int(seconds * 100_000 + 0.5) / 100,
            address=facts.address,
            user_agent=facts.user_agent[:200],
            subject=facts.subject,
            client_id=facts.client_id,
        )


def _logged_path(scope: Scope) -> str:
    """The path without what looks like a token. Never the query string: a link's signature stands there."""
    path: str = scope["path"]
    if "service_api_" in path or "eyJ" in path:
        path = _TOKEN.sub("[token]", path)
    return path[:500]
