"""What a text format adds around lines: its head, its tail, and how lines become its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from daybreak.catalogue.resources import Resource
from daybreak.export.lines import JSON_SEPARATOR, header

Piece = bytes | memoryview


@dataclass(frozen=True, slots=True)
class TextFormat:
    """One text format of one resource.

    `line` is the column of its lines (several formats may share one). A file is `head`, the lines without the first
    `skip` bytes, `tail`; `empty` when there are no rows. With `join` the separator between JSON
    records is put in place of the comma and LF.
    """

    name: str
    line: str
    head: bytes
    tail: bytes
    empty: bytes
    skip: int = 0
    join: bytes | None = None

    def body(self, lines: memoryview, *, first: bool) -> Piece:
        """Lines as they stand in the file; `first` when nothing of the file came before."""
        piece = lines[self.skip :] if first else lines
        if self.join is None:
            return piece
        # Inside a JSON record LF is always escaped, so this only ever hits what parts records.
        return bytes(piece).replace(JSON_SEPARATOR, self.join)


def line_columns(formats: Iterable[TextFormat]) -> tuple[str, ...]:
    """The columns of lines that these formats are made of, each once."""
    return tuple(dict.fromkeys(format.line for format in formats))


def text_format(resource: Resource, name: str) -> TextFormat:
    """The text format of that name (csv, json, ndjson). Raises KeyError."""
    separator = len(JSON_SEPARATOR)
    match name:
        case "csv":
            head = header(resource)
            return TextFormat(name, "csv", head, b"", head)
        case "json":
            return TextFormat(name, "json", b"[", b"]", b"[]", separator)
        case "ndjson":
            return TextFormat(name, "json", b"", b"\n", b"", separator, b"\n")
    raise KeyError(name)
