"""The OpenAPI 3.1 document of the service, made from the catalogue and the shapes of the answers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

import daybreak
from daybreak.catalogue.file_paths import download_paths, file_names
from daybreak.catalogue.formats import DEFAULT_FORMATS, Format, format_named
from daybreak.catalogue.resources import Resource
from daybreak.credentials import signed_link
from daybreak.web import answers
from daybreak.web.audit_routes import AuditLine
from daybreak.web.manifest_view import ManifestView
from daybreak.web.openapi_parts import (
    JsonObject,
    answer,
    body,
    header,
    json_content,
    path_parameter,
    problems,
)
from daybreak.web.problems import PROBLEMS, Problem

_SHAPES = (
    answers.LoginRequest,
    answers.CodeRequest,
    answers.PasswordRequest,
    answers.ContextRequest,
    answers.LoginResult,
    answers.ContextList,
    answers.SwitchResult,
    answers.EnrolmentResult,
    answers.RecoveryCodesResult,
    answers.LinkResult,
    answers.Health,
    answers.ReadinessView,
    ManifestView,
    AuditLine,
    Problem,
)
_REF = "#/components/schemas/{name}"
_AUTHENTICATION = "Authentication"
_CLIENT = path_parameter("client_id", "The Leader.")
_SESSION: list[JsonObject] = [{"session": []}]
_WAITING: list[JsonObject] = [{"waiting": []}]
_EITHER: list[JsonObject] = [{"session": []}, {"api_token": []}]
_TEXT: JsonObject = {"type": "string"}
_DEVICE: JsonObject = {
    "name": "X-Device-Id",
    "in": "header",
    "required": False,
    "description": "The device_id of an earlier login, so that this one is the same device.",
    "schema": _TEXT,
}
_INTRODUCTION = """\
Daily file snapshots of an account's data.

