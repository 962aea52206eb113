"""Descriptions of the service: columns of the files, OpenAPI document and documentation pages."""

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from daybreak.catalogue.resources import resource_named
from daybreak.catalogue.table_ddl import DIALECTS, create_tables
from daybreak.catalogue.table_schema import DataPackage, data_package
from daybreak.domain.errors import FieldFault, InvalidRequest, NotFound
from daybreak.settings import Settings
from daybreak.web.api.docs.page import CONTENT_SECURITY_POLICY, PAGES, render_docs_pages
from daybreak.web.api.openapi import JsonObject, openapi_document
from daybreak.web.api.operation import SERVICE, ApiRoute, Operation, Parameter, ResponseType
from daybreak.web.theme.assets import Asset, Assets

_TEXT = "text/plain"
_EXAMPLE_TABLE = """\
CREATE TABLE communities (
  "COMMUNITY_ID" UUID NOT NULL,
  "COMMUNITY_NAME" TEXT NOT NULL,
  "LEADER_ID" UUID NOT NULL,
  "MEMBER_COUNT" BIGINT NOT NULL,
  PRIMARY KEY ("LEADER_ID", "COMMUNITY_ID")
);
"""
DIALECT = Parameter(
    "dialect",
    "query",
    "Return CREATE TABLE statements for this database.",
    DIALECTS[0],
    Annotated[str, Meta(extra_json_schema={"enum": list(DIALECTS)})],
)
GET_SCHEMA = Operation(
    operation_id="getSchema",
    summary="Get the columns",
    description="Returns names, types, meanings and known values of all columns, as a Frictionless Data Package. With "
    "`dialect`, returns SQL statements that create the nine tables.",
    tag=SERVICE,
    parameters=(DIALECT,),
    response=ResponseType(
        "The columns.",
        DataPackage,
        examples={"One of the nine resources": data_package(resources=(resource_named("communities"),))},
    ),
    other_responses=(
        ResponseType(
            "The statements.", str, (_TEXT,), examples={"One of the nine tables, with dialect": _EXAMPLE_TABLE}
        ),
    ),
)
GET_OPENAPI = Operation(
    operation_id="getOpenApi",
    summary="Get the OpenAPI document",
    description="Returns the machine-readable description of the API, with every operation, parameter, type and error.",
    tag=SERVICE,
    response=ResponseType("The document.", dict),
)
GET_DOCS = Operation(
    operation_id="getDocs",
    summary="Get the documentation page",
    description="Returns the documentation of the API as a web page.",
    tag=SERVICE,
    response=ResponseType("The page.", str, ("text/html",)),
)
_DOCS = "/docs"
_FURTHER_PAGES = tuple(page.path.removeprefix(f"{_DOCS}/") for page in PAGES if page.path != _DOCS)
GET_DOCS_PAGE = Operation(
    operation_id="getDocsPage",
    summary="Get another documentation page",
    description="Returns the documentation of a group of operations, of the files and their columns, or answers to "
    "common questions, as a web page.",
    tag=SERVICE,
    parameters=(
        Parameter(
            "page",
            "path",
            "Name of the page.",
            _FURTHER_PAGES[0],
            Annotated[str, Meta(extra_json_schema={"enum": list(_FURTHER_PAGES)})],
        ),
    ),
    response=ResponseType("The page.", str, ("text/html",)),
)


class DescriptionEndpoints:
    """Routes that describe the given routes and themselves.

    A description depends only on the settings. It is generated once, at the first request, because generating all of
    them takes longer than the rest of the start of a worker.
    """

    def __init__(self, settings: Settings, assets: Assets, routes: Sequence[ApiRoute]) -> None:
        self.routes = [
            ApiRoute("/download/v1/schema", self.schema, GET_SCHEMA),
            ApiRoute("/openapi.json", self.openapi, GET_OPENAPI),
            ApiRoute(_DOCS, self.docs, GET_DOCS),
            ApiRoute(f"{_DOCS}/{{page}}", self.docs, GET_DOCS_PAGE),
        ]
        self._settings, self._assets, self._described = settings, assets, [*routes, *self.routes]

    @cached_property
    def _document(self) -> JsonObject:
        return openapi_document(self._settings, self._described)

    @cached_property
    def _schema(self) -> Asset:
        return Asset(msgspec.json.encode(data_package(self._settings.snapshot.formats)), "application/json")

    @cached_property
    def _openapi(self) -> Asset:
        return Asset(msgspec.json.encode(self._document), "application/json")

    @cached_property
    def _docs(self) -> Mapping[str, Asset]:
        pages = render_docs_pages(self._settings, self._assets, self._document)
        return {path: Asset(content, "text/html") for path, content in pages.items()}

    async def schema(self, request: Request) -> Response:
        dialect = DIALECT.read(request)
        if dialect is None:
            return (await run_in_threadpool(lambda: self._schema)).response(request)
        if dialect not in DIALECTS:
            remedy = f"Use one of {', '.join(DIALECTS)}."
            raise InvalidRequest(f"Unknown dialect. {remedy}", faults=(FieldFault("?dialect", remedy),))
        return (await run_in_threadpool(_statements, dialect)).response(request)

    async def openapi(self, request: Request) -> Response:
        return (await run_in_threadpool(lambda: self._openapi)).response(request)

    async def docs(self, request: Request) -> Response:
        name = request.path_params.get("page")
        pages = await run_in_threadpool(lambda: self._docs)
        page = pages.get(_DOCS if name is None else f"{_DOCS}/{name}")
        if page is None:
            raise NotFound(f"Unknown page. Use one of {', '.join(_FURTHER_PAGES)}.")
        headers = {"Content-Security-Policy": CONTENT_SECURITY_POLICY, "Cache-Control": "public, max-age=300"}
        return page.response(request, headers)


@cache
def _statements(dialect: str) -> Asset:
    return Asset(create_tables(dialect).encode(), _TEXT)
