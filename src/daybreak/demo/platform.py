"""Makes the demo platform: the thirteen source tables as Parquet files, out of core, the same for the same seed."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb

from daybreak.demo.draws import Draws, quoted
from daybreak.demo.plan import Sizes, make_plan
from daybreak.demo.tables import Tables

_MEMORY_LIMIT = "1GB"


@dataclass(frozen=True, slots=True)
class PlatformProgress:
    """One table is finished: its name, its rows, and how many of the thirteen are done."""

    table: str
    rows: int
    tables_done: int
    tables_total: int


@dataclass(frozen=True, slots=True)
class PlatformSummary:
    """What was made: rows per table, size of the Parquet files, and the share of all Members the largest 5 % of Leaders have."""

    folder: Path
    as_of: datetime
    seed: int
    rows: Mapping[str, int]
    size_bytes: int
    largest_leaders_share: float


def make_platform(
    folder: Path,
    *,
    leaders: int = 40,
    members: int = 200_000,
    messages: int = 1_000_000,
    seed: int = 7,
    as_of: datetime,
    threads: int | None = None,
    on_progress: Callable[[PlatformProgress], None] | None = None,
) -> PlatformSummary:
    """Write `TABLE.parquet` for the thirteen source tables into `folder`, which is made when it is not there.

    `messages` counts outbound messages. The same arguments give the same rows in the same order, whatever `threads`.
    Each file appears under its name only when it is whole. Raises ValueError for sizes below one or an `as_of`
    without a time zone.
    """
    if min(leaders, members, messages) < 1:
        raise ValueError("leaders, members and messages must be at least 1")
    if as_of.tzinfo is None:
        raise ValueError("as_of needs a time zone")
    as_of = as_of.astimezone(UTC)
    folder.mkdir(parents=True, exist_ok=True)
    workspace = folder / ".making"
    shutil.rmtree(workspace, ignore_errors=True)
    workspace.mkdir()
    sizes = Sizes(leaders, members, messages)
    draws = Draws(seed)
    rows: dict[str, int] = {}
    try:
        with duckdb.connect(str(workspace / "plan.duckdb")) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute("SET preserve_insertion_order = true")
            connection.execute(f"SET memory_limit = {quoted(_MEMORY_LIMIT)}")
            connection.execute(f"SET temp_directory = {quoted(str(workspace / 'spill'))}")
            if threads is not None:
                connection.execute(f"SET threads = {int(threads)}")
            for statement in make_plan(draws, sizes):
                connection.execute(statement)
            queries = Tables(draws, sizes, _micros(as_of)).queries()
            for table, query in queries.items():
                rows[table] = _write(connection, query, workspace / f"{table}.parquet", folder / f"{table}.parquet")
                if on_progress is not None:
                    on_progress(PlatformProgress(table, rows[table], len(rows), len(queries)))
            share = _largest_share(connection, leaders)
    except RuntimeError as fault:
        # What the engine makes of Ctrl-C while a query runs.
        if str(fault) == "Query interrupted":
            raise KeyboardInterrupt from fault
        raise
    finally:
        shutil.rmtree(workspace, ignore_errors=True)
    size_bytes = sum((folder / f"{table}.parquet").stat().st_size for table in rows)
    return PlatformSummary(folder, as_of, seed, rows, size_bytes, share)


def _write(connection: duckdb.DuckDBPyConnection, query: str, making: Path, target: Path) -> int:
    written = connection.execute(
        f"COPY ({query}) TO {quoted(str(making))} (FORMAT parquet, COMPRESSION zstd)"
    ).fetchone()
    making.replace(target)
    return int(written[0]) if written is not None else 0


def _largest_share(connection: duckdb.DuckDBPyConnection, leaders: int) -> float:
    largest = max(1, leaders // 20)
    found = connection.execute(
        f"SELECT sum(members) FILTER (leader_number < {largest}) / sum(members) FROM plan_leaders"
    ).fetchone()
    return float(found[0]) if found is not None else 0.0


def _micros(instant: datetime) -> int:
    return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
