"""Log lines of requests: one for each, and one for an error that no exception handler expects."""

import re
import time
import traceback

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daybreak.credentials.redaction import redact
from daybreak.domain.errors import DaybreakError
from daybreak.web.errors import error_response
from daybreak.web.request_state import ResponseHead, client_of, record_refusal, request_id_of, state_of, user_agent_of

# The server decodes a path once. A client may have encoded the question mark several times.
_QUERY = re.compile(r"\?|%(?:25)*3f", re.IGNORECASE)
_READ_CHARACTERS = 4000
_PATH_CHARACTERS = 500
_USER_AGENT_CHARACTERS = 200
_METHOD_CHARACTERS = 32
_log = structlog.get_logger("daybreak.web")


class AccessLogMiddleware:
    """Log each request when its response has ended."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        # Binding a logger takes as long as writing a line.
        self._log = _log.bind()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        head = state_of(scope)["response_head"] = ResponseHead(send)
        try:
            await self._app(scope, receive, head.send)
        finally:
            state = state_of(scope)
            self._log.info(
                "request",
                request_id=request_id_of(scope),
                method=redact(scope["method"])[:_METHOD_CHARACTERS],
                path=logged_path(scope),
                status=head.status,
                length=head.length,
                milliseconds=int((time.perf_counter() - started) * 100_000 + 0.5) / 100,
                address=client_of(scope).address,
                user_agent=user_agent_of(scope)[:_USER_AGENT_CHARACTERS],
                subject=state.get("subject", ""),
                client_id=state.get("client_id", ""),
                # Why the request was refused, such as `not_your_account`, `invalid_token` or `cross_site`.
                code=state.get("code", ""),
            )


def logged_path(scope: Scope) -> str:
    """Return the path without secrets. The query string is never logged: it holds a link's signature."""
    path: str = scope["path"][:_READ_CHARACTERS]
    return redact(_QUERY.split(path, 1)[0])[:_PATH_CHARACTERS]


class UnexpectedErrorMiddleware:
    """Log the error and return status 500. A response that has started is cut off instead, also by an expected error.

    Starlette's own ServerErrorMiddleware is outermost, so its response would lack the headers and the log line of the
    middleware around this one.
    """

    def __init__(self, app: ASGIApp, base_url: str) -> None:
        self._app = app
        self._base_url = base_url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def send_and_note(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except Exception as error:  # noqa: BLE001 - the outermost handler: the response is 500, the cause goes to the log
            # Starlette raises another error from one that a handler would answer, if the response has started.
            cause = error.__cause__
            if started and isinstance(cause, DaybreakError):
                record_refusal(scope, cause.code)
                _log.error("response_cut_off", request_id=request_id_of(scope), code=cause.code, cause=cause.message)
                return
            # Formatted here: some log renderers would print the values of variables.
            trace = "".join(traceback.format_exception(error))
            _log.error("request_failed", request_id=request_id_of(scope), path=logged_path(scope), trace=trace)
            if not started:
                response = error_response(scope, DaybreakError(""), base_url=self._base_url)
                await response(scope, receive, send)
