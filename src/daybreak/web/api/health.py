"""Health checks of the process and of the service."""

from __future__ import annotations

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

import daybreak
from daybreak.web.api.operation import SERVICE, ApiRoute, Header, Operation, ResponseType
from daybreak.web.api.readiness import ReadinessProbe
from daybreak.web.api.responses import Health, ReadinessView

GET_HEALTH = Operation(
    operation_id="getHealth",
    summary="Check the process",
    description="Succeeds while the process runs, even if the state database or the file store is unavailable.",
    tag=SERVICE,
    body=None,
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
    body=None,
    response=_READY,
    other_responses=(_NOT_READY,),
)


def health_routes(probe: ReadinessProbe) -> list[ApiRoute]:
    """Return the routes /healthz and /readyz."""

    async def health(_request: Request) -> Response:
        return GET_HEALTH.response.create(Health("ok", daybreak.__version__))

    async def readiness(_request: Request) -> Response:
        found = await probe.check()
        if found.ready:
            return _READY.create(ReadinessView("ready", found.parts, found.failing_tasks))
        return _NOT_READY.create(ReadinessView("not ready", found.parts, found.failing_tasks), {"Retry-After": "5"})

    return [ApiRoute("/healthz", health, GET_HEALTH), ApiRoute("/readyz", readiness, GET_READINESS)]
