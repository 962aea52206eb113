"""Signed links: the file, or a redirect to the object store."""

from __future__ import annotations

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from daybreak import downloads
from daybreak.domain.errors import Forbidden
from daybreak.web.api.files import require_plain_path
from daybreak.web.api.link_operation import link_operation
from daybreak.web.api.operation import ApiRoute
from daybreak.web.file_sender import FileSender
from daybreak.web.http.files import entity_of
from daybreak.web.http.negotiation import choose, stored_representation
from daybreak.web.request_state import caller_of, record_subject
from daybreak.web.services import Services

LINK_ROUTE = "link"
_MAX_QUERY_CHARACTERS = 1024


def link_routes(services: Services, sender: FileSender) -> list[ApiRoute]:
    """Return the route below /download/v1/links."""
    endpoint = _LinkEndpoint(services, sender)
    path, operation = "/download/v1/links/{client_id}/{snapshot_id}/{file}", link_operation(services.settings)
    return [ApiRoute(path, endpoint.fetch, operation, name=LINK_ROUTE)]


class _LinkEndpoint:
    def __init__(self, services: Services, sender: FileSender) -> None:
        self._services = services
        self._sender = sender

    async def fetch(self, request: Request) -> Response:
        require_plain_path(request)
        query = request.scope["query_string"].decode("latin-1")
        if len(query) > _MAX_QUERY_CHARACTERS:
            raise Forbidden("Invalid link.", code="invalid_link")
        parts = request.path_params
        link = downloads.LinkRequest(parts["client_id"], parts["snapshot_id"], parts["file"], _parameters(query))
        opened = await downloads.open_link(self._services.downloads, link, caller_of(request))
        record_subject(request, "", opened.client_id)
        serve_gzip_as = self._services.settings.files.serve_gzip_as
        resource, file_format = opened.named.resource, opened.named.format
        representation = choose(
            resource,
            file_format,
            accept=request.headers.getlist("accept"),
            accept_encoding=request.headers.getlist("accept-encoding"),
            serve_gzip_as=opened.serve_gzip_as or serve_gzip_as,
        )
        # An object store sends one representation only.
        redirect = representation == stored_representation(resource, file_format, serve_gzip_as)
        if opened.saved_name is not None:
            name = opened.saved_name._replace(file_name=representation.file_name).text
            representation = replace(representation, file_name=name)
        return await self._sender.send(request, opened, entity_of(opened.file, representation), redirect=redirect)


def _parameters(query: str) -> list[tuple[str, str]]:
    """Split the query without decoding it, because links contain no percent-encoding."""
    return [(name, value) for name, _, value in (field.partition("=") for field in query.split("&"))]
