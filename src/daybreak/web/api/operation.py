"""Descriptions of operations, and a route with a description.

A description adds texts, types, parameters, accepted tokens and errors to a route. Endpoints use it to read bodies and
to create responses. `openapi` generates the OpenAPI document from it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Generic, Literal, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daybreak.web.http.bodies import read_json
from daybreak.web.http.problems import PROBLEMS

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Body_co = TypeVar("Body_co", bound="JsonBody[object] | None", covariant=True)
JSON = ("application/json",)

# Any request can have these errors, before or in its endpoint.
_COMMON_PROBLEMS = ("invalid_request", "invalid_host", "not_found", "uri_too_long", "head_too_large", "internal_error")
_BODY_PROBLEMS = ("unsupported_media_type", "body_too_large", "request_timeout")


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
class JsonBody(Generic[T_co]):
    """JSON body of a request."""

    body_type: type[T_co]

    async def read(self, request: Request) -> T_co:
        """Read the body of a request. Raises the errors of `read_json`."""
        return await read_json(request, self.body_type)


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
class Operation(Generic[Body_co, T]):
    """Description of one method of a route. Its texts may contain the values of `openapi.facts`: `{link_lifetime}`.

    Attributes:
        operation_id: Name of the operation in generated clients.
        summary: Title.
        description: Further sentences; `backticks` mark code.
        body: JSON request body, None without one.
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
    body: Body_co
    response: ResponseType[T]
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


AnyOperation = Operation[JsonBody[object] | None, Any]


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
        described = {parameter.name for parameter in operation.parameters if parameter.location == "path"}
        if described != self.param_convertors.keys():
            raise ValueError(f"Operation {operation.operation_id} does not describe the path parameters of {path}.")
