"""File formats: endings and media types."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Format:
    """One format.

    `ending` follows the resource's name in a file name. `media_type` describes the stored file, `content_type` the
    decompressed content, which ends in `content_ending`. `gzip` is False when the format has its own compression; then
    both types are the same. `delta_of` is the format of the full files that a delta format belongs to.
    """

    name: str
    ending: str
    media_type: str
    content_type: str
    content_ending: str
    gzip: bool = True
    delta_of: str = ""


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

DELTA_FORMATS: tuple[Format, ...] = tuple(
    Format(f"delta_{full.name}", f".delta{full.ending}", full.media_type, full.content_type,
           f".delta{full.content_ending}", full.gzip, delta_of=full.name)
    for full in FORMATS if full.name in (*DEFAULT_FORMATS, "parquet")
)  # fmt: skip
"""The formats of deltas: what changed in the rows of a file between two publications. Delta Sharing uses Parquet, the
feed the others.
"""

STATEMENTS = Format(
    "statements", ".statements", "application/octet-stream", "application/octet-stream", ".statements", gzip=False
)
"""The format of statement packs, which are stored with the files and not downloaded."""

_BY_NAME = {format.name: format for format in (*FORMATS, *DELTA_FORMATS, STATEMENTS)}
_DELTA_OF = {format.delta_of: format for format in DELTA_FORMATS}


def format_named(name: str) -> Format:
    """Return the format of that name. Raises KeyError."""
    return _BY_NAME[name]


def delta_format(name: str) -> Format:
    """Return the delta format of csv, json or parquet. Raises KeyError."""
    return _DELTA_OF[name]
