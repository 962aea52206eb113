"""Generator of the demo platform: the thirteen source tables as Parquet files, in bounded memory."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb

from daybreak.demo.draws import Draws
from daybreak.demo.plan import PlatformSizes, make_plan
from daybreak.demo.tables import Tables
from daybreak.export.sql import literal

_MEMORY_LIMIT = "1GB"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class PlatformSummary:
    """Rows per table, bytes of all Parquet files, and the share of all Members that the largest 5 % of Leaders have."""

    folder: Path
    rows: Mapping[str, int]
    size_bytes: int
    largest_leaders_share: float


def make_platform(
    folder: Path,
    sizes: PlatformSizes,
    *,
    seed: int = 7,
    as_of: datetime,
    threads: int | None = None,
    on_progress: Callable[[str, int], None] | None = None,
) -> PlatformSummary:
    """Write `TABLE.parquet` for the thirteen source tables into `folder`, which is created if missing.

    The same arguments produce the same rows in the same order with any number of `threads`. A file is renamed to its final
    name only when it is complete. `on_progress` receives the name of each table, and its number of rows.
    """
    folder.mkdir(parents=True, exist_ok=True)
    draws = Draws(seed)
    rows: dict[str, int] = {}
    with _workspace(folder) as workspace, _engine(workspace, threads) as connection:
        for statement in make_plan(draws, sizes):
            connection.execute(statement)
        tables = Tables(draws, sizes, (as_of - _EPOCH) // timedelta(microseconds=1))
        for table, query in tables.queries().items():
            rows[table] = _write(connection, query, workspace / f"{table}.parquet", folder / f"{table}.parquet")
            if on_progress is not None:
                on_progress(table, rows[table])
        share = _largest_share(connection, sizes.leaders)
    size_bytes = sum((folder / f"{table}.parquet").stat().st_size for table in rows)
    return PlatformSummary(folder, rows, size_bytes, share)


@contextmanager
def _workspace(folder: Path) -> Iterator[Path]:
    """Create an empty folder for temporary files, and remove it at the end."""
    workspace = folder / ".making"
    shutil.rmtree(workspace, ignore_errors=True)
    workspace.mkdir(0o700)
    try:
        yield workspace
    finally:
        shutil.rmtree(workspace, ignore_errors=True)


@contextmanager
def _engine(workspace: Path, threads: int | None) -> Iterator[duckdb.DuckDBPyConnection]:
    try:
        with duckdb.connect(str(workspace / "plan.duckdb")) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute("SET preserve_insertion_order = true")
            connection.execute(f"SET memory_limit = {literal(_MEMORY_LIMIT)}")
            connection.execute(f"SET temp_directory = {literal(str(workspace / 'spill'))}")
            if threads is not None:
                connection.execute(f"SET threads = {int(threads)}")
            yield connection
    except RuntimeError as fault:
        # DuckDB reports Ctrl-C during a query as a RuntimeError.
        if str(fault) == "Query interrupted":
            raise KeyboardInterrupt from fault
        raise


def _write(connection: duckdb.DuckDBPyConnection, query: str, temporary: Path, target: Path) -> int:
    written = connection.execute(
        f"COPY ({query}) TO {literal(str(temporary))} (FORMAT parquet, COMPRESSION zstd)"
    ).fetchone()
    temporary.replace(target)
    return int(written[0]) if written is not None else 0


def _largest_share(connection: duckdb.DuckDBPyConnection, leaders: int) -> float:
    largest = max(1, leaders // 20)
    found = connection.execute(
        f"SELECT sum(members) FILTER (leader_number < {largest}) / sum(members) FROM plan_leaders"
    ).fetchone()
    return float(found[0]) if found is not None else 0.0
