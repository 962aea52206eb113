"""Copy of a state database to another one, in one transaction."""

from collections.abc import Callable

import sqlalchemy as sa

from daybreak.domain.errors import OperatorError
from daybreak.state.database import open_state, transaction
from daybreak.state.errors import translated_errors
from daybreak.state.migrate import migrate, require_current
from daybreak.state.schema import (
    audit_events,
    audit_retention,
    counters,
    current_snapshot,
    metadata,
    snapshot_deltas,
    snapshot_files,
    snapshot_leaders,
)
from daybreak.state.statements import BulkInsert

# A new database has rows in these tables. The rows of the source replace them.
_PREFILLED_TABLES = (counters, current_snapshot, audit_retention)
_BATCH_ROWS = 5_000
_WAIT_SECONDS = 300.0

Progress = Callable[[str, int, int], None]


def copy_state(source_url: str, target_url: str, on_progress: Progress | None = None) -> dict[str, int]:
    """Copy every table into another state database and return the number of rows by table.

    The source is read as of one instant, and the target is migrated first. `on_progress(table, rows_done, rows_total)`
    is called after each batch.

    Raises:
        OperatorError: The target is not empty, the source needs a migration, or a row count differs afterwards.
        Unavailable: One of the databases cannot be reached.
    """
    if source_url == target_url:
        raise OperatorError("The source and the target are the same database. Name another target.")
    source_state = open_state(source_url)
    try:
        require_current(source_state, source_url)
    finally:
        source_state.close()
    migrate(target_url)
    reading, writing = transaction(source_url, _WAIT_SECONDS, reads=True), transaction(target_url, _WAIT_SECONDS)
    with translated_errors(), reading as source, writing as target:
        _require_empty(target)
        for table in _PREFILLED_TABLES:
            target.execute(sa.delete(table))
        copied = {table.name: _copy_table(table, source, target, on_progress) for table in metadata.sorted_tables}
        _verify(copied, target)
        _finish_postgresql(target)
    return copied


def _copy_table(table: sa.Table, source: sa.Connection, target: sa.Connection, on_progress: Progress | None) -> int:
    total = _count(source, table)
    # These tables have nearly all rows, and only values that both drivers accept without conversion.
    bulk = table in (snapshot_files, snapshot_leaders, snapshot_deltas)
    columns = [
        sa.type_coerce(column, sa.Text) if bulk and column.name in {"formats", "delta"} else column
        for column in table.c
    ]
    rows = source.execution_options(yield_per=_BATCH_ROWS).execute(
        sa.select(*columns).order_by(*table.primary_key.columns)
    )
    done = 0
    for batch in rows.partitions():
        if bulk:
            BulkInsert(table).run(target, [tuple(row) for row in batch])
        else:
            target.execute(sa.insert(table), [dict(row._mapping) for row in batch])  # noqa: SLF001 - its public name
        done += len(batch)
        if on_progress is not None:
            on_progress(table.name, done, total)
    return done


def _require_empty(target: sa.Connection) -> None:
    for table in metadata.sorted_tables:
        if (
            table not in _PREFILLED_TABLES
            and target.execute(sa.select(sa.literal(1)).select_from(table).limit(1)).first()
        ):
            raise OperatorError(f"The target is not empty: table {table.name} has rows. Copy into an empty database.")


def _finish_postgresql(target: sa.Connection) -> None:
    """Set the sequence of event ids behind the copied ones, and update the planner's statistics."""
    if target.dialect.name == "postgresql":
        for table in metadata.sorted_tables:
            target.exec_driver_sql(f"ANALYZE {table.name}")
        sequence = sa.func.pg_get_serial_sequence(audit_events.name, "event_id")
        highest = sa.select(sa.func.max(audit_events.c.event_id)).scalar_subquery()
        target.execute(sa.select(sa.func.setval(sequence, sa.func.coalesce(highest, 1), highest.is_not(None))))


def _verify(copied: dict[str, int], target: sa.Connection) -> None:
    for table in metadata.sorted_tables:
        written = _count(target, table)
        if written != copied[table.name]:
            raise OperatorError(
                f"Table {table.name}: {copied[table.name]} rows were read, but {written} written. Nothing was copied."
            )


def _count(connection: sa.Connection, table: sa.Table) -> int:
    return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
