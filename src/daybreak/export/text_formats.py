"""Text formats: the content of a file before and after its lines, and the conversion of lines to a format."""

from dataclasses import dataclass

from daybreak.catalogue.resources import Resource
from daybreak.export.line_sql import JSON_SEPARATOR, csv_header

Piece = bytes | memoryview


@dataclass(frozen=True, slots=True)
class TextFormat:
    """One text format of one resource.

    `line_kind` names its lines (csv, json); several formats may share a kind. A file is `head`, the lines without the
    first `skip_bytes` bytes, `tail`; `empty_file` when there are no rows. `separator`, when set, replaces the comma and
    LF between JSON records.
    """

    name: str
    line_kind: str
    head: bytes
    tail: bytes
    empty_file: bytes
    skip_bytes: int = 0
    separator: bytes | None = None

    def body(self, lines: memoryview, *, first: bool) -> Piece:
        """Return lines as they are in the file. `first` is True for the file's first lines."""
        piece = lines[self.skip_bytes :] if first else lines
        if self.separator is None:
            return piece
        # LF inside a JSON record is always escaped, so this matches separators only.
        return bytes(piece).replace(JSON_SEPARATOR, self.separator)


def text_format(resource: Resource, name: str) -> TextFormat:
    """Return the text format of that name (csv, json, ndjson). Raises KeyError."""
    skip_bytes = len(JSON_SEPARATOR)
    match name:
        case "csv":
            head = csv_header(resource)
            return TextFormat(name, "csv", head, b"", head)
        case "json":
            return TextFormat(name, "json", b"[", b"]", b"[]", skip_bytes)
        case "ndjson":
            return TextFormat(name, "json", b"", b"\n", b"", skip_bytes, b"\n")
    raise KeyError(name)
