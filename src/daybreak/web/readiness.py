"""Whether this process can answer: the state database and the file store, asked within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from daybreak.domain.errors import DaybreakError
from daybreak.web.services import Services

_PATIENCE_SECONDS = 8.0
# A look writes to the file store, which a bucket charges for, and anybody may ask.
_GOOD_FOR_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Readiness:
    """Each part with `ok` or what is wrong with it, in words fit for anyone."""

    parts: dict[str, str]

    @property
    def ready(self) -> bool:
        return all(state == "ok" for state in self.parts.values())


class ReadinessProbe:
    """Asks the parts that an answer needs. Several askers at once share one look, and one that found all well is good
    for a second.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._looking: asyncio.Task[Readiness] | None = None
        self._well: tuple[Readiness, float] | None = None
        # A file store that hangs must not take the threads of others with it.
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="readiness")

    async def look(self) -> Readiness:
        """The state of all parts. Never raises for a part that is away."""
        loop = asyncio.get_running_loop()
        if self._well is not None and loop.time() < self._well[1] + _GOOD_FOR_SECONDS:
            return self._well[0]
        if self._looking is None or self._looking.done():
            self._looking = loop.create_task(self._look())
        return await asyncio.shield(self._looking)

    def close(self) -> None:
        """Ends its thread."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _look(self) -> Readiness:
        state = self._services.state.aread(lambda stores: stores.snapshots.current())
        loop = asyncio.get_running_loop()
        files = loop.run_in_executor(self._threads, self._services.files.probe)
        said = await asyncio.gather(_verdict(state), _verdict(files))
        found = Readiness({"state": said[0], "files": said[1]})
        self._well = (found, loop.time()) if found.ready else None
        return found


async def _verdict(asked: Awaitable[object]) -> str:
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await asked
    except DaybreakError as fault:
        return f"away ({fault.code})"
    except TimeoutError:
        return "no answer in time"
    return "ok"
