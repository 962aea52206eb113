"""What operators, monitors and programs ask of the service itself."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

import daybreak
from daybreak.catalogue.table_schema import data_package
from daybreak.domain.errors import NotFound, Unavailable
from daybreak.snapshots.freshness import freshness
from daybreak.web.answers import Health, ReadinessView, json_answer
from daybreak.web.docs_page import DOCS_STYLE, docs_page
from daybreak.web.metrics import Metrics, freshness_text
from daybreak.web.openapi import openapi_document
from daybreak.web.readiness import ReadinessProbe
from daybreak.web.request_facts import facts_of
from daybreak.web.routing import Route, methods
from daybreak.web.services import Services

_HOUR = "public, max-age=3600"
_DOCS_POLICY = "default-src 'none'; style-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'"


def operations_routes(services: Services, metrics: Metrics, probe: ReadinessProbe) -> list[Route]:
    """Health, metrics, the schema of the files, and the description of this interface."""
    endpoints = _OperationsEndpoints(services, metrics, probe)
    return [
        methods("/healthz", GET=endpoints.health),
        methods("/readyz", GET=endpoints.readiness),
        methods("/metrics", GET=endpoints.metrics),
        methods("/download/v1/schema", GET=endpoints.schema),
        methods("/openapi.json", GET=endpoints.openapi),
        methods("/docs", GET=endpoints.docs),
        methods("/docs/style.css", GET=endpoints.style),
    ]


class _OperationsEndpoints:
    def __init__(self, services: Services, metrics: Metrics, probe: ReadinessProbe) -> None:
        self._services = services
        self._metrics = metrics
        self._probe = probe
        settings = services.settings
        document = openapi_document(base_url=settings.base_url, formats=settings.formats)
        self._openapi = msgspec.json.encode(document)
        self._docs = docs_page(document, contact=settings.operator_contact)
        self._schema = msgspec.json.encode(data_package(settings.formats))

    async def health(self, _request: Request) -> Response:
        return json_answer(Health("ok", daybreak.__version__))

    async def readiness(self, _request: Request) -> Response:
        found = await self._probe.look()
        body = ReadinessView("ready" if found.ready else "not ready", found.parts)
        if found.ready:
            return json_answer(body)
        return json_answer(body, status=503, headers={"Retry-After": "5"})

    async def metrics(self, request: Request) -> Response:
        allowed = self._services.settings.metrics_access
        if allowed == "off" or (allowed == "loopback" and not facts_of(request).from_loopback):
            raise NotFound("Nothing is here.")
        text, content_type = self._metrics.text()
        return Response(text + await self._freshness(), headers={"Content-Type": content_type})

    async def _freshness(self) -> bytes:
        """How fresh the files are; nothing while the state database is away, which the counters outlive."""
        services = self._services
        now, publish_at = services.clock(), services.downloads.settings.publish_at
        try:
            fresh = await services.state.aread(lambda stores: freshness(stores.snapshots, now, publish_at))
        except Unavailable:
            return b""
        return freshness_text(fresh)

    async def schema(self, _request: Request) -> Response:
        return Response(self._schema, media_type="application/json")

    async def openapi(self, _request: Request) -> Response:
        return Response(self._openapi, media_type="application/json")

    async def docs(self, _request: Request) -> Response:
        return Response(
            self._docs,
            media_type="text/html; charset=utf-8",
            headers={"Content-Security-Policy": _DOCS_POLICY},
        )

    async def style(self, _request: Request) -> Response:
        return Response(DOCS_STYLE, media_type="text/css; charset=utf-8", headers={"Cache-Control": _HOUR})
