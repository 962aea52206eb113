"""Errors that no exception handler expects."""

import traceback

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daybreak.domain.errors import DaybreakError
from daybreak.web.errors import error_response
from daybreak.web.middleware.access_log import logged_path
from daybreak.web.request_state import request_id_of

_log = structlog.get_logger("daybreak.web")


class UnexpectedErrorMiddleware:
    """Log the error and return status 500. A response that has started is cut off instead.

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
            # Formatted here: some log renderers would print the values of variables.
            trace = "".join(traceback.format_exception(error))
            _log.error("request_failed", request_id=request_id_of(scope), path=logged_path(scope), trace=trace)
            if not started:
                response = error_response(scope, DaybreakError(""), base_url=self._base_url)
                await response(scope, receive, send)
