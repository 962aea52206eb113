"""Descriptions of operations, a route with a description, and the bearer token of a request (RFC 6750 §2.1).

A description adds texts, types, parameters, accepted tokens and errors to a route. Endpoints use it to read bodies and
to create responses. `openapi` generates the OpenAPI document from it.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Generic, Literal, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from daybreak.access import api_tokens, sessions
from daybreak.access.api_tokens import PREFIX
from daybreak.access.services import Services
from daybreak.access.sessions import ActiveSession
from daybreak.domain.errors import Forbidden, Unauthenticated
from daybreak.domain.identity import Principal, ResolvedSession
from daybreak.web.http.bodies import read_json
from daybreak.web.http.problems import PROBLEMS
from daybreak.web.request_state import caller_of, record_subject

T = TypeVar("T")
View = TypeVar("View", bound=msgspec.Struct)
Body = TypeVar("Body")
JSON = ("application/json",)

# Any request can have these errors, before or in its endpoint.
_COMMON_PROBLEMS = ("invalid_request", "invalid_host", "not_found", "uri_too_long", "head_too_large", "internal_error")
_BODY_PROBLEMS = ("unsupported_media_type", "body_too_large", "request_timeout")

_MAX_CREDENTIAL_CHARACTERS = 4096
_SESSION_PROBLEMS = ("missing_token", "invalid_token", "token_expired", "session_ended", "state_unavailable", "busy")


@dataclass(frozen=True, slots=True)
class Tag:
    """Group of operations."""

    name: str
    description: str


AUTHENTICATION = Tag("Authentication", "Sign in with email and password, and choose an account.")
FILES = Tag("Files", "List an account's files, request download links, read the audit trail.")
LINKS = Tag("Links", "Download a file with a signed link.")
SERVICE = Tag("Service", "Health checks and machine-readable descriptions.")
TAGS = (AUTHENTICATION, FILES, LINKS, SERVICE)


@dataclass(frozen=True, slots=True)
class Credential:
    """Bearer tokens that an operation accepts.

    Attributes:
        schemes: Names of security schemes, any of which is accepted.
        problems: Codes of the errors of a missing, invalid or insufficient token.
    """

    schemes: tuple[str, ...]
    problems: tuple[str, ...]


# The codes that the functions of this module raise, and those of the account in the path.
PENDING_LOGIN = Credential(("pending_login",), _SESSION_PROBLEMS)
SESSION = Credential(("session",), (*_SESSION_PROBLEMS, "session_required", "second_factor_required"))
SESSION_OR_API_TOKEN = Credential(
    ("session", "api_token"),
    (
        *_SESSION_PROBLEMS,
        "token_revoked",
        "second_factor_required",
        "not_your_account",
        "wrong_context",
        "account_inactive",
        "data_export_required",
        "async_rest_api_required",
        "api_tokens_disabled",
        "address_not_allowed",
    ),
)

API_TOKEN = Credential(
    ("api_token",),
    tuple(
        problem
        for problem in SESSION_OR_API_TOKEN.problems
        if problem not in {"session_ended", "second_factor_required", "not_your_account", "wrong_context"}
    ),
)


@dataclass(frozen=True, slots=True)
class Parameter:
    """Parameter in the path, the query or a header."""

    name: str
    location: Literal["path", "query", "header"]
    description: str
    example: str | int
    type: object = str
    required: bool = False

    def read(self, request: Request) -> str | None:
        """Return the value of a query or header parameter, None without it."""
        values: Mapping[str, str] = request.query_params if self.location == "query" else request.headers
        return values.get(self.name)


@dataclass(frozen=True, slots=True)
class Header:
    """Response header. A required one is in every response of its status."""

    name: str
    description: str
    example: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class ResponseType(Generic[T]):
    """Response that is not a problem.

    Attributes:
        description: What the client receives.
        body_type: Type of the body; `NoneType` without one, `bytes` for binary content.
        media_types: Media types of the body.
        status: HTTP status.
        headers: Headers besides `X-Request-Id`.
        examples: Example bodies by title. If empty, one is composed from the examples of the fields.
    """

    description: str
    body_type: type[T]
    media_types: tuple[str, ...] = JSON
    status: int = 200
    headers: tuple[Header, ...] = ()
    examples: Mapping[str, T] = field(default_factory=dict)

    def create(self, body: T, headers: Mapping[str, str] | None = None) -> Response:
        """Return the response with a JSON body, or without a body."""
        if self.body_type is NoneType:
            return Response(status_code=self.status, headers=headers)
        return Response(msgspec.json.encode(body), self.status, headers, self.media_types[0])


@dataclass(frozen=True, slots=True)
class Variant:
    """One value of a path parameter that spans several segments, described as a separate operation."""

    value: str
    operation_id: str
    summary: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[T]):
    """Description of one method of a route. Its texts may contain the values of `openapi.facts`: `{link_lifetime}`.

    Attributes:
        operation_id: Name of the operation in generated clients.
        summary: Title.
        description: Further sentences; `backticks` mark code.
        body: Type of the JSON request body, None without one.
        response: The usual response.
        other_responses: Further responses that are not problems.
        credential: Accepted tokens, None for a public operation.
        parameters: All parameters. Path parameters must be those of the route.
        problems: Codes of the operation's own errors, besides those of its credential and body.
        variants: Values of a path parameter that spans several segments, which OpenAPI cannot describe.
    """

    operation_id: str
    summary: str
    tag: Tag
    response: ResponseType[T]
    body: type[Any] | None = None
    description: str = ""
    other_responses: tuple[ResponseType[Any], ...] = ()
    credential: Credential | None = None
    parameters: tuple[Parameter, ...] = ()
    problems: tuple[str, ...] = ()
    variants: tuple[Variant, ...] = ()

    @property
    def problem_codes(self) -> list[str]:
        """Codes of all errors, in the order of `PROBLEMS`.

        Raises:
            ValueError: a code is not in `PROBLEMS`.
        """
        codes = {*_COMMON_PROBLEMS, *self.problems}
        if self.credential is not None:
            codes.update(self.credential.problems)
        if self.body is not None:
            codes.update(_BODY_PROBLEMS)
        return sorted(codes, key=list(PROBLEMS).index)


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyOperation(Operation[T], Generic[Body, T]):
    """Operation with a JSON request body."""

    body: type[Body]

    async def read(self, request: Request) -> Body:
        """Read the body of a request. Raises the errors of `read_json`."""
        return await read_json(request, self.body)


AnyOperation = Operation[Any]


class ApiRoute(Route):
    """Route of the API, with the description of its operation."""

    def __init__(
        self,
        path: str,
        endpoint: Callable[[Request], Awaitable[Response]],
        operation: AnyOperation,
        *,
        methods: Collection[str] = ("GET",),
        name: str | None = None,
    ) -> None:
        """Check that the description has the path parameters of the route.

        Raises:
            ValueError: the path parameters differ.
        """
        super().__init__(path, endpoint, methods=methods, name=name)
        self.operation = operation
        self._start, self._end = path.partition("{")[0], path.rpartition("}")[2]
        described = {parameter.name for parameter in operation.parameters if parameter.location == "path"}
        if described != self.param_convertors.keys():
            raise ValueError(f"Operation {operation.operation_id} does not describe the path parameters of {path}.")

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return what `Route` returns. Its regular expression is not tried on a path that begins or ends otherwise."""
        path: str = scope["path"]
        return super().matches(scope) if path.startswith(self._start) and path.endswith(self._end) else (Match.NONE, {})


