"""Signed links: whoever holds a good one gets the file, or the object store's own link to it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from daybreak import downloads
from daybreak.domain.errors import FileStoreError, Forbidden, Unavailable
from daybreak.downloads import OpenedFile
from daybreak.web.file_responses import DigestGuard, StoredBytes, file_response
from daybreak.web.file_routes import require_plain_path
from daybreak.web.metrics import Metrics
from daybreak.web.negotiation import Representation, choose
from daybreak.web.request_facts import facts_of
from daybreak.web.routing import Handler, Route, methods
from daybreak.web.services import Services

STORE_LINK_SECONDS = 60
_LONGEST_QUERY = 1024
_DOWNLOADS_AT_MOST = 4096
_log = structlog.get_logger("daybreak.web")


def link_routes(
    services: Services, metrics: Metrics, guard: DigestGuard, told: Callable[[Handler], Handler]
) -> list[Route]:
    """The one route below /download/v1/links. People hand links on: `told` makes refusals that they can read."""
    endpoint = _LinkEndpoint(services, metrics, guard)
    return [methods("/download/v1/links/{client_id}/{snapshot_id}/{file}", GET=told(endpoint.fetch))]


class _LinkEndpoint:
    def __init__(self, services: Services, metrics: Metrics, guard: DigestGuard) -> None:
        self._services = services
        self._metrics = metrics
        self._guard = guard
        self._downloads_in_parts = _DownloadsInParts()

    async def fetch(self, request: Request) -> Response:
        require_plain_path(request)
        query = request.scope["query_string"].decode("latin-1")
        if len(query) > _LONGEST_QUERY:
            raise Forbidden("This link is not good.", code="invalid_link")
        facts, sent = facts_of(request), _sent(request)
        opened = await downloads.open_link(
            self._services.downloads,
            client_id=request.path_params["client_id"],
            snapshot_id=request.path_params["snapshot_id"],
            file_name=request.path_params["file"],
            parameters=_fields(query),
            caller=facts.caller,
        )
        facts.client_id = opened.client_id
        representation = choose(
            opened.named.resource,
            opened.named.format,
            accept=_values(request, b"accept"),
            accept_encoding=_values(request, b"accept-encoding"),
            serve_gzip_as=self._services.settings.serve_gzip_as,
        )
        try:
            return await self._bytes(request, sent, opened, representation)
        except (FileStoreError, Unavailable) as fault:
            self._metrics.happened(fault.code)
            _log.error(
                "file_not_served",
                request_id=facts.request_id,
                key=opened.file.stored.key,
                code=fault.code,
                cause=fault.message,
            )
            raise

    async def _bytes(
        self, request: Request, sent: Mapping[str, str], opened: OpenedFile, representation: Representation
    ) -> Response:
        octets = self._services.files.open_local(opened.file.stored.key)
        if octets is None:
            redirect = await self._store_redirect(request, opened, representation)
            await self._record(request, sent, opened, redirect)
            return redirect
        try:
            await self._guard.check(octets, opened.file)
            response = file_response(octets, opened.file, representation, sent, method=request.method)
            await self._record(request, sent, opened, response)
        except BaseException:
            octets.close()
            raise
        if not isinstance(response, StoredBytes):
            octets.close()
        return response

    async def _record(self, request: Request, sent: Mapping[str, str], opened: OpenedFile, response: Response) -> None:
        """Puts on the trail what is about to go out; the parts of one download once."""
        if request.method != "GET" or response.status_code == 304:
            return
        caller = facts_of(request).caller
        if "range" in sent and self._downloads_in_parts.is_under_way(request.scope, caller.address):
            return
        await downloads.record_fetch(self._services.downloads, opened, caller)

    async def _store_redirect(self, request: Request, opened: OpenedFile, representation: Representation) -> Response:
        link = await self._services.files.store_link(
            opened.file.stored.key,
            seconds=STORE_LINK_SECONDS,
            file_name=representation.file_name,
            content_type=representation.content_type,
            content_encoding=representation.content_encoding,
            method=request.method,
        )
        if link is None:
            raise Unavailable("The files are away.", code="files_unavailable")
        return Response(status_code=302, headers={"Location": link.url})


class _DownloadsInParts:
    """Downloads of which a part was asked for: by link and address, the last few thousand."""

    def __init__(self) -> None:
        self._begun: OrderedDict[tuple[bytes, bytes, str], None] = OrderedDict()

    def is_under_way(self, scope: Scope, address: str) -> bool:
        """Whether this is not the first part; from then on it is."""
        download = (scope["raw_path"], scope["query_string"], address)
        if download in self._begun:
            return True
        self._begun[download] = None
        if len(self._begun) > _DOWNLOADS_AT_MOST:
            self._begun.popitem(last=False)
        return False


def _fields(query: str) -> list[tuple[str, str]]:
    """The fields as they stand there: nothing in a link needs percent-encoding, so none is undone."""
    return [(name, value) for name, _, value in (field.partition("=") for field in query.split("&"))]


def _sent(request: Request) -> dict[str, str]:
    """The headers by their names in lower case; one that is sent in several lines is one list (RFC 9110 §5.3)."""
    lines = request.scope["headers"]
    sent = {name.decode("latin-1"): value.decode("latin-1") for name, value in lines}
    if len(sent) != len(lines):
        return {name: ", ".join(_values(request, name.encode("latin-1"))) for name in sent}
    return sent


def _values(request: Request, name: bytes) -> list[str]:
    return [value.decode("latin-1") for given, value in request.scope["headers"] if given == name]
