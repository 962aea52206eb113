"""Request bodies: uncompressed JSON of the expected shape. `BodyLimitsMiddleware` limits size and time."""

import json
import re
from codecs import BOM_UTF8
from typing import TypeVar

import msgspec
from starlette.requests import Request

from daybreak.credentials.strict_json import RepeatedMember, unique_members
from daybreak.domain.errors import FieldFault, InvalidRequest, RequestError

T = TypeVar("T")
MAX_DEPTH = 16
_MISSING = re.compile(r"missing required field `([^`]*)`")
_AT = re.compile(r" - at `\$([^`]*)`$")
# A string, terminated or not, or a bracket. Each byte is scanned once.
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
# A type or a union of types, such as `int | null`.
_TYPE = re.compile(r"`(\w+(?: \| \w+)*)`")
# Other clients and proxies read the first of two members of one name (RFC 8259 §4). msgspec reads the last.
_UNIQUE = json.JSONDecoder(object_pairs_hook=unique_members, parse_int=str)
_JSON_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


async def read_json(request: Request, shape: type[T]) -> T:
    """Read a JSON body of the given shape. Unknown fields are ignored.

    Raises:
        RequestError: `unsupported_media_type`, or an error of `BodyLimitsMiddleware`.
        InvalidRequest: the body does not have that shape. Names the invalid field.
    """
    _check_media_type(request)
    return parse_json(await read_body(request), shape)


async def read_body(request: Request) -> bytes:
    """Read the whole body.

    Raises:
        RequestError: `unsupported_media_type` when the body is compressed, or an error of `BodyLimitsMiddleware`.
    """
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding not in {"", "identity"}:
        raise RequestError("Send the body without Content-Encoding.", code="unsupported_media_type")
    return await request.body()


def parse_json(body: bytes, shape: type[T]) -> T:
    """Parse JSON of the given shape. A leading byte order mark is ignored (RFC 8259 §8.1).

    Raises:
        InvalidRequest: the body does not have that shape, or repeats a field. Names the field.
    """
    body = body.removeprefix(BOM_UTF8)
    _check_depth(body)
    try:
        # Decoded first: msgspec does not check the encoding of fields that it ignores (RFC 8259 §8.1 requires UTF-8).
        text = body.decode()
        _UNIQUE.decode(text)
        return msgspec.json.decode(text, type=shape)
    except RepeatedMember as repeated:
        raise InvalidRequest(f"Send the field {repeated.name} once.") from None
    except msgspec.ValidationError as fault:
        raise _field_fault(str(fault)) from None
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise InvalidRequest("The body is not valid JSON.") from None


def _check_media_type(request: Request) -> None:
    content_type = request.headers.get("content-type", "")
    media_type, *parameters = content_type.split(";")
    if media_type.strip().lower() != "application/json":
        raise RequestError("Send JSON with the header Content-Type: application/json.", code="unsupported_media_type")
    for parameter in parameters:
        name, _, charset = parameter.partition("=")
        if name.strip().lower() == "charset" and charset.strip('" ').lower() not in {"utf-8", "utf8"}:
            raise RequestError("Send JSON in UTF-8.", code="unsupported_media_type")


def _check_depth(body: bytes) -> None:
    if body.count(b"[") + body.count(b"{") <= MAX_DEPTH:
        return
    depth = 0
    for found in _STRING_OR_BRACKET.findall(body):
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(found, 0)
        if depth > MAX_DEPTH:
            raise InvalidRequest("The body is nested too deeply.")


def _field_fault(text: str) -> InvalidRequest:
    """Return the error for a message of msgspec, with a JSON pointer (RFC 6901)."""
    place = _AT.search(text)
    pointer = "" if place is None else place.group(1).replace("[", ".").replace("]", "").replace(".", "/")
    detail = text if place is None else text[: place.start()]
    missing = _MISSING.search(detail)
    if missing is not None:
        pointer += f"/{missing.group(1)}"
        return InvalidRequest(f"The field {pointer[1:]} is missing.", faults=(FieldFault(pointer, "is required"),))
    message = f"The field {pointer[1:]} is invalid." if pointer else "The body has the wrong shape."
    detail = _TYPE.sub(lambda found: " or ".join(_JSON_TYPES.get(name, name) for name in found[1].split(" | ")), detail)
    return InvalidRequest(message, faults=(FieldFault(pointer, detail.replace("`", "'")),))
