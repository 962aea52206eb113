"""Content negotiation: the representation of a stored file that a client receives.

Both representations have the same body. The *file* is `application/gzip`, which clients store as it is. The *content*
is `text/csv` (or JSON) with `Content-Encoding: gzip`, which HTTP clients decompress. Formats with internal compression
have only the file.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from daybreak.catalogue.formats import Format
from daybreak.catalogue.resources import Resource
from daybreak.domain.identity import ServeGzipAs


class Representation(msgspec.Struct, frozen=True):
    """One representation of a stored file. `tag` is the part of the ETag that differs."""

    content_type: str
    content_encoding: str | None
    file_name: str
    tag: Literal["f", "c"]
    varies: bool


def choose(
    resource: Resource,
    file_format: Format,
    *,
    accept: Sequence[str],
    accept_encoding: Sequence[str],
    serve_gzip_as: ServeGzipAs,
) -> Representation:
    """Choose the representation for the values of the Accept and Accept-Encoding headers."""
    wants_content = serve_gzip_as == "encoding" or _prefers_content(file_format, accept)
    return _representation(resource, file_format, content=wants_content and accepts_gzip(accept_encoding))


def stored_representation(resource: Resource, file_format: Format, serve_gzip_as: ServeGzipAs) -> Representation:
    """Return the representation that an object store sends, which the headers of the upload determine."""
    return _representation(resource, file_format, content=serve_gzip_as == "encoding")


def _representation(resource: Resource, file_format: Format, *, content: bool) -> Representation:
    if content and file_format.gzip:
        name = resource.name + file_format.content_ending
        return Representation(file_format.content_type, "gzip", name, "c", varies=True)
    name = resource.file_name(file_format)
    return Representation(file_format.media_type, None, name, "f", varies=file_format.gzip)


def accepts_gzip(accept_encoding: Sequence[str]) -> bool:
    """Return whether gzip is listed with a q value above 0 (RFC 9110 §12.5.3)."""
    qualities = weights(accept_encoding)
    return max(qualities.get("gzip", 0.0), qualities.get("x-gzip", 0.0)) > 0


def weights(values: Sequence[str]) -> Mapping[str, float]:
    """Return the q value of each member of a list header. Names are in lower case and without parameters.

    A malformed q counts as 0 (RFC 9110 §12.4.2). For a repeated name the greater q counts.
    """
    found: dict[str, float] = {}
    for member in ",".join(values)[:4096].split(","):
        name, *parameters = member.split(";")
        name = name.strip().lower()
        if not name:
            continue
        quality = 1.0
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.strip().lower() == "q":
                quality = _quality(value.strip())
        found[name] = max(found.get(name, 0.0), quality)
    return found


def _prefers_content(file_format: Format, accept: Sequence[str]) -> bool:
    qualities = weights(accept)
    content = qualities.get(file_format.content_type.partition(";")[0], 0.0)
    return content > 0 and content >= qualities.get(file_format.media_type, 0.0)


def _quality(text: str) -> float:
    if text[:1] not in {"0", "1"} or len(text) > 5 or not text.replace(".", "", 1).isdecimal():
        return 0.0
    return min(float(text), 1.0)
