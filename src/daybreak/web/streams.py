"""Responses that are generated while they are sent, so that their length is unknown."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from daybreak.access.fair_share import FairShare
from daybreak.domain.audit import AuditEvent, AuditQuery
from daybreak.state.stores import State
from daybreak.web.fair_queue import FairQueue, in_thread
from daybreak.web.http.files import FileAnswer
from daybreak.web.transfers import FileTransfer, with_first_piece

MAX_STREAMS = 40
_SLOTS = 2


class Streams:
    """Limits how many responses this worker generates. One per worker.

    The pieces of all streams are generated in two slots, in which accounts take turns. A client that reads slowly
    occupies a stream, but no slot.
    """

    def __init__(self) -> None:
        self._limit = FairShare(MAX_STREAMS)
        # As long as the limit, so that no stream that has started is refused a turn.
        self._queue = FairQueue("streams", _SLOTS, max_waiting=MAX_STREAMS, max_waiting_per_account=MAX_STREAMS)

    async def respond(
        self,
        request: Request,
        account: str,
        pieces: AsyncIterator[bytes],
        headers: Mapping[str, str],
        *,
        record: Callable[[], Awaitable[None]] | None = None,
    ) -> Response:
        """Return a response with these pieces, which end when the client leaves.

        The first piece is generated before, so that its error becomes a response. Then `record` is called. The response
        to HEAD has the same headers, and nothing is generated or recorded.

        Raises Unavailable(busy) for too many streams, and the errors of the first piece and of `record`.
        """
        if request.method == "HEAD":
            response = Response(headers=headers)
            # Starlette has set the length of the empty body.
            del response.headers["Content-Length"]
            return response
        with ExitStack() as resources:
            resources.enter_context(self._limit.slot(account))
            started = await with_first_piece(self._in_turn(account, pieces))
            if record is not None:
                await record()
            return FileTransfer(FileAnswer(200, headers, ()), started, resources.pop_all())

    async def collect(self, account: str, pieces: AsyncIterator[bytes]) -> bytes:
        """Generate all pieces. Raises Unavailable(busy) for too many streams, and the errors of the pieces."""
        with self._limit.slot(account):
            return b"".join([piece async for piece in self._in_turn(account, pieces)])

    async def _in_turn(self, account: str, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        while True:
            async with self._queue.slot(account):
                piece = await anext(pieces, None)
            if piece is None:
                return
            yield piece


def audit_batches(state: State, query: AuditQuery) -> Iterator[list[AuditEvent]]:
    """Yield the events of a query in batches as long as its limit. Each is a short transaction, and continues after the
    last event.

    Blocks: a filter that few events match reads all of them.
    """
    while True:
        events = _read(state, query)
        if events:
            yield events
        if len(events) < query.limit:
            return
        query = replace(query, after_id=events[-1].event_id)


def _read(state: State, query: AuditQuery) -> list[AuditEvent]:
    return state.read(lambda stores: stores.audit.read(query))


async def thread_pieces(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    while (piece := await in_thread(lambda: next(pieces, None))) is not None:
        yield piece
