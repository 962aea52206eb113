"""Endpoints of the Delta Sharing protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daybreak import sharing, table_changes
from daybreak.catalogue.resources import Resource
from daybreak.domain.identity import Principal
from daybreak.domain.snapshot import TableFiles, TableVersion
from daybreak.sharing import SHARING_PATH
from daybreak.web.doors.sharing import objects
from daybreak.web.doors.sharing.requests import (
    CAPABILITIES,
    page_of,
    query_of,
    require_parquet_response,
    starting_version,
    table_name,
    token_principal,
    versions_of,
    wants_historical_metadata,
)
from daybreak.web.metrics import count_event
from daybreak.web.request_state import caller_of
from daybreak.web.services import Services

VERSION = "Delta-Table-Version"
_SHARE = SHARING_PATH + "/shares/{share}"
_SCHEMA = _SHARE + "/schemas/{schema}"
_TABLE = _SCHEMA + "/tables/{table}"
_JSON = "application/json; charset=utf-8"
_NDJSON = "application/x-ndjson; charset=utf-8"


def sharing_routes(services: Services) -> list[Route]:
    """Return the routes below /sharing/v1, none unless `sharing.enabled`."""
    if not services.settings.sharing.enabled:
        return []
    endpoints = _SharingEndpoints(services)
    return [
        Route(SHARING_PATH + "/shares", endpoints.list_shares),
        Route(_SHARE, endpoints.get_share),
        Route(_SHARE + "/schemas", endpoints.list_schemas),
        Route(_SCHEMA + "/tables", endpoints.list_tables),
        Route(_SHARE + "/all-tables", endpoints.list_all_tables),
        Route(_TABLE, endpoints.version, methods=["HEAD"]),
        Route(_TABLE + "/version", endpoints.version),
        Route(_TABLE + "/metadata", endpoints.metadata),
        Route(_TABLE + "/query", endpoints.query, methods=["POST"]),
        Route(_TABLE + "/changes", endpoints.changes),
    ]


class _SharingEndpoints:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def list_shares(self, request: Request) -> Response:
        principal = await token_principal(request, self._services)
        client_id = sharing.require_share(principal, principal.account.client_id)
        return self._page(request, [objects.share(client_id)])

    async def get_share(self, request: Request) -> Response:
        principal = await token_principal(request, self._services)
        client_id = sharing.require_share(principal, request.path_params["share"])
        return _json({"share": objects.share(client_id)})

    async def list_schemas(self, request: Request) -> Response:
        principal = await token_principal(request, self._services)
        client_id = sharing.require_share(principal, request.path_params["share"])
        return self._page(request, [objects.schema(client_id)])

    async def list_tables(self, request: Request) -> Response:
        principal = await token_principal(request, self._services)
        names = request.path_params
        client_id = sharing.require_schema(principal, names["share"], names["schema"])
        return self._page(request, objects.tables(client_id))

    async def list_all_tables(self, request: Request) -> Response:
        principal = await token_principal(request, self._services)
        client_id = sharing.require_share(principal, request.path_params["share"])
        return self._page(request, objects.tables(client_id))

    async def version(self, request: Request) -> Response:
        principal = await token_principal(request, self._services)
        at = starting_version(request)
        _, table = await sharing.table_files(self._services.downloads, principal, table_name(request), at)
        return Response(headers={VERSION: str(table.version)})

    async def metadata(self, request: Request) -> Response:
        principal = await token_principal(request, self._services)
        require_parquet_response(request)
        resource, table = await sharing.table_files(self._services.downloads, principal, table_name(request))
        return _lines(table.version, objects.table_lines(self._metadata(principal, resource, table)))

    async def query(self, request: Request) -> Response:
        principal = await token_principal(request, self._services)
        require_parquet_response(request)
        wanted = await query_of(request)
        caller = caller_of(request)
        result = await sharing.query(self._services.downloads, principal, table_name(request), wanted, caller)
        count_event("table_queried")
        versioned = wanted.at != TableVersion()
        metadata = self._metadata(principal, result.resource, result.table, versioned=versioned)
        return _lines(result.table.version, objects.query_lines(metadata, result, versioned=versioned))

    async def changes(self, request: Request) -> Response:
        principal = await token_principal(request, self._services)
        require_parquet_response(request)
        wanted, caller = versions_of(request), caller_of(request)
        result = await table_changes.changes(self._services.downloads, principal, table_name(request), wanted, caller)
        count_event("table_queried")
        client_id, version = principal.account.client_id, result.first_version
        metadata = objects.metadata(client_id, result.resource, has_changes=True)
        if wants_historical_metadata(request):
            metadata["version"] = version
        return _lines(version, objects.change_lines(metadata, result))

    def _metadata(
        self, principal: Principal, resource: Resource, table: TableFiles, *, versioned: bool = False
    ) -> dict[str, Any]:
        """Return the metadata of a table at a version. `versioned`: the request selected it."""
        client_id, has_changes = principal.account.client_id, self._services.settings.snapshot.deltas
        size = {"size": sum(file.bytes for file in table.files), "numFiles": len(table.files)}
        version = {"version": table.version} if versioned else {}
        return {**objects.metadata(client_id, resource, has_changes=has_changes), **size, **version}

    def _page(self, request: Request, items: list[Any]) -> Response:
        page, next_token = page_of(request, items)
        return _json({"items": page} | ({"nextPageToken": next_token} if next_token else {}))


def _json(body: object) -> Response:
    return Response(msgspec.json.encode(body), headers={"Content-Type": _JSON})


def _lines(version: int, lines: Sequence[Any]) -> Response:
    headers = {"Content-Type": _NDJSON, VERSION: str(version), CAPABILITIES: "responseformat=parquet"}
    return Response(objects.ndjson(lines), headers=headers)
