"""Request bodies: JSON, small, in time, of the shape that the route asks for."""

from __future__ import annotations

import asyncio
import re
from codecs import BOM_UTF8
from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from daybreak.domain.errors import FieldFault, InvalidRequest, RequestError
from daybreak.web.services import WebSettings

T = TypeVar("T")
MAX_DEPTH = 16
_MISSING = re.compile(r"missing required field `([^`]*)`")
_AT = re.compile(r" - at `\$([^`]*)`$")
# A string, whether it ends or not, or a bracket: each octet is looked at once.
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_TYPE = re.compile(r"`(\w+)`")
_JSON_TYPES = {"str": "string", "int": "number", "float": "number", "bool": "boolean"}


async def read_json(request: Request, shape: type[T], settings: WebSettings) -> T:
    """The body as a `shape`; fields it does not know are ignored.

    Raises RequestError (`unsupported_media_type`, `body_too_large`, `request_timeout`) and
    InvalidRequest, which names the field at fault.
    """
    _check_media_type(request)
    return parse_json(await read_octets(request, settings), shape)


async def read_octets(request: Request, settings: WebSettings) -> bytes:
    """The whole body. Raises RequestError (`unsupported_media_type` when it is compressed,
    `body_too_large`, `request_timeout`), InvalidRequest when it does not arrive whole.
    """
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding not in {"", "identity"}:
        raise RequestError("A compressed body is not taken: send it plain.", code="unsupported_media_type")
    limit = settings.body_limit_bytes
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise _too_large(limit)
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(settings.body_deadline_seconds):
            async for piece in request.stream():
                size += len(piece)
                if size > limit:
                    raise _too_large(limit)
                pieces.append(piece)
    except TimeoutError:
        raise RequestError("The body did not arrive in time.", code="request_timeout") from None
    except ClientDisconnect:
        # Also what a malformed chunk looks like from here; then somebody still listens.
        raise InvalidRequest("The body did not arrive whole.") from None
    return b"".join(pieces)


def parse_json(body: bytes, shape: type[T]) -> T:
    """JSON octets as a `shape`; a byte order mark in front of them is passed over (RFC 8259 §8.1).

    Raises InvalidRequest, which names the field at fault.
    """
    body = body.removeprefix(BOM_UTF8)
    _check_depth(body)
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.ValidationError as fault:
        raise _field_fault(str(fault)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidRequest("The body is not valid JSON.") from None


def _check_media_type(request: Request) -> None:
    given = request.headers.get("content-type", "")
    media_type, *parameters = given.split(";")
    if media_type.strip().lower() != "application/json":
        raise RequestError(
            "Send the body as JSON, with the header Content-Type: application/json.",
            code="unsupported_media_type",
        )
    for parameter in parameters:
        name, _, charset = parameter.partition("=")
        if name.strip().lower() == "charset" and charset.strip('" ').lower() not in {"utf-8", "utf8"}:
            raise RequestError("JSON is sent as UTF-8.", code="unsupported_media_type")


def _check_depth(body: bytes) -> None:
    if body.count(b"[") + body.count(b"{") <= MAX_DEPTH:
        return
    depth = 0
    for found in _STRING_OR_BRACKET.findall(body):
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(found, 0)
        if depth > MAX_DEPTH:
            raise InvalidRequest("The body is nested too deeply.")


def _field_fault(text: str) -> InvalidRequest:
    """Msgspec's message as a fault with a JSON pointer (RFC 6901)."""
    place = _AT.search(text)
    pointer = "" if place is None else _pointer(place.group(1))
    said = text if place is None else text[: place.start()]
    missing = _MISSING.search(said)
    if missing is not None:
        pointer += f"/{missing.group(1)}"
        return InvalidRequest(f"The field {pointer[1:]} is missing.", faults=(FieldFault(pointer, "is required"),))
    named = f"The field {pointer[1:]} is wrong." if pointer else "The body has the wrong shape."
    told = _TYPE.sub(lambda found: _JSON_TYPES.get(found[1], found[1]), said)
    return InvalidRequest(named, faults=(FieldFault(pointer, told.replace("`", "'")),))


def _pointer(path: str) -> str:
    return path.replace("[", ".").replace("]", "").replace(".", "/")


def _too_large(limit: int) -> RequestError:
    return RequestError(f"A body has at most {limit} octets.", code="body_too_large")
