"""Signed statements, the trust file, and revoked keys."""

from collections.abc import Callable
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from daybreak.access.services import Services
from daybreak.account_statements import account_statement
from daybreak.domain.errors import NotFound
from daybreak.domain.signing import Trust
from daybreak.state.stores import Stores
from daybreak.web.api.files import CLIENT_ID
from daybreak.web.api.operation import (
    FILES,
    SERVICE,
    SESSION_OR_API_TOKEN,
    AnyOperation,
    ApiRoute,
    Operation,
    Parameter,
    ResponseType,
    principal_of,
)
from daybreak.web.request_state import caller_of

_MAX_NAME = 60
_TEXT = ("text/plain",)
_EDITION = Parameter("edition", "path", "Version and revision.", "48.1")
_PROBLEMS = ("no_statement", "rate_limited", "files_unavailable", "file_damaged", "file_store_fault")
_SIGNATURE = ResponseType("The signature, as `ssh-keygen -Y verify` reads it.", str, _TEXT)
GET_STATEMENT: AnyOperation = Operation(
    operation_id="getStatement",
    summary="Get the signed statement",
    description="Returns the statement about the current files: digests, rows, deltas, and the rows of the source that "
    "are in no file, by rule. Check it with its signature, then the files with its digests.",
    tag=FILES,
    credential=SESSION_OR_API_TOKEN,
    parameters=(CLIENT_ID,),
    response=ResponseType("The statement, in-toto Statement v1.", dict),
    problems=("snapshot_not_ready", *_PROBLEMS),
)
GET_SIGNATURE = replace(
    GET_STATEMENT,
    operation_id="getStatementSignature",
    summary="Get the signature of the statement",
    description="Returns the signature of the current statement.",
    response=_SIGNATURE,
)
GET_KEPT_STATEMENT = replace(
    GET_STATEMENT,
    operation_id="getKeptStatement",
    summary="Get a statement by version",
    description="Returns the statement of a snapshot that is kept. An erasure makes another revision.",
    parameters=(CLIENT_ID, _EDITION),
    problems=_PROBLEMS,
)
GET_KEPT_SIGNATURE = replace(
    GET_SIGNATURE,
    operation_id="getKeptStatementSignature",
    summary="Get a signature by version",
    description="Returns the signature of the statement of a snapshot that is kept.",
    parameters=(CLIENT_ID, _EDITION),
    problems=_PROBLEMS,
)
GET_TRUST = Operation(
    operation_id="getTrust",
    summary="Get the trust file",
    description="Returns the keys whose signatures to accept, as `ssh-keygen` reads them (`allowed_signers`), with a "
    "version. Compare it over another channel before the first use.",
    tag=SERVICE,
    response=ResponseType("The trust file.", str, _TEXT),
    problems=("no_statement",),
)
GET_TRUST_SIGNATURE = replace(
    GET_TRUST,
    operation_id="getTrustSignature",
    summary="Get the signature of the trust file",
    description="Returns the signature that the recovery key made.",
    response=_SIGNATURE,
)
GET_REVOKED = replace(
    GET_TRUST,
    operation_id="getRevokedKeys",
    summary="List revoked keys",
    description="Returns the revoked keys for `ssh-keygen -Y verify -r`, one per line. Empty if none is revoked.",
    response=ResponseType("The list.", str, _TEXT),
    problems=(),
)


def statement_routes(services: Services) -> list[ApiRoute]:
    """Return the routes of statements and of the trust file. They precede those of files."""
    files = "/download/v1/files/{client_id}"
    return [
        _statement_route(services, f"{files}/statement.json", GET_STATEMENT),
        _statement_route(services, f"{files}/statement.json.sig", GET_SIGNATURE),
        _statement_route(services, f"{files}/statements/{{edition}}.json", GET_KEPT_STATEMENT),
        _statement_route(services, f"{files}/statements/{{edition}}.json.sig", GET_KEPT_SIGNATURE),
        _text_route(services, "/download/v1/trust", GET_TRUST, lambda stores: _trust(stores, Trust.text)),
        _text_route(
            services,
            "/download/v1/trust.sig",
            GET_TRUST_SIGNATURE,
            lambda stores: _trust(stores, lambda trust: trust.signature),
        ),
        _text_route(services, "/download/v1/trust/revoked", GET_REVOKED, _revoked),
    ]


def _statement_route(services: Services, path: str, operation: AnyOperation) -> ApiRoute:
    async def endpoint(request: Request) -> Response:
        principal = await principal_of(request, services)
        edition = request.path_params.get("edition")
        client_id, name = request.path_params["client_id"].lower(), request.url.path.rpartition("/")[2][:_MAX_NAME]
        content = await account_statement(services, principal, client_id, caller_of(request), name, edition)
        return Response(content, media_type=operation.response.media_types[0])

    return ApiRoute(path, endpoint, operation)


def _text_route(services: Services, path: str, operation: AnyOperation, read: Callable[[Stores], str]) -> ApiRoute:
    async def endpoint(_request: Request) -> Response:
        return Response(await services.state.aread(read), media_type=operation.response.media_types[0])

    return ApiRoute(path, endpoint, operation)


def _trust(stores: Stores, text_of: Callable[[Trust], str]) -> str:
    trust = stores.signatures.trust()
    text = "" if trust is None else text_of(trust)
    if not text:
        raise NotFound("This service has not signed anything.", code="no_statement")
    return text


def _revoked(stores: Stores) -> str:
    return "".join(f"{key}\n" for key in stores.signatures.revoked())
