"""File formats: endings and media types."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Format:
    """One format.

    `ending` follows the resource's name in a file name. `content_type` describes the decompressed content. `delta_of`
    is the format of the full files that a delta format belongs to.
    """

    name: str
    ending: str
    content_type: str
    delta_of: str = ""

    @property
    def gzip(self) -> bool:
        """Whether files are compressed with gzip. Parquet has its own compression."""
        return self.ending.endswith(".gz")

    @property
    def media_type(self) -> str:
        """The media type of the stored file."""
        return "application/gzip" if self.gzip else self.content_type

    @property
    def content_ending(self) -> str:
        """The ending of the decompressed content."""
        return self.ending.removesuffix(".gz")


FORMATS: tuple[Format, ...] = (
    Format("csv", ".csv.gz", "text/csv; charset=utf-8; header=present"),
    Format("json", ".json.gz", "application/json"),
    Format("ndjson", ".ndjson.gz", "application/x-ndjson"),
    Format("parquet", ".parquet", "application/vnd.apache.parquet"),
)

DEFAULT_FORMATS: tuple[str, ...] = ("csv", "json")

DELTA_FORMATS: tuple[Format, ...] = tuple(
    Format(f"delta_{full.name}", f".delta{full.ending}", full.content_type, delta_of=full.name)
    for full in FORMATS
    if full.name in (*DEFAULT_FORMATS, "parquet")
)
"""The formats of deltas: what changed in the rows of a file between two publications. Delta Sharing uses Parquet, the
feed the others.
"""

STATEMENTS = Format("statements", ".statements", "application/octet-stream")
"""The format of statement packs, which are stored with the files and not downloaded."""

_BY_NAME = {format.name: format for format in (*FORMATS, *DELTA_FORMATS, STATEMENTS)}


def format_named(name: str) -> Format:
    """Return the format of that name. Raises KeyError."""
    return _BY_NAME[name]


def delta_format(name: str) -> Format:
    """Return the delta format of csv, json or parquet. Raises KeyError."""
    return _BY_NAME[f"delta_{name}"]
