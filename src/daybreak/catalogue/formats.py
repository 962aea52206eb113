"""File formats: endings and media types."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Format:
    """One format.

    `ending` follows the resource's name in a file name. `media_type` describes the stored file, `content_type` the
    decompressed content, which ends in `content_ending`. `gzip` is False when the format has its own compression; then
    both types are the same.
    """

    name: str
    ending: str
    media_type: str
    content_type: str
    content_ending: str
    gzip: bool = True


FORMATS: tuple[Format, ...] = (
    Format("csv", ".csv.gz", "application/gzip", "text/csv; charset=utf-8; header=present", ".csv"),
    Format("json", ".json.gz", "application/gzip", "application/json", ".json"),
    Format("ndjson", ".ndjson.gz", "application/gzip", "application/x-ndjson", ".ndjson"),
    Format(
        "parquet",
        ".parquet",
        "application/vnd.apache.parquet",
        "application/vnd.apache.parquet",
        ".parquet",
        gzip=False,
    ),
)

DEFAULT_FORMATS: tuple[str, ...] = ("csv", "json")

_BY_NAME = {format.name: format for format in FORMATS}


def format_named(name: str) -> Format:
    """Return the format of that name. Raises KeyError."""
    return _BY_NAME[name]
