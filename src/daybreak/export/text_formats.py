"""Text formats: layout of a file, and the conversion of lines to a format."""

from dataclasses import dataclass

from daybreak.catalogue.resources import Resource
from daybreak.export.line_sql import JSON_SEPARATOR, csv_header

Piece = bytes | memoryview


@dataclass(frozen=True, slots=True)
class TextFormat:
    """One text format of one resource.

    A file is `head`, the records joined by `separator`, and `tail`; `empty_file` without records. `line_kind` names its
    lines (csv, json); several formats may share a kind.
    """

    name: str
    line_kind: str
    head: bytes
    separator: bytes
    tail: bytes
    empty_file: bytes

    @property
    def is_csv(self) -> bool:
        """Whether records may contain the separator inside quotes, and lines end in it."""
        return self.line_kind == "csv"

    def body(self, lines: memoryview, *, first: bool) -> Piece:
        """Return lines as they are in the file. `first` is True for the file's first lines."""
        if self.is_csv:
            return lines
        piece = lines[len(JSON_SEPARATOR) :] if first else lines
        if self.separator == JSON_SEPARATOR:
            return piece
        # LF inside a JSON record is always escaped, so this matches separators only.
        return bytes(piece).replace(JSON_SEPARATOR, self.separator)

    @property
    def end(self) -> bytes:
        """What follows the last lines."""
        return b"" if self.is_csv else self.tail


def text_format(resource: Resource, name: str) -> TextFormat:
    """Return the text format of that name (csv, json, ndjson). Raises KeyError."""
    match name:
        case "csv":
            head = csv_header(resource)
            return TextFormat(name, "csv", head, b"\n", b"\n", head)
        case "json":
            return TextFormat(name, "json", b"[", JSON_SEPARATOR, b"]", b"[]")
        case "ndjson":
            return TextFormat(name, "json", b"", b"\n", b"\n", b"")
    raise KeyError(name)
