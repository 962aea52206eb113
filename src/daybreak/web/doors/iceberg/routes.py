"""Endpoints of the Iceberg REST catalog. All that change something answer 406."""

from datetime import timedelta
from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daybreak.access.authorization import require_own
from daybreak.access.services import Services
from daybreak.attached_files import REGION, issue_session_key
from daybreak.catalogue.resources import RESOURCE_NAMES, require_table
from daybreak.domain.identity import Principal
from daybreak.domain.snapshot import milliseconds
from daybreak.downloads import recorded_request
from daybreak.iceberg.metadata import Table, load_table, metadata
from daybreak.sharing import SCHEMA_NAME, TABLE_QUERIED, require_namespace
from daybreak.web.api.operation import token_principal
from daybreak.web.doors.client_credentials import answer_client_credentials
from daybreak.web.doors.iceberg.errors import ICEBERG_PATH, TOKENS_PATH, error_model
from daybreak.web.metrics import count_event
from daybreak.web.request_state import caller_of

_WAREHOUSE = "/{prefix}"
_NAMESPACE = _WAREHOUSE + "/namespaces/{namespace}"
_TABLE = _NAMESPACE + "/tables/{table}"
_METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH"]
# Clients do not renew them during a query. Every request checks the API token too.
_CREDENTIALS_LIFETIME = timedelta(hours=12)


def iceberg_routes(services: Services) -> list[Route]:
    """Return the routes below /iceberg/v1, none unless `attach.iceberg`."""
    if not services.settings.attach.iceberg:
        return []
    endpoints = _CatalogEndpoints(services)
    return [
        Route(ICEBERG_PATH + "/config", endpoints.config),
        Route(TOKENS_PATH, partial(answer_client_credentials, services=services), methods=["POST"]),
        *(Route(ICEBERG_PATH + path, endpoint, methods=methods) for methods, path, endpoint in endpoints.operations),
        Route(ICEBERG_PATH + "/{path:path}", _unsupported, methods=_METHODS),
    ]


class _CatalogEndpoints:
    def __init__(self, services: Services) -> None:
        self._services = services
        # Those that `config` lists, with the methods that it names.
        self.operations = (
            (["GET"], _WAREHOUSE + "/namespaces", self.list_namespaces),
            (["GET", "HEAD"], _NAMESPACE, self.namespace),
            (["GET"], _NAMESPACE + "/tables", self.list_tables),
            (["GET", "HEAD"], _TABLE, self.table),
            (["GET"], _TABLE + "/credentials", self.credentials),
            (["POST"], _TABLE + "/metrics", self.metrics),
        )

    async def config(self, request: Request) -> Response:
        principal = await token_principal(request, self._services)
        warehouse = request.query_params.get("warehouse", principal.account.client_id)
        client_id = require_own(principal, warehouse, "warehouse")
        listed = [f"{method} /v1{path}" for methods, path, _ in self.operations for method in methods]
        return _json({"defaults": {}, "overrides": {"prefix": client_id}, "endpoints": listed})

    async def list_namespaces(self, request: Request) -> Response:
        await self._warehouse(request)
        parent = request.query_params.get("parent", "")
        if parent:
            require_namespace(parent, "namespace")
        return _json({"namespaces": [] if parent else [[SCHEMA_NAME]]})

    async def namespace(self, request: Request) -> Response:
        await self._namespace(request)
        if request.method == "HEAD":
            return Response(status_code=204)
        return _json({"namespace": [SCHEMA_NAME], "properties": {}})

    async def list_tables(self, request: Request) -> Response:
        await self._namespace(request)
        return _json({"identifiers": [{"namespace": [SCHEMA_NAME], "name": name} for name in RESOURCE_NAMES]})

    async def table(self, request: Request) -> Response:
        principal = await self._namespace(request)
        if request.method == "HEAD":
            await load_table(self._services, principal.account.client_id, request.path_params["table"])
            return Response(status_code=204)
        table = await self._recorded_table(request, principal)
        location = f"{table.location}/{table.versions[-1].metadata_name}"
        credentials = await self._credentials(principal)
        return _json(
            {
                "metadata-location": location,
                "metadata": metadata(table),
                "config": credentials[0]["config"],
                "storage-credentials": credentials,
            }
        )

    async def credentials(self, request: Request) -> Response:
        principal = await self._namespace(request)
        await self._recorded_table(request, principal)
        return _json({"storage-credentials": await self._credentials(principal)})

    async def metrics(self, request: Request) -> Response:
        await self._namespace(request)
        require_table(request.path_params["table"])
        return Response(status_code=204)

    async def _warehouse(self, request: Request) -> Principal:
        principal = await token_principal(request, self._services)
        require_own(principal, request.path_params["prefix"], "warehouse")
        return principal

    async def _namespace(self, request: Request) -> Principal:
        principal = await self._warehouse(request)
        require_namespace(request.path_params["namespace"], "namespace")
        return principal

    async def _recorded_table(self, request: Request, principal: Principal) -> Table:
        """Load a table. The request counts as one link, and is in the audit trail."""
        services, caller = self._services, caller_of(request)
        async with recorded_request(services, principal, caller, TABLE_QUERIED, {}) as details:
            table = await load_table(services, principal.account.client_id, request.path_params["table"])
            details |= {"table": table.name, "version": table.versions[-1].version}
        count_event("table_queried")
        return table

    async def _credentials(self, principal: Principal) -> list[dict[str, Any]]:
        """Return keys for the S3 endpoint as properties of Iceberg's file readers."""
        services = self._services
        key = await issue_session_key(services, principal, _CREDENTIALS_LIFETIME)
        assert key.expires_at is not None  # session keys expire
        config = {
            # ClickHouse repeats the bucket if the last slash is missing.
            "s3.endpoint": services.settings.attach_url + "/",
            "s3.access-key-id": key.access_key_id,
            "s3.secret-access-key": key.secret,
            "s3.session-token": key.session_token,
            "s3.session-token-expires-at-ms": str(milliseconds(key.expires_at)),
            "s3.path-style-access": "true",
            "s3.region": REGION,
            "client.region": REGION,
        }
        return [{"prefix": f"s3://{principal.account.client_id}/", "config": config}]


async def _unsupported(_request: Request) -> Response:
    return error_model(406, "UnsupportedOperationException", "This catalog is read only, and has no such operation.")


def _json(body: object) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")