Send the credential as `Authorization: Bearer <token>`: a session token (log in, then switch to the
account) or an API token. A download request answers with a redirect to a signed link that is good
for a quarter of an hour; replace `csv` by `json` in the link for the JSON version of the file.
Errors are problem bodies (RFC 9457) with a stable `code`.
"""


def openapi_document(
    *, base_url: str = "http://127.0.0.1:8400", formats: tuple[str, ...] = DEFAULT_FORMATS
) -> JsonObject:
    """The whole document as plain JSON values."""
    _, schemas = msgspec.json.schema_components(_SHAPES, ref_template=_REF)
    schemas["Problem"]["properties"]["code"]["examples"] = list(PROBLEMS)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Daybreak",
            "version": daybreak.__version__,
            "description": _INTRODUCTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": base_url}],
        "tags": [
            {"name": _AUTHENTICATION, "description": "Sessions by email and password."},
            {"name": "Files", "description": "What there is, and links to it."},
            {"name": "Links", "description": "The files themselves."},
            {"name": "Service", "description": "The service about itself."},
        ],
        "paths": {
            **_session_paths(),
            **_secret_paths(),
            **_file_paths(formats),
            **_link_paths(formats),
            **_own_paths(),
        },
        "components": {"schemas": schemas, "securitySchemes": _SCHEMES},
    }


_SCHEMES: JsonObject = {
    "session": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "The token of a login or a context switch.",
    },
    "waiting": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "The token of a login that owes its second factor.",
    },
    "api_token": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API token, `service_api_...`, made in the dashboard for one account.",
    },
}


def _operation(
    summary: str,
    tag: str,
    responses: JsonObject,
    *,
    security: list[JsonObject] | None = None,
    parameters: Sequence[JsonObject] = (),
    request: str | None = None,
    description: str = "",
) -> JsonObject:
    found: JsonObject = {
        "summary": summary,
        "tags": [tag],
        "security": security or [],
        "responses": responses | problems(400, 403),
    }
    if description:
        found["description"] = description
    if parameters:
        found["parameters"] = list(parameters)
    if request is not None:
        found["requestBody"] = body(request)
        found["responses"] |= problems(408, 413, 415)
    if security:
        found["responses"] |= problems(401, 503)
    return found


def _session_paths() -> JsonObject:
    """From a login to its end."""
    device: Sequence[JsonObject] = (_DEVICE,)
    result = {"200": answer("A session, or a second factor that is owed.", json_content("LoginResult"))}
    return {
        "/download/v2/auth/login": {
            "post": _operation(
                "Log in",
                _AUTHENTICATION,
                result | problems(401, 429, 503),
                parameters=device,
                request="LoginRequest",
                description="`client_id` and `device_id` are missing while a second factor is owed.",
            )
        },
        "/download/v2/auth/login/callback/mfa": {
            "post": _operation(
                "Send the second factor's code",
                _AUTHENTICATION,
                result | problems(429),
                security=_WAITING,
                parameters=device,
                request="CodeRequest",
            )
        },
        "/download/v2/auth/context": {
            "get": _operation(
                "List the accounts in reach",
                _AUTHENTICATION,
                {"200": answer("Every active account, by name.", json_content("ContextList"))},
                security=_SESSION,
            ),
            "put": _operation(
                "Switch to an account",
                _AUTHENTICATION,
                {"200": answer("The token of that account.", json_content("SwitchResult"))},
                security=_SESSION,
                request="ContextRequest",
            ),
        },
        "/download/v2/auth/logout": {
            "delete": _operation(
                "Log out",
                _AUTHENTICATION,
                {"204": answer("Every token of the login is dead.")},
                security=_SESSION,
            )
        },
    }


def _secret_paths() -> JsonObject:
    """What somebody who is signed in does to the own password and second factor."""
    return {
        "/download/v2/auth/reauthenticate": {
            "post": _operation(
                "Show the password again",
                _AUTHENTICATION,
                {"204": answer("Secrets may be changed for ten minutes.")} | problems(429),
                security=_SESSION,
                request="PasswordRequest",
            )
        },
        "/download/v2/auth/second-factor": {
            "post": _operation(
                "Begin to set up a second factor",
                _AUTHENTICATION,
                {"200": answer("The key, shown once.", json_content("EnrolmentResult"))},
                security=_SESSION,
                description="Needs a password that was shown within ten minutes.",
            )
        },
        "/download/v2/auth/second-factor/confirm": {
            "post": _operation(
                "Confirm a second factor by a code",
                _AUTHENTICATION,
                {"200": answer("Recovery codes, shown once.", json_content("RecoveryCodesResult"))}
                | problems(409, 429),
                security=_SESSION,
                request="CodeRequest",
            )
        },
    }


def _file_paths(formats: tuple[str, ...]) -> JsonObject:
    paths: JsonObject = {
        f"/download/v1/files/{{client_id}}/{last}": {
            "get": _download(resource, file_format),
            "head": _download(resource, file_format, head=True),
        }
        for last, (resource, file_format) in download_paths(formats).items()
    }
    paths["/download/v1/files/{client_id}"] = _read(
        "What there is and how fresh it is",
        "Files",
        json_content("ManifestView"),
        description="The manifest of the current snapshot.",
        security=_EITHER,
        parameters=(_CLIENT,),
        more=problems(404),
    )
    paths["/download/v1/audit/{client_id}"] = _read(
        "The account's audit trail",
        "Files",
        {"application/x-ndjson": {"schema": {"$ref": _REF.format(name="AuditLine")}}},
        description="JSON lines, oldest first.",
        security=_EITHER,
        parameters=(
            _CLIENT,
            _query("since", "Events from this instant on.", {"type": "string", "format": "date-time"}),
            _query("until", "Events before this instant.", {"type": "string", "format": "date-time"}),
            _query("action", "Events of one kind, such as `file.fetched`, or of all that begin so: `token.*`.", _TEXT),
        ),
    )
    return paths


def _download(resource: Resource, file_format: Format, *, head: bool = False) -> JsonObject:
    found = answer(
        "The signed link, in Location and in the body.",
        None if head else json_content("LinkResult"),
        {"Location": header("The signed link.", {"type": "string", "format": "uri"})},
    )
    return _operation(
        f"{resource.title} as {file_format.name}",
        "Files",
        {"302": found} | problems(404),
        security=_EITHER,
        parameters=(_CLIENT,),
        description=resource.description,
    )


def _link_paths(formats: tuple[str, ...]) -> JsonObject:
    parameters = (
        _CLIENT,
        path_parameter("snapshot_id", "The snapshot."),
        path_parameter("file", "The file.", {"type": "string", "enum": list(file_names(formats))}),
        *({"name": name, "in": "query", "required": True, "schema": _TEXT} for name in signed_link.PARAMETERS),
        *(
            {"name": name, "in": "header", "required": False, "schema": _TEXT}
            for name in ("Range", "If-Range", "If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since")
        ),
    )
    types = {"application/gzip"}
    for name in formats:
        file_format = format_named(name)
        types |= {file_format.media_type, file_format.content_type.partition(";")[0]}
    whole = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in sorted(types)}
    parts = whole | {"multipart/byteranges": {"schema": {"type": "string", "format": "binary"}}}
    headers: JsonObject = {
        name: header(text, _TEXT)
        for name, text in (
            ("ETag", "Strong; one per representation."),
            ("Last-Modified", "When the snapshot was published."),
            ("Repr-Digest", "SHA-256 of the stored file (RFC 9530)."),
            ("X-Row-Count", "Rows in the file."),
            ("X-Snapshot-Id", "The snapshot."),
            ("Content-Disposition", "The file's name."),
        )
    }
    responses = {
        "200": answer("The file.", whole, headers),
        "206": answer("Parts of the file.", parts, headers),
        "302": answer(
            "The file lies in an object store: its own signed URL, good for a minute.",
            None,
            {"Location": header("The store's link.", _TEXT)},
        ),
        "304": answer("The copy that the client holds is still good."),
    } | problems(404, 412, 416, 500, 503)
    operation = _operation(
        "Fetch a file",
        "Links",
        responses,
        parameters=parameters,
        description="No Authorization header is needed: the link is the credential.",
    )
    head = {**operation, "responses": _without_content(operation["responses"])}
    return {"/download/v1/links/{client_id}/{snapshot_id}/{file}": {"get": operation, "head": head}}


def _own_paths() -> JsonObject:
    tag = "Service"
    ready = _read("Whether the service can answer", tag, json_content("ReadinessView"))
    for operation in ready.values():
        content = operation["responses"]["200"].get("content")
        operation["responses"]["503"] = answer("A part is away.", content)
    anything: JsonObject = {"application/json": {"schema": {"type": "object"}}}
    return {
        "/healthz": _read("Whether the process runs", tag, json_content("Health")),
        "/readyz": ready,
        "/download/v1/schema": _read(
            "The columns of the nine files", tag, anything, description="Frictionless Table Schema."
        ),
        "/openapi.json": _read("This document", tag, anything),
        "/docs": _read("This document for people", tag, {"text/html": {"schema": _TEXT}}),
    }


def _read(
    summary: str,
    tag: str,
    content: JsonObject,
    *,
    description: str = "",
    security: list[JsonObject] | None = None,
    parameters: Sequence[JsonObject] = (),
    more: JsonObject | None = None,
) -> JsonObject:
    """GET and HEAD of one path; `more` are answers beside the common ones."""
    get = _operation(
        summary,
        tag,
        {"200": answer(description or summary, content)} | (more or {}),
        security=security,
        parameters=parameters,
        description=description,
    )
    return {"get": get, "head": {**get, "responses": _without_content(get["responses"])}}


def _without_content(responses: JsonObject) -> JsonObject:
    return {
        status: {key: value for key, value in response.items() if key != "content"}
        for status, response in responses.items()
    }


def _query(name: str, description: str, schema: JsonObject) -> JsonObject:
    return {
        "name": name,
        "in": "query",
        "required": False,
        "description": description,
        "schema": schema,
    }
