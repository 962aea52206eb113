"""Endpoints of the Delta Sharing protocol."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daybreak import sharing, table_changes
from daybreak.access.authorization import require_own
from daybreak.access.services import Services
from daybreak.catalogue.resources import RESOURCES
from daybreak.domain.identity import Principal
from daybreak.domain.snapshot import TableVersion
from daybreak.iceberg.metadata import table_id
from daybreak.sharing import SCHEMA_NAME, SHARING_PATH, SharedFile
from daybreak.table_changes import VersionRange
from daybreak.web.api.operation import token_principal
from daybreak.web.doors.client_credentials import answer_client_credentials
from daybreak.web.doors.sharing.lines import LineWriter, end_line
from daybreak.web.doors.sharing.requests import (
    Capabilities,
    capabilities_of,
    metadata_version,
    page_of,
    query_of,
    starting_version,
    table_name,
    versions_of,
)
from daybreak.web.metrics import count_event
from daybreak.web.request_state import caller_of

VERSION = "Delta-Table-Version"
_RENEWAL = timedelta(hours=1)
"""After which clients request a token again. The Python client refuses a response without it."""
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
    token = partial(answer_client_credentials, services=services, renewal=_RENEWAL)
    return [
        Route(SHARING_PATH + "/shares", endpoints.list_shares),
        Route(SHARING_PATH + "/oauth/token", token, methods=["POST"]),
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
        client_id = require_own(principal, principal.account.client_id, "share")
        return self._page(request, [_share(client_id)])

    async def get_share(self, request: Request) -> Response:
        return _json({"share": _share(await self._own_share(request))})

    async def list_schemas(self, request: Request) -> Response:
        return self._page(request, [{"name": SCHEMA_NAME, "share": await self._own_share(request)}])

    async def list_tables(self, request: Request) -> Response:
        principal = await token_principal(request, self._services)
        names = request.path_params
        client_id = sharing.require_schema(principal, names["share"], names["schema"])
        return self._page(request, _tables(client_id))

    async def list_all_tables(self, request: Request) -> Response:
        return self._page(request, _tables(await self._own_share(request)))

    async def version(self, request: Request) -> Response:
        principal = await token_principal(request, self._services)
        at = starting_version(request)
        _, table = await sharing.table_files(self._services, principal, table_name(request), at)
        return Response(headers={VERSION: str(table.version)})

    async def metadata(self, request: Request) -> Response:
        principal = await token_principal(request, self._services)
        # This response has two lines in any case.
        accepted = replace(capabilities_of(request), end_line=False)
        resource, table = await sharing.table_files(
            self._services, principal, table_name(request), metadata_version(request)
        )
        return _lines(table.version, accepted, self._writer(principal, accepted).table(resource, table))

    async def query(self, request: Request) -> Response:
        principal = await token_principal(request, self._services)
        accepted = capabilities_of(request)
        wanted, with_token = await query_of(request)
        services, name, caller = self._services, table_name(request), caller_of(request)
        writer = self._writer(principal, accepted)
        if isinstance(wanted, VersionRange):
            history = await table_changes.history(services, principal, name, wanted, caller)
            count_event("table_queried")
            changed = [file for each in history.revisions for file in (*each.removed, *each.added)]
            return _lines(history.first_version, accepted, writer.history(history), changed)
        result = await sharing.query(services, principal, name, wanted, caller)
        count_event("table_queried")
        lines = writer.query(result, versioned=wanted.at != TableVersion())
        version, keyring = result.table.version, services.keyring.current()
        of = principal.account.client_id, result.resource.name, version
        token = sharing.refresh_token(*of, keyring=keyring) if with_token else None
        return _lines(version, accepted, lines, result.files, token)

    async def changes(self, request: Request) -> Response:
        principal = await token_principal(request, self._services)
        accepted = capabilities_of(request)
        wanted, caller = versions_of(request), caller_of(request)
        result = await table_changes.changes(self._services, principal, table_name(request), wanted, caller)
        count_event("table_queried")
        lines = self._writer(principal, accepted).changes(result)
        return _lines(result.first_version, accepted, lines, [file for _, file in result.files])

    async def _own_share(self, request: Request) -> str:
        """Return the share in the path, which is that of the token. Raises Unauthenticated, Forbidden, NotFound."""
        principal = await token_principal(request, self._services)
        return require_own(principal, request.path_params["share"], "share")

    def _writer(self, principal: Principal, accepted: Capabilities) -> LineWriter:
        return LineWriter(accepted.format, principal.account.client_id, self._services.settings.snapshot.deltas)

    def _page(self, request: Request, items: list[Any]) -> Response:
        page, next_token = page_of(request, items)
        return _json({"items": page} | ({"nextPageToken": next_token} if next_token else {}))


def _share(client_id: str) -> dict[str, str]:
    return {"name": client_id, "id": client_id}


def _tables(client_id: str) -> list[dict[str, str]]:
    place = {"schema": SCHEMA_NAME, "share": client_id, "shareId": client_id}
    return [{"name": resource.name, **place, "id": table_id(client_id, resource.name)} for resource in RESOURCES]


def _json(body: object) -> Response:
    return Response(msgspec.json.encode(body), headers={"Content-Type": _JSON})


def _lines(
    version: int,
    accepted: Capabilities,
    lines: Sequence[Any],
    files: Sequence[SharedFile] = (),
    refresh_token: str | None = None,
) -> Response:
    last = [end_line(files, refresh_token)] if accepted.end_line or refresh_token is not None else []
    headers = {"Content-Type": _NDJSON, VERSION: str(version), **accepted.headers()}
    return Response(msgspec.json.Encoder().encode_lines([*lines, *last]), headers=headers)
