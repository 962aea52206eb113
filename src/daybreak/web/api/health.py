"""Health checks of the process and of the service."""

import asyncio
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Annotated

import msgspec
from starlette.requests import Request
from starlette.responses import Response

import daybreak
from daybreak.access.services import Services
from daybreak.domain.errors import DaybreakError
from daybreak.state.stores import Stores
from daybreak.web.api.examples import field
from daybreak.web.api.operation import SERVICE, ApiRoute, Header, Operation, ResponseType

_TIMEOUT_SECONDS = 8.0
# A check writes to the file store, which costs money in a bucket, and every client can request it.
_CACHE_SECONDS = 1.0


class Health(msgspec.Struct, frozen=True):
    """State of the process."""

    status: Annotated[str, field("Always `ok`.", "ok")]
    version: Annotated[str, field("Version of Daybreak.", daybreak.__version__)]


class ReadinessView(msgspec.Struct, frozen=True):
    """State of the service."""

    status: Annotated[str, field("`ready` or `not ready`.", "ready")]
    parts: Annotated[
        dict[str, str],
        field("State of the database and of the file store: `ok`, or a fault.", {"state": "ok", "files": "ok"}),
    ]
    failing_tasks: Annotated[
        tuple[str, ...],
        field("Background tasks that failed and are tried again, such as `mail`. Requests do not need them.", []),
    ] = ()

    @property
    def ready(self) -> bool:
        return self.status == "ready"


GET_HEALTH = Operation(
    operation_id="getHealth",
    summary="Check the process",
    description="Succeeds while the process runs, even if the state database or the file store is unavailable.",
    tag=SERVICE,
    response=ResponseType("The process runs.", Health),
)
_READY = ResponseType("The service is ready.", ReadinessView)
_NOT_READY = replace(
    _READY,
    description="The state database or the file store is unavailable.",
    status=503,
    headers=(Header("Retry-After", "Seconds to wait before the next attempt.", "5"),),
    examples={"Not ready": ReadinessView("not ready", {"state": "ok", "files": "unavailable (files_unavailable)"})},
)
GET_READINESS = Operation(
    operation_id="getReadiness",
    summary="Check readiness",
    description="Checks that the state database and the file store respond.",
    tag=SERVICE,
    response=_READY,
    other_responses=(_NOT_READY,),
)


class ReadinessProbe:
    """Checks the parts that requests need. Concurrent callers share one check, and a success is cached for a second."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._running: asyncio.Task[ReadinessView] | None = None
        self._cached: tuple[ReadinessView, float] | None = None
        # A separate thread, so that a file store that hangs does not occupy the shared threads.
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="readiness")

    async def check(self) -> ReadinessView:
        """Return the state of all parts. An unavailable part is not an error."""
        loop = asyncio.get_running_loop()
        if self._cached is not None and loop.time() < self._cached[1] + _CACHE_SECONDS:
            return self._cached[0]
        if self._running is None or self._running.done():
            self._running = loop.create_task(self._check())
        return await asyncio.shield(self._running)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _check(self) -> ReadinessView:
        failing: list[str] = []

        def read(stores: Stores) -> None:
            stores.snapshots.current()
            # Without the endpoint of a webhook: the response is public.
            failing[:] = sorted({each.task.partition(" ")[0] for each in stores.task_faults.list_all()})

        state = self._services.state.aread(read)
        loop = asyncio.get_running_loop()
        files = loop.run_in_executor(self._threads, self._services.files.probe)
        states = await asyncio.gather(_state_of(state), _state_of(files))
        status = "ready" if all(each == "ok" for each in states) else "not ready"
        found = ReadinessView(status, {"state": states[0], "files": states[1]}, tuple(failing))
        self._cached = (found, loop.time()) if found.ready else None
        return found


async def _state_of(check: Awaitable[object]) -> str:
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            await check
    except DaybreakError as error:
        return f"unavailable ({error.code})"
    except TimeoutError:
        return "no answer in time"
    return "ok"


def health_routes(probe: ReadinessProbe) -> list[ApiRoute]:
    """Return the routes /healthz and /readyz."""

    async def health(_request: Request) -> Response:
        return GET_HEALTH.response.create(Health("ok", daybreak.__version__))

    async def readiness(_request: Request) -> Response:
        found = await probe.check()
        return _READY.create(found) if found.ready else _NOT_READY.create(found, {"Retry-After": "5"})

    return [ApiRoute("/healthz", health, GET_HEALTH), ApiRoute("/readyz", readiness, GET_READINESS)]
