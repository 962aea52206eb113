"""Staging tables: a stream is stored completely or not at all, regardless of the width of its rows."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest

from daybreak.catalogue.resources import resource_named
from daybreak.domain.errors import RunError
from daybreak.sources.staging import ArrowStream, StreamFailed, open_staging

COMMUNITIES = resource_named("communities")
CHANGES = resource_named("member_state_changes")
MEGABYTE = 1_000_000


def rows(first: int, count: int, name_bytes: int) -> Iterator[pa.RecordBatch]:
    for number in range(first, first + count):
        yield pa.RecordBatch.from_pydict(
            {
                "COMMUNITY_ID": [f"00000000-0000-4000-8000-{number:012}"],
                "COMMUNITY_NAME": [str(number % 10) * name_bytes],
                "LEADER_ID": ["00000000-0000-4000-8000-000000000000"],
                "MEMBER_COUNT": [number],
            }
        )


def failing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
    raise OSError("connection lost")


def stream(batches: Iterator[pa.RecordBatch]) -> AbstractContextManager[ArrowStream]:
    first = next(batches)
    return nullcontext(pa.RecordBatchReader.from_batches(first.schema, chain([first], batches)))


@pytest.mark.release
def test_rows_wider_than_memory_are_stored_in_parts(tmp_path: Path) -> None:
    """A vector of 2,048 such rows would take 2 GB. Each stream alone exceeds the engine's memory."""
    streams = [lambda first=first: stream(rows(first, 150, MEGABYTE)) for first in (0, 1000)]
    with open_staging(memory_bytes=100 * MEGABYTE, threads=2, temp_dir=tmp_path) as staging:
        with pytest.raises(RunError, match=r"snapshot\.memory_limit"):
            staging.load(COMMUNITIES, streams)
        select = staging.load(COMMUNITIES, streams, repeatable=True)
        with closing(staging.cursor()) as cursor:
            found = cursor.execute(
                f'SELECT count(*), count(DISTINCT "COMMUNITY_ID"), sum(strlen("COMMUNITY_NAME")) FROM ({select})'
            ).fetchall()
    assert found == [(300, 300, 300 * MEGABYTE)]


def test_failed_stream_leaves_no_table(tmp_path: Path) -> None:
    streams = [partial(stream, rows(0, 5, 10)), partial(stream, failing(rows(5, 5, 10)))]
    with open_staging(memory_bytes=60 * MEGABYTE, threads=2, temp_dir=tmp_path) as staging:
        with pytest.raises(StreamFailed, match="connection lost"):
            staging.load(COMMUNITIES, streams)
        with closing(staging.cursor()) as cursor:
            assert cursor.execute("SELECT table_name FROM duckdb_tables()").fetchall() == []


def test_first_error_is_raised_and_stops_other_streams(tmp_path: Path) -> None:
    stopped = Event()

    def endless() -> Iterator[pa.RecordBatch]:
        yield from rows(0, 5, 10)
        assert stopped.wait(60), "this stream was not stopped"
        raise OSError("stopped")

    streams = [lambda: stream(endless()), lambda: stream(failing(rows(5, 5, 10)))]
    with open_staging(memory_bytes=60 * MEGABYTE, threads=2, temp_dir=tmp_path) as staging:
        with pytest.raises(StreamFailed, match="connection lost"):
            staging.load(COMMUNITIES, streams, stop=stopped.set)
        assert stopped.is_set()


def test_no_streams_give_no_rows(tmp_path: Path) -> None:
    with (
        open_staging(memory_bytes=60 * MEGABYTE, threads=2, temp_dir=tmp_path) as staging,
        closing(staging.cursor()) as cursor,
    ):
        found = cursor.execute(staging.load(COMMUNITIES, []))
        assert [column[0] for column in found.description] == list(COMMUNITIES.column_names)
        assert found.fetchall() == []


def changes_at(*instants: int) -> AbstractContextManager[ArrowStream]:
    """Open a stream of changes at these microseconds since 1970."""
    name = "00000000-0000-4000-8000-000000000000"
    return stream(
        pa.RecordBatch.from_pydict(
            {
                "MEMBER_ID": [name],
                "LEADER_ID": [name],
                "SUBSCRIPTION_STATE": ["live"],
                "STATE_CHANGED_AT": pa.array([instant], pa.timestamp("us", "UTC")),
            }
        )
        for instant in instants
    )


def test_extreme_times_are_stored_unchanged(tmp_path: Path) -> None:
    """The export stores NULL for them and counts them."""
    ancient, infinity, minus_infinity = -(10**18), 2**63 - 1, -(2**63) + 1
    with open_staging(memory_bytes=60 * MEGABYTE, threads=2, temp_dir=tmp_path) as staging:
        select = staging.load(CHANGES, [lambda: changes_at(ancient, infinity, minus_infinity)])
        with closing(staging.cursor()) as cursor:
            found = cursor.execute(f'SELECT CAST("STATE_CHANGED_AT" AS VARCHAR) FROM ({select})').fetchall()
    assert sorted(text for (text,) in found) == ["-infinity", "29720-04-05 (BC) 22:13:20", "infinity"]
