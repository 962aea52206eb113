"""Moving a state database to another one: everything in it, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from daybreak.domain.errors import OperatorError
from daybreak.state.database import open_state, postgresql_url, sqlite_path
from daybreak.state.failures import translated
from daybreak.state.migrate import migrate, require_current
from daybreak.state.schema import (
    audit_events,
    audit_retention,
    counters,
    current_snapshot,
    metadata,
    snapshot_files,
    snapshot_leaders,
)
from daybreak.state.sqlite_file import engine_of
from daybreak.state.statements import BulkInsert

# The first migration puts these rows in; the source's take their place.
_ALWAYS_THERE = (counters, current_snapshot, audit_retention)
_ROWS_AT_ONCE = 5_000
_WAIT_SECONDS = 300.0

Progress = Callable[[str, int, int], None]


def copy_state(source_url: str, target_url: str, on_progress: Progress | None = None) -> dict[str, int]:
    """Copies every table of one state database into another, as of one instant and in one
    transaction; how many rows each table has. `on_progress(table, rows_done, rows_in_all)` is
    called as it goes. The target is migrated first.

    Raises OperatorError when the target holds anything already, when the source does not have this
    version's shape, or when a count differs at the end; Unavailable when either is away.
    """
    if source_url == target_url:
        raise OperatorError("The source and the target of the copy are the same database.")
    source_state = open_state(source_url)
    try:
        require_current(source_state, source_url)
    finally:
        source_state.close()
    migrate(target_url)
    with translated(), _reading(source_url) as source, _writing(target_url) as target:
        _require_empty(target)
        for table in _ALWAYS_THERE:
            target.execute(sa.delete(table))
        copied = {table.name: _copy_table(table, source, target, on_progress) for table in metadata.sorted_tables}
        _verify(copied, target)
        _make_at_home(target)
    return copied


def _copy_table(table: sa.Table, source: sa.Connection, target: sa.Connection, on_progress: Progress | None) -> int:
    total = _count(source, table)
    plain = table in (snapshot_files, snapshot_leaders)
    # These two hold nearly all rows and only values that both drivers take as they are.
    columns = [sa.type_coerce(column, sa.Text) if plain and column.name == "formats" else column for column in table.c]
    rows = source.execution_options(yield_per=_ROWS_AT_ONCE).execute(
        sa.select(*columns).order_by(*table.primary_key.columns)
    )
    done = 0
    for some in rows.partitions():
        if plain:
            BulkInsert(table).run(target, [tuple(row) for row in some])
        else:
            target.execute(sa.insert(table), [dict(row._mapping) for row in some])  # noqa: SLF001 - its public name
        done += len(some)
        if on_progress is not None:
            on_progress(table.name, done, total)
    return done


def _require_empty(target: sa.Connection) -> None:
    for table in metadata.sorted_tables:
        if table not in _ALWAYS_THERE and target.execute(sa.select(sa.literal(1)).select_from(table).limit(1)).first():
            raise OperatorError(
                f"The target holds rows already (table {table.name}): copy into an empty database, so that nothing "
                "in it is mixed or lost."
            )


def _make_at_home(target: sa.Connection) -> None:
    """What PostgreSQL does not do by itself: its counter goes on behind the numbers that came with
    the rows, and its planner learns at once how large the tables have become."""
    if target.dialect.name == "postgresql":
        for table in metadata.sorted_tables:
            target.exec_driver_sql(f"ANALYZE {table.name}")
        sequence = sa.func.pg_get_serial_sequence(audit_events.name, "event_id")
        highest = sa.select(sa.func.max(audit_events.c.event_id)).scalar_subquery()
        target.execute(sa.select(sa.func.setval(sequence, sa.func.coalesce(highest, 1), highest.is_not(None))))


def _verify(copied: dict[str, int], target: sa.Connection) -> None:
    for table in metadata.sorted_tables:
        arrived = _count(target, table)
        if arrived != copied[table.name]:
            raise OperatorError(
                f"Table {table.name}: {copied[table.name]} rows were read and {arrived} arrived. Nothing was copied."
            )


def _count(connection: sa.Connection, table: sa.Table) -> int:
    return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()


@contextmanager
def _reading(url: str) -> Iterator[sa.Connection]:
    """A connection that sees the database as of one instant."""
    engine = _engine(url)
    try:
        with engine.connect() as connection:
            if sqlite_path(url) is None:
                connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with connection.begin():
                if sqlite_path(url) is not None:
                    connection.exec_driver_sql("BEGIN")
                yield connection
    finally:
        engine.dispose()


@contextmanager
def _writing(url: str) -> Iterator[sa.Connection]:
    """A connection in a transaction that is committed when nothing was raised."""
    engine = _engine(url)
    try:
        with engine.begin() as connection:
            if sqlite_path(url) is not None:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection
    finally:
        engine.dispose()


def _engine(url: str) -> sa.Engine:
    path = sqlite_path(url)
    if path is not None:
        return engine_of(path, _WAIT_SECONDS)
    from daybreak.state.postgresql_state import blocking_engine

    return blocking_engine(postgresql_url(url), _WAIT_SECONDS)
