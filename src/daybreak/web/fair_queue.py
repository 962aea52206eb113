"""A bounded queue for work that takes long, with a fair share for each account."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from anyio import CancelScope
from starlette.requests import ClientDisconnect, Request

from daybreak.access.fair_share import busy
from daybreak.web.metrics import QUEUE_LENGTH

T = TypeVar("T")
_INTERRUPTION_SECONDS = 0.1


class FairQueue:
    """Slots for work on one event loop. Accounts that wait take turns, and none waits for the backlog of another."""

    def __init__(self, name: str, slots: int, *, max_waiting: int, max_waiting_per_account: int) -> None:
        """Create a queue. `name` is its label in the metrics."""
        self._length = QUEUE_LENGTH.labels(name)
        self._free = slots
        self._max_waiting = max_waiting
        self._max_per_account = max_waiting_per_account
        # The next account first. An account without waiting work is left out.
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def slot(self, account: str) -> AsyncIterator[None]:
        """Wait for a slot. Raises Unavailable(busy) when too much work waits."""
        if self._free:
            self._free -= 1
        else:
            with self._length.track_inprogress():
                await self._wait(account)
        try:
            yield
        finally:
            self._release()

    async def _wait(self, account: str) -> None:
        own = len(self._waiting.get(account, ()))
        if own >= self._max_per_account:
            raise busy()
        if sum(map(len, self._waiting.values())) >= self._max_waiting:
            self._drop_from_longest(own)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(account, deque()).append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._release()
            else:
                self._forget(account, turn)
            raise

    def _drop_from_longest(self, own: int) -> None:
        """Refuse the newest work of the account that waits with the most. Raises Unavailable if that is the caller."""
        account, turns = max(self._waiting.items(), key=lambda item: len(item[1]))
        if len(turns) <= own + 1:
            raise busy()
        turn = turns[-1]
        self._forget(account, turn)
        turn.set_exception(busy())

    def _forget(self, account: str, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(account)
        if turns is not None and turn in turns:
            turns.remove(turn)
            if not turns:
                del self._waiting[account]

    def _release(self) -> None:
        """Pass the slot to the next account, or keep it free."""
        while self._waiting:
            account, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[account] = turns
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


async def in_thread(task: Callable[[], T], interrupt: Callable[[], None] = lambda: None) -> T:
    """Run a task in a thread. When canceled, interrupt it, and wait for its end: until then, it uses the slot of the
    caller. The interruption is repeated, because a task may miss one.
    """
    running = asyncio.ensure_future(asyncio.to_thread(task))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        # The scope of a response repeats its cancellation until the task has ended.
        with CancelScope(shield=True):
            while not running.done():
                interrupt()
                await asyncio.wait((running,), timeout=_INTERRUPTION_SECONDS)
        raise


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """Await work whose request has no body left to read. Cancel it when the client leaves. Raises ClientDisconnect."""
    task, left = asyncio.ensure_future(work), asyncio.ensure_future(_disconnection(request))
    try:
        await asyncio.wait((task, left), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        for each in (task, left):
            each.cancel()
        await asyncio.gather(task, left, return_exceptions=True)


async def _disconnection(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
