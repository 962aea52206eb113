"""PostgreSQL as source: the models run in the server, their rows are stored in staging tables.

All nine models read one exported snapshot; a role with read access is enough. The driver decodes rows on one core, so
the rows of a model that does not aggregate are read in halves over two connections. The embedded engine sorts: a sort
in the server is slower and loads it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import ClassVar

import duckdb
import psycopg
from psycopg.abc import Buffer

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.models import Model
from daybreak.catalogue.resources import Resource, resource_named
from daybreak.domain.errors import SourceError, SourceUnavailable, first_line
from daybreak.export.engine import ENGINE_TYPES
from daybreak.export.sql import identifier
from daybreak.settings.text_forms import duration_in_words
from daybreak.sources.contract import (
    Columns,
    ModelRejected,
    check_models,
    check_tables,
    check_terms,
    require_distinct,
    usable_tables,
)
from daybreak.sources.dialects import aggregates
from daybreak.sources.engine_reading import EmbeddedReading
from daybreak.sources.malformed import MalformedPolicy, apply_policy
from daybreak.sources.postgresql.server_snapshot import (
    Connection,
    ServerSnapshot,
    open_snapshot,
    open_transaction,
    server_faults,
)
from daybreak.sources.postgresql.tables import TYPE_NAMES, ServerTables
from daybreak.sources.staging import OpenStream, StagingTables, open_staging

ACCEPTED_TYPES: Mapping[ColumnType, tuple[str, ...]] = {
    ColumnType.UUID: ("uuid", "text", "character varying", "character"),
    ColumnType.TEXT: ("text", "character varying", "character", "USER-DEFINED", "uuid"),
    ColumnType.BIGINT: ("bigint", "integer", "smallint", "numeric"),
    ColumnType.BOOLEAN: ("boolean",),
    ColumnType.DATE: ("date",),
    ColumnType.TIMESTAMP: ("timestamp with time zone", "timestamp without time zone"),
}

# No row on a primary. A standby that is connected and has replayed all that it received is current, however old the
# last transaction of the primary is. Without a connection only the time of the last transaction is known.
_REPLAY = """
SELECT pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() AND EXISTS (SELECT FROM pg_stat_wal_receiver),
       clock_timestamp() - pg_last_xact_replay_timestamp()
