"""Source tables in PostgreSQL, loaded from the Parquet files of a platform."""

import tempfile
from pathlib import Path

import duckdb
import psycopg

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.source_tables import SOURCE_TABLES

_TYPES = {
    ColumnType.UUID: "uuid",
    ColumnType.TEXT: "text",
    ColumnType.BIGINT: "bigint",
    ColumnType.BOOLEAN: "boolean",
    ColumnType.DATE: "date",
    ColumnType.TIMESTAMP: "timestamptz",
}
_PIECE_BYTES = 1 << 20


def fill_tables(url: str, parquet: Path) -> None:
    """Create the source tables and copy `TABLE.parquet` into each, through CSV."""
    with (
        tempfile.TemporaryDirectory(prefix="daybreak-csv-") as folder,
        duckdb.connect() as engine,
        psycopg.connect(url) as server,
    ):
        server.execute("SET TIME ZONE 'UTC'")
        engine.execute("SET TimeZone = 'UTC'")
        engine.execute("SET enable_progress_bar = false")
        for table in SOURCE_TABLES:
            columns = ", ".join(f"{c.name} {_TYPES[c.type]}" for c in table.columns)
            server.execute(f"CREATE TABLE {table.name} ({columns})".encode())
            names = ", ".join(c.name for c in table.columns)
            csv = Path(folder) / f"{table.name}.csv"
            # Quotes distinguish the empty text from NULL.
            engine.execute(
                f"COPY (SELECT {names} FROM '{parquet / table.name}.parquet') TO '{csv}' "
                "(FORMAT csv, HEADER false, FORCE_QUOTE *)"
            )
            with (
                csv.open("rb") as rows,
                server.cursor() as cursor,
                cursor.copy(f"COPY {table.name} FROM STDIN (FORMAT csv)".encode()) as copy,
            ):
                while piece := rows.read(_PIECE_BYTES):
                    copy.write(piece)
            csv.unlink()
