"""Download requests: a bearer credential in, a redirect to a signed link out; and the manifest."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from daybreak import downloads
from daybreak.domain.errors import NotFound
from daybreak.downloads import IssuedLink
from daybreak.web.answers import LinkResult, LinkView, json_answer
from daybreak.web.authentication import principal_of
from daybreak.web.manifest_view import manifest_view
from daybreak.web.metrics import Metrics
from daybreak.web.request_facts import facts_of
from daybreak.web.routing import Route, methods
from daybreak.web.services import Services


def file_routes(services: Services, metrics: Metrics) -> list[Route]:
    """The routes below /download/v1/files."""
    endpoints = _FileEndpoints(services, metrics)
    return [
        methods("/download/v1/files/{client_id}/{file:path}", GET=endpoints.download),
        methods("/download/v1/files/{client_id}", GET=endpoints.manifest),
    ]


class _FileEndpoints:
    def __init__(self, services: Services, metrics: Metrics) -> None:
        self._services = services
        self._metrics = metrics

    async def download(self, request: Request) -> Response:
        principal = await principal_of(request, self._services)
        require_plain_path(request)
        named = downloads.file_at(request.path_params["file"], self._services.downloads.settings.formats)
        issued = await downloads.issue_link(
            self._services.downloads,
            principal,
            request.path_params["client_id"].lower(),
            named,
            facts_of(request).caller,
        )
        self._metrics.happened("link_issued")
        return json_answer(_link_result(issued), status=302, headers={"Location": issued.url})

    async def manifest(self, request: Request) -> Response:
        principal = await principal_of(request, self._services)
        client_id = request.path_params["client_id"].lower()
        found = await downloads.manifest(self._services.downloads, principal, client_id)
        return json_answer(manifest_view(client_id, found, self._services.settings.formats))


def require_plain_path(request: Request) -> None:
    """No path of files needs percent-encoding; one that has it is an attempt to look like another.

    Raises NotFound.
    """
    raw = request.scope.get("raw_path") or b""
    if b"%" in raw:
        raise NotFound("There is no such file.", code="unknown_file")


def _link_result(issued: IssuedLink) -> LinkResult:
    file = issued.file
    return LinkResult(
        LinkView(
            url=issued.url,
            expires_at=issued.expires_at,
            snapshot_id=file.snapshot_id,
            as_of=file.as_of,
            published_at=file.published_at,
            resource=file.resource,
            format=file.format,
            rows=file.rows,
            bytes=file.stored.bytes,
            sha256=file.stored.sha256,
        )
    )
