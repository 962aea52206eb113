"""Files read for people: whatever the cells hold, and never more than asked for."""

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
from daybreak.ports.files import FileStore
from daybreak.web.dashboard.file_reading import first_rows, lines, spreadsheet_safe, unpacked
from daybreak.web.dashboard.formulas import disarmed

RESOURCE = resource_named("custom_member_data")
CELLS = st.one_of(
    st.text(alphabet=st.characters(blacklist_categories=["Cs"]), max_size=12),
    st.sampled_from(["=1+1", "+1555", "-2", "@x", "\t=1", "\uff1d1", '"', ",", "\r\n", "\n", "\x85\u2028", ""]),
)


class _Store:
    """A store that hands out content in pieces of a few bytes."""

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
def test_preview_gives_back_every_cell(rows: list[list[str | None]]) -> None:
    assert first_rows(_store(_json(rows)), RESOURCE, _entry("json", len(rows))) == rows
    # CSV alone cannot tell an empty text from NULL here.
    assert first_rows(_store(_csv(rows)), RESOURCE, _entry("csv", len(rows))) == [
        [cell or None for cell in row] for row in rows
    ]


def test_preview_ends_after_fifty_rows() -> None:
    rows: list[list[str | None]] = [[f"{number:036}", "leader", "field", "x" * 200] for number in range(20_000)]
    store = _Store(_json(rows), piece=4096)
    assert len(first_rows(cast("FileStore", store), RESOURCE, _entry("json", len(rows)))) == 50
    assert store.read_pieces < len(store._pieces)


@given(st.lists(st.lists(CELLS, min_size=4, max_size=4), max_size=6))
def test_spreadsheet_safe_copy_keeps_the_text_and_runs_nothing(rows: list[list[str]]) -> None:
    copy = b"".join(spreadsheet_safe(_store(_csv([list(row) for row in rows])), RESOURCE, "key"))
    read = list(csv.reader(io.StringIO(copy.decode("utf-8-sig"), newline="")))
    assert read[0] == list(RESOURCE.column_names)
    for row, safe in zip(rows, read[1:], strict=True):
        # The first two columns are identifiers and stay as they are.
        for text, cell in zip(row[2:], safe[2:], strict=True):
            assert cell == disarmed(text)
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d"))


@given(st.binary(max_size=300), st.integers(0, 400))
def test_no_more_is_unpacked_than_asked_for(content: bytes, most: int) -> None:
    assert b"".join(unpacked([gzip.compress(content)], most_bytes=most)) == content[:most]


def test_lines_end_at_line_feeds_alone() -> None:
    content = "a\u2028b\x85c\rd\ne".encode()
    assert list(lines([content[:3], content[3:]])) == ["a\u2028b\x85c\rd\n", "e"]


def test_a_file_that_was_cut_or_changed_is_told_from_a_whole_one() -> None:
    packed = gzip.compress(b"a,b\n" * 1000)
    for length in range(len(packed)):
        with pytest.raises(FileDamaged):
            list(unpacked([packed[:length]]))
    for place in (12, len(packed) - 8):
        with pytest.raises(FileDamaged):
            list(unpacked([packed[:place] + bytes([packed[place] ^ 1]) + packed[place + 1 :]]))