WHERE pg_is_in_recovery()
"""


@dataclass(frozen=True, slots=True)
class PostgresqlSource:
    """A `PlatformSource` over a PostgreSQL database (`postgresql://...`), or a read replica.

    `memory_bytes`, `threads` and `temp_dir` are for the engine with the staging tables. `statement_timeout_seconds`
    limits each statement; 0 keeps the server's limit. A standby may be `max_lag` behind.
    """

    # Not in the repr, which tracebacks and logs show: the address may contain a password.
    location: str = field(repr=False)
    models: Mapping[str, Model]
    _: KW_ONLY
    memory_bytes: int
    threads: int
    temp_dir: Path
    statement_timeout_seconds: int = 0
    max_lag: timedelta = timedelta(minutes=10)
    malformed_rows: MalformedPolicy = "refuse"

    engine: ClassVar[str] = "postgresql"

    @contextmanager
    def open(self, as_of: datetime) -> Iterator["PostgresqlReading"]:
        """Export one snapshot for one reading. Raises SourceError, SourceUnavailable."""
        with (
            open_staging(memory_bytes=self.memory_bytes, threads=self.threads, temp_dir=self.temp_dir) as staging,
            open_snapshot(self.location, timeout_seconds=self.statement_timeout_seconds) as snapshot,
        ):
            yield PostgresqlReading(snapshot, staging, as_of, self, self._lag(snapshot.keeper, as_of))

    def query(self, sql: str) -> list[dict[str, object]]:
        """Return the rows of a query, as `DirectorySource.query` does."""
        with (
            open_transaction(self.location, timeout_seconds=self.statement_timeout_seconds) as (connection, _),
            server_faults("A query under [directory]", timeout_seconds=self.statement_timeout_seconds),
            connection.cursor(row_factory=psycopg.rows.dict_row) as cursor,
        ):
            self._lag(connection, datetime.now(UTC))
            cursor.adapters.register_loader("bpchar", _UnpaddedLoader)
            cursor.execute(sql.encode())
            require_distinct([column.name for column in cursor.description or ()])
            try:
                return cursor.fetchall()
            except psycopg.DataError as error:
                times = [c.name for c in cursor.description or () if re.search("date|time|interval", c.type_display)]
                raise SourceError(
                    f"A query under [directory] (PostgreSQL): a value in column {' or '.join(times)} is outside the "
                    "years 1 to 9999, such as infinity. Leave the column out, or cast it to text."
                ) from error

    def _lag(self, connection: Connection, as_of: datetime) -> timedelta | None:
        """Return the lag of a standby, None for a primary. Raises SourceUnavailable if it is too large."""
        with server_faults("The source"):
            lag = replay_lag(connection, as_of)
        if lag is not None and lag > self.max_lag:
            raise SourceUnavailable(
                f"The source is a standby whose data is {duration_in_words(lag)} old. source.max_lag allows "
                f"{duration_in_words(self.max_lag)}. Check its replication (pg_is_wal_replay_paused, "
                "pg_stat_wal_receiver), or set source.location to another server."
            )
        return lag


class PostgresqlReading(EmbeddedReading):
    """One reading of a PostgreSQL source: a `Reading`."""

    def __init__(
        self,
        snapshot: ServerSnapshot,
        staging: StagingTables,
        as_of: datetime,
        source: PostgresqlSource,
        lag: timedelta | None,
    ) -> None:
        super().__init__(source.models, as_of, source.malformed_rows)
        self.lag = lag
        self._snapshot = snapshot
        self._keeper = snapshot.keeper
        self._tables = ServerTables(snapshot.keeper)
        self._staging = staging
        self._loaded: dict[str, str] = {}

    def check(self) -> None:
        """Check privileges, tables, models, Leaders and terms."""
        with self._snapshot.faults("The source"):
            self._tables.refuse_replaced()
            grants = self._tables.missing_grants(self._required)
            if grants:
                raise SourceError("The role cannot read all of the source. Run:\n  " + "\n  ".join(grants))
            check_tables(
                "The source in PostgreSQL (by the search_path of the role)",
                self._tables.columns(),
                ACCEPTED_TYPES,
                self._required,
            )
            self.malformed = self._tables.refuse_malformed(usable_tables(self._tables.columns(), ACCEPTED_TYPES))
            apply_policy(self._policy, self.malformed)
            check_models(self.models, self._columns_of_model, ACCEPTED_TYPES)
            # The models have locked all tables that they read.
            self._tables.refuse_replaced()
            check_terms(
                self._required, lambda sql: self._keeper.execute(f"{self._typed_tables()}{sql}".encode()).fetchone()
            )
        self.leaders()
        self._snapshot.open_driver()

    def _parents(self) -> list[tuple[str | None, ...]]:
        with self._snapshot.faults("Table leaders"):
            return self._keeper.execute(
                f"{self._typed_tables()}SELECT leader_id::text, parent_leader_id::text FROM leaders".encode()
            ).fetchall()

    def input_bytes(self) -> int:
        """Return the size of the tables on the server. Views and foreign tables count as 0."""
        with self._snapshot.faults("The source"):
            return self._tables.size_bytes()

    def source_rows(self, subject: str, sql: str) -> list[Sequence[object]]:
        # In a savepoint, because a failed statement must not end the transaction that holds the snapshot.
        with self._snapshot.faults(subject), self._keeper.transaction():
            return list(
                self._keeper.execute(f"{self._typed_tables()}SELECT * FROM ({sql}) AS counted".encode()).fetchall()
            )

    def cancel(self) -> None:
        self._keeper.cancel_safe()

    def confirm_unchanged(self) -> None:
        """Query the keeper once more, which fails if its transaction no longer holds the snapshot."""
        with self._snapshot.faults("The source"):
            self._keeper.execute("SELECT 1")

    def rows_query(self, resource: str) -> str:
        """Load the resource's rows into staging tables on first use. Return a SELECT over them."""
        if resource not in self._loaded:
            known = resource_named(resource)
            self._loaded[resource] = self._staging.load(
                known, self._streams(known), repeatable=True, stop=self._snapshot.cancel
            )
        return self._loaded[resource]

    def cursor(self) -> duckdb.DuckDBPyConnection:
        return self._staging.cursor()

    def _streams(self, resource: Resource) -> list[OpenStream]:
        model = self.models[resource.name]
        columns = ", ".join(
            # PostgreSQL has the engine's types under the same names.
            f"CAST({identifier(column.name)} AS {ENGINE_TYPES[column.type]}) AS {identifier(column.name)}"
            for column in resource.columns
        )
        select = f"{self._typed_tables()}SELECT {columns} FROM ({model.at(self._as_of)}) AS model"
        if aggregates(model, "postgres"):
            return [partial(self._snapshot.stream, select)]
        # The server's hash function for UUIDs. The hash of NULL is NULL, so the second condition includes it.
        half = f"uuid_hash(CAST({identifier(_hashed_column(resource))} AS uuid)) & 1"
        return [
            partial(self._snapshot.stream, f"{select} WHERE {half} {condition}", parallel_workers=False)
            for condition in ("= 0", "IS DISTINCT FROM 0")
        ]

    def _typed_tables(self) -> str:
        return self._tables.with_typed_tables(usable_tables(self._tables.columns(), ACCEPTED_TYPES))

    def _columns_of_model(self, model: Model) -> Columns:
        select = f"{self._typed_tables()}SELECT * FROM ({model.at(self._as_of)}) AS model LIMIT 0"
        try:
            # In a savepoint, because a failed statement must not end the transaction that holds the snapshot.
            with self._keeper.transaction(), self._keeper.cursor() as cursor:
                described = cursor.execute(select.encode()).description or []
                kinds = cursor.execute(TYPE_NAMES, [[column.type_code for column in described]]).fetchall()
        except psycopg.ProgrammingError as error:
            raise ModelRejected(first_line(error)) from error
        return [(column.name, kind) for column, (kind,) in zip(described, kinds, strict=True)]