def view_of(kind: type[View], source: object, **other: Any) -> View:
    """Return a body with the attributes of a value that have the names of its fields, and `other` fields."""
    copied = {name: getattr(source, name) for name in kind.__struct_fields__ if name not in other}
    return kind(**copied, **other)


def bearer(request: Request) -> str:
    """Return the token of a request.

    Raises:
        Unauthenticated: the request does not have exactly one valid bearer token.
    """
    values: list[bytes] = [value for name, value in request.scope["headers"] if name == b"authorization"]
    if not values:
        raise Unauthenticated("Send a token: `Authorization: Bearer <token>`.", code="missing_token")
    scheme, _, credential = values[0].decode("latin-1").strip().partition(" ")
    credential = credential.strip()
    if len(values) > 1 or scheme.lower() != "bearer" or not credential:
        raise Unauthenticated("Send exactly one token: `Authorization: Bearer <token>`.", code="missing_token")
    if len(credential) > _MAX_CREDENTIAL_CHARACTERS:
        raise Unauthenticated("Invalid token.", code="invalid_token")
    return credential


async def principal_of(request: Request, services: Services) -> Principal:
    """Authenticate a session token or an API token.

    Raises:
        Unauthenticated, Forbidden, Unavailable: see `SESSION_OR_API_TOKEN`.
    """
    credential = bearer(request)
    if credential.startswith(PREFIX):
        principal = await api_tokens.authenticate(services, credential, caller_of(request))
    else:
        principal = await sessions.authenticate(services, credential)
    record_subject(request, principal.subject, principal.account.client_id)
    return principal


async def token_principal(request: Request, services: Services) -> Principal:
    """Authenticate an API token. Session tokens are refused without being checked.

    Raises:
        Unauthenticated, Forbidden: see `api_tokens.authenticate`.
    """
    if not bearer(request).startswith(PREFIX):
        raise Unauthenticated("Send an API token of Daybreak. Session tokens are not accepted here.")
    return await principal_of(request, services)


async def session_of(request: Request, services: Services) -> ActiveSession:
    """Authenticate a session token. The session may have no access to the account of the token.

    Raises:
        Unauthenticated, Forbidden, Unavailable: see `SESSION`.
    """
    credential = bearer(request)
    if credential.startswith(PREFIX):
        raise Forbidden(
            "API tokens cannot be used here. Sign in with email and password, and send the session token.",
            code="session_required",
        )
    session = await sessions.active_session(services, credential)
    record_subject(request, session.subject, session.client_id)
    return session


async def pending_login_of(request: Request, services: Services) -> ResolvedSession:
    """Authenticate the token of a login that waits for its second factor.

    Raises:
        Unauthenticated, Unavailable: see `PENDING_LOGIN`.
    """
    pending = await sessions.pending_login(services, bearer(request))
    record_subject(request, f"session:{pending.session.sid}")
    return pending
