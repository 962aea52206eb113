"""Which representation of a stored file a client gets: the file, or its content.

The bytes on the wire are the same. The *file* is `application/gzip` and stays packed on the
client's disk; the *content* is `text/csv` (or JSON) with `Content-Encoding: gzip`, which HTTP
clients unpack. A format that compresses by itself has the file alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from daybreak.catalogue.formats import Format
from daybreak.catalogue.resources import Resource


class Representation(msgspec.Struct, frozen=True):
    """What one client gets of a stored file. `tag` tells its ETag from the other's."""

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
    serve_gzip_as: Literal["file", "encoding"],
) -> Representation:
    """The representation for the values of the Accept and Accept-Encoding headers."""
    if not file_format.gzip:
        return Representation(file_format.media_type, None, resource.file_name(file_format), "f", varies=False)
    if _wants_content(file_format, accept, serve_gzip_as) and takes_gzip(accept_encoding):
        return Representation(
            file_format.content_type, "gzip", resource.name + file_format.content_ending, "c", varies=True
        )
    return Representation(file_format.media_type, None, resource.file_name(file_format), "f", varies=True)


def takes_gzip(accept_encoding: Sequence[str]) -> bool:
    """Whether gzip is named as a coding and not with q=0 (RFC 9110 §12.5.3)."""
    qualities = weights(accept_encoding)
    return max(qualities.get("gzip", 0.0), qualities.get("x-gzip", 0.0)) > 0


def weights(values: Sequence[str]) -> Mapping[str, float]:
    """The q of each member of a list header, names in lower case without parameters.

    A malformed q counts as 0 (RFC 9110 §12.4.2); of a name given twice the greater q counts.
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


def _wants_content(file_format: Format, accept: Sequence[str], serve_gzip_as: Literal["file", "encoding"]) -> bool:
    if serve_gzip_as == "encoding":
        return True
    qualities = weights(accept)
    content = qualities.get(file_format.content_type.partition(";")[0], 0.0)
    return content > 0 and content >= qualities.get(file_format.media_type, 0.0)


def _quality(text: str) -> float:
    if text[:1] not in {"0", "1"} or len(text) > 5 or not text.replace(".", "", 1).isdecimal():
        return 0.0
    return min(float(text), 1.0)