class _UnpaddedLoader(psycopg.types.string.TextLoader):
    """Loads char(n) without its padding, as a cast to text does."""

    def load(self, data: Buffer) -> str | bytes:
        return super().load(bytes(data).rstrip(b" "))


def _hashed_column(resource: Resource) -> str:
    """Return a column with many distinct values: an identifier of the key, else that of the Leader."""
    return next((name for name in resource.key if resource.column(name).type is ColumnType.UUID), "LEADER_ID")


def replay_lag(connection: Connection, as_of: datetime) -> timedelta | None:
    """Return how far a standby is behind `as_of`, None for a primary. Raises SourceUnavailable when it is unknown.

    A difference between our clock and that of the standby does not count. The time of the last transaction is that of
    the primary: the clocks of the two servers must agree.
    """
    age = datetime.now(UTC) - as_of
    row = connection.execute(_REPLAY).fetchone()
    if row is None:
        return None
    is_current: bool | None = row[0]
    replayed_since: timedelta | None = row[1]
    if is_current:
        return timedelta(0)
    if replayed_since is None:
        raise SourceUnavailable(
            "The source is a standby that has replayed no transaction since its start, and is behind its primary or "
            "not connected to it. Check its replication, or set source.location to another server."
        )
    return max(replayed_since - age, timedelta(0))
