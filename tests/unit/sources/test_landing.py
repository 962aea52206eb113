"""Rows land whole or not at all, however wide they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest

from daybreak.catalogue.resources import resource_named
from daybreak.domain.errors import RunError, SourceError
from daybreak.sources.landing import ArrowStream, StreamBroken, open_landing
from daybreak.sources.postgresql_times import unwrapped

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


def cut_off(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
    raise OSError("the line is dead")


def stream(batches: Iterator[pa.RecordBatch]) -> AbstractContextManager[ArrowStream]:
    first = next(batches)
    return nullcontext(pa.RecordBatchReader.from_batches(first.schema, chain([first], batches)))


def test_rows_wider_than_memory_land_in_portions(tmp_path: Path) -> None:
    """A vector of 2,048 such rows would be 2 GB. Each stream alone is more than the engine may hold, so that one way
    fails whenever they meet.
    """
    arrivals = [lambda first=first: stream(rows(first, 150, MEGABYTE)) for first in (0, 1000)]
    with open_landing(memory_bytes=100 * MEGABYTE, threads=2, temp_dir=tmp_path) as landing:
        with pytest.raises(RunError, match=r"snapshot\.memory_limit"):
            landing.land(COMMUNITIES, arrivals)
        select = landing.land(COMMUNITIES, arrivals, repeatable=True)
        with closing(landing.cursor()) as cursor:
            found = cursor.execute(
                f'SELECT count(*), count(DISTINCT "COMMUNITY_ID"), sum(strlen("COMMUNITY_NAME")) FROM ({select})'
            ).fetchall()
    assert found == [(300, 300, 300 * MEGABYTE)]


def test_a_stream_that_breaks_leaves_no_table(tmp_path: Path) -> None:
    arrivals = [partial(stream, rows(0, 5, 10)), partial(stream, cut_off(rows(5, 5, 10)))]
    with open_landing(memory_bytes=60 * MEGABYTE, threads=2, temp_dir=tmp_path) as landing:
        with pytest.raises(StreamBroken, match="the line is dead"):
            landing.land(COMMUNITIES, arrivals)
        with closing(landing.cursor()) as cursor:
            assert cursor.execute("SELECT table_name FROM duckdb_tables()").fetchall() == []


def test_the_first_error_stops_the_other_streams_and_is_the_one_raised(tmp_path: Path) -> None:
    stopped = Event()

    def without_end() -> Iterator[pa.RecordBatch]:
        yield from rows(0, 5, 10)
        assert stopped.wait(60), "nobody stopped this stream"
        raise OSError("stopped as asked")

    arrivals = [lambda: stream(without_end()), lambda: stream(cut_off(rows(5, 5, 10)))]
    with open_landing(memory_bytes=60 * MEGABYTE, threads=2, temp_dir=tmp_path) as landing:
        with pytest.raises(StreamBroken, match="the line is dead"):
            landing.land(COMMUNITIES, arrivals, stop=stopped.set)
        assert stopped.is_set()


def test_no_stream_is_no_row(tmp_path: Path) -> None:
    with (
        open_landing(memory_bytes=60 * MEGABYTE, threads=2, temp_dir=tmp_path) as landing,
        closing(landing.cursor()) as cursor,
    ):
        found = cursor.execute(landing.land(COMMUNITIES, []))
        assert [column[0] for column in found.description] == list(COMMUNITIES.column_names)
        assert found.fetchall() == []


def changed_at(*instants: int) -> AbstractContextManager[ArrowStream]:
    """Changes at so many microseconds since 1970."""
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


def test_times_without_end_and_before_any_calendar_land_as_they_came(tmp_path: Path) -> None:
    """An engine of the operator's own may hold them; only PostgreSQL's driver makes others of them."""
    long_ago, ever, never = -(10**18), 2**63 - 1, -(2**63) + 1
    with open_landing(memory_bytes=60 * MEGABYTE, threads=2, temp_dir=tmp_path) as landing:
        select = landing.land(CHANGES, [lambda: changed_at(long_ago, ever, never)])
        with closing(landing.cursor()) as cursor:
            found = cursor.execute(f'SELECT CAST("STATE_CHANGED_AT" AS VARCHAR) FROM ({select})').fetchall()
    assert sorted(text for (text,) in found) == ["-infinity", "29720-04-05 (BC) 22:13:20", "infinity"]
    with (
        open_landing(memory_bytes=60 * MEGABYTE, threads=2, temp_dir=tmp_path, mended=unwrapped) as landing,
        pytest.raises(SourceError, match="STATE_CHANGED_AT holds a time that is too far ahead"),
    ):
        landing.land(CHANGES, [lambda: changed_at(long_ago)])
