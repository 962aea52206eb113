"""Splitting of batches of lines by Leader, and rejection of rows that are not sorted by Leader."""

from array import array
from collections.abc import Iterator
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.domain.errors import SourceError
from daybreak.export.leader_chunks import split_by_leader
from daybreak.export.line_batch import LineBatch


def batches(rows: list[tuple[int, str]], size: int) -> Iterator[LineBatch]:
    """Yield batches of `size` rows: (ordinal, line)."""
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        lines = [row[1].encode() for row in part]
        offsets = array("i", accumulate(map(len, lines), initial=0))
        ordinals = array("i", (row[0] for row in part))
        content = memoryview(b"".join(lines))
        yield LineBatch(memoryview(ordinals), {"csv": (memoryview(offsets), content)}, None)


def joined(rows: list[tuple[int, str]], size: int) -> dict[int, tuple[int, bytes]]:
    """Return (rows, content) of each ordinal."""
    found: dict[int, tuple[int, bytes]] = {}
    for chunk in split_by_leader(batches(rows, size)):
        count, content = found.get(chunk.ordinal, (0, b""))
        found[chunk.ordinal] = (count + chunk.rows, content + bytes(chunk.lines["csv"]))
    return found


@given(
    counts=st.lists(st.integers(0, 9), max_size=12),
    size=st.integers(1, 20),
    texts=st.lists(st.text(max_size=5), min_size=1, max_size=7),
)
def test_chunks_contain_every_line_of_a_leader(counts: list[int], size: int, texts: list[str]) -> None:
    rows = [
        (ordinal, texts[(ordinal + number) % len(texts)] + "\n")
        for ordinal, count in enumerate(counts)
        for number in range(count)
    ]
    expected = {
        ordinal: (count, "".join(line for o, line in rows if o == ordinal).encode())
        for ordinal, count in enumerate(counts)
        if count
    }
    assert joined(rows, size) == expected


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
@pytest.mark.parametrize(
    "ordinals",
    [[0, 1, 0], [0, 0, 1, 1, 0], [1, 0], [0, 2, 1, 3], [0, 1, 0, 1, 0, 1, 1, 1, 1, 1]],
)
def test_unordered_rows_are_rejected(ordinals: list[int], size: int) -> None:
    rows = [(ordinal, "line\n") for ordinal in ordinals]
    with pytest.raises(SourceError):
        joined(rows, size)
