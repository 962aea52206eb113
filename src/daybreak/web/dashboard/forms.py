"""Reading what a form sent: urlencoded fields, bounded, each one at most once."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.requests import Request

from daybreak.domain.errors import InvalidRequest
from daybreak.web.bodies import read_octets
from daybreak.web.services import WebSettings

_MOST_FIELDS = 40


async def read_form(request: Request, settings: WebSettings) -> dict[str, str]:
    """The fields of an `application/x-www-form-urlencoded` body.

    Raises InvalidRequest for another kind of body, too many fields, a repeated field, or bytes
    that are not UTF-8; RequestError for a body that is too large or too slow.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise InvalidRequest("this page takes forms only", code="unsupported_media_type")
    body = await read_octets(request, settings)
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS, encoding="utf-8", errors="strict"
        )
    except ValueError:
        raise InvalidRequest("the form cannot be read") from None
    fields: dict[str, str] = {}
    for name, value in pairs:
        if name in fields:
            raise InvalidRequest("a field came twice")
        if "\x00" in value:
            raise InvalidRequest("a field holds a character that cannot be stored")
        fields[name] = value
    return fields


def own_path(text: str | None, *, fallback: str) -> str:
    """A path to go on to after signing in: only the dashboard's own, else the fallback.

    Refuses other schemes and hosts (two slashes, backslashes), control characters and the pages of
    signing in and out themselves.
    """
    if not text or len(text) > 1000 or not text.startswith("/dashboard/") or "\\" in text or "//" in text:
        return fallback
    if any(ord(character) <= 0x20 or ord(character) == 0x7F for character in text) or "/.." in text or "/./" in text:
        return fallback
    if text.startswith(("/dashboard/sign-", "/dashboard/second-factor", "/dashboard/enrol")):
        return fallback
    return text
