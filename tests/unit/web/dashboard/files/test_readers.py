"""Reading of published files for previews and spreadsheets."""

import csv
import gzip
import io
import json
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.catalogue.resources import resource_named
from daybreak.domain.errors import FileDamaged
from daybreak.domain.snapshot import ManifestEntry, StoredFormat
from daybreak.filestore.file_store import FileStore
from daybreak.web.dashboard.files.readers import decompress, first_rows, split_lines, spreadsheet_safe_csv
from daybreak.web.dashboard.spreadsheets import escape_formulas

RESOURCE = resource_named("custom_member_data")
CELLS = st.one_of(
    st.text(alphabet=st.characters(blacklist_categories=["Cs"]), max_size=12),
    st.sampled_from(["=1+1", "+1555", "-2", "@x", "\t=1", "\uff1d1", '"', ",", "\r\n", "\n", "\x85\u2028", ""]),
)


class _Store:
    """A file store that returns content in pieces of a few bytes."""

    def __init__(self, content: bytes, piece: int = 7) -> None:
        packed = gzip.compress(content)
        self._pieces = [packed[place : place + piece] for place in range(0, len(packed), piece)]
        self.read_pieces = 0

    def read(self, key: str) -> Iterator[bytes]:
        for piece in self._pieces:
            self.read_pieces += 1
            yield piece


def _entry(format_name: str, rows: int) -> ManifestEntry:
    stored = StoredFormat(1, "0" * 64, 1, "0" * 64, "key")
    return ManifestEntry("client", RESOURCE.name, rows, "0" * 32, {format_name: stored})


def _store(content: bytes) -> FileStore:
    return cast("FileStore", _Store(content))


def _csv(rows: list[list[str | None]]) -> bytes:
    def cell(value: str | None) -> str:
        return "" if value is None else '"' + value.replace('"', '""') + '"'

    header = ",".join(f'"{name}"' for name in RESOURCE.column_names)
    return "".join(line + "\n" for line in [header, *(",".join(map(cell, row)) for row in rows)]).encode()


def _json(rows: list[list[str | None]]) -> bytes:
    records: list[dict[str, Any]] = [dict(zip(RESOURCE.column_names, row, strict=True)) for row in rows]
    return ("[" + ",\n".join(json.dumps(record, ensure_ascii=False) for record in records) + "]\n").encode()


@given(st.lists(st.lists(st.one_of(st.none(), CELLS), min_size=4, max_size=4), max_size=6))
def test_preview_returns_every_cell(rows: list[list[str | None]]) -> None:
    assert first_rows(_store(_json(rows)), RESOURCE, _entry("json", len(rows))) == rows
    # CSV does not distinguish the empty string from NULL.
    assert first_rows(_store(_csv(rows)), RESOURCE, _entry("csv", len(rows))) == [
        [cell or None for cell in row] for row in rows
    ]


def test_preview_stops_after_50_rows() -> None:
    rows: list[list[str | None]] = [[f"{number:036}", "leader", "field", "x" * 200] for number in range(20_000)]
    store = _Store(_json(rows), piece=4096)
    assert len(first_rows(cast("FileStore", store), RESOURCE, _entry("json", len(rows)))) == 50
    assert store.read_pieces < len(store._pieces)


@given(st.lists(st.lists(CELLS, min_size=4, max_size=4), max_size=6))
def test_spreadsheet_safe_copy_escapes_formulas_only(rows: list[list[str]]) -> None:
    copy = b"".join(spreadsheet_safe_csv(_store(_csv([list(row) for row in rows])), RESOURCE, "key"))
    read = list(csv.reader(io.StringIO(copy.decode("utf-8-sig"), newline="")))
    assert read[0] == list(RESOURCE.column_names)
    for row, safe in zip(rows, read[1:], strict=True):
        # The first two columns are identifiers, which are not escaped.
        for text, cell in zip(row[2:], safe[2:], strict=True):
            assert cell == escape_formulas(text)
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d"))


@given(st.binary(max_size=300), st.integers(0, 400))
def test_decompression_stops_at_the_limit(content: bytes, maximum: int) -> None:
    assert b"".join(decompress([gzip.compress(content)], maximum_bytes=maximum)) == content[:maximum]


def test_lines_end_at_line_feeds_only() -> None:
    content = "a\u2028b\x85c\rd\ne".encode()
    assert list(split_lines([content[:3], content[3:]])) == ["a\u2028b\x85c\rd\n", "e"]


def test_truncated_or_altered_file_is_rejected() -> None:
    compressed = gzip.compress(b"a,b\n" * 1000)
    for length in range(len(compressed)):
        with pytest.raises(FileDamaged):
            list(decompress([compressed[:length]]))
    for index in (12, len(compressed) - 8):
        with pytest.raises(FileDamaged):
            list(decompress([compressed[:index] + bytes([compressed[index] ^ 1]) + compressed[index + 1 :]]))
