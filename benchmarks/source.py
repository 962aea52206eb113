"""The platform that is read: made once by the demo's generator, kept between runs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import duckdb

from daybreak.demo.platform import make_platform

AS_OF = datetime(2026, 11, 20, 4, tzinfo=UTC)


def make_source(folder: Path, rows: int, leaders: int, messages: int, order: str) -> Path:
    """A folder of Parquet files; `members` in no order at all, or Leader by Leader."""
    source = folder / f"platform-{rows}-{leaders}-{messages}-{order}"
    if (source / "ready").exists():
        return source
    print(f"Making a platform of {rows:,} Members in {source} ...", flush=True)
    make_platform(source, leaders=leaders, members=rows, messages=messages, as_of=AS_OF)
    by = "hash(member_id)" if order == "shuffled" else "leader_id, member_id"
    ordered = source.with_name(source.name + "-ordered.parquet")
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT * FROM '{source}/members.parquet' ORDER BY {by}) TO '{ordered}' (FORMAT parquet)"
        )
        # Polars reads a Parquet UUID as bytes it cannot write to CSV: it gets text, made beforehand.
        connection.execute(
            "COPY (SELECT * REPLACE (CAST(member_id AS VARCHAR) AS member_id, CAST(leader_id AS VARCHAR) AS leader_id) "
            f"FROM '{ordered}') TO '{with_text_ids(source)}' (FORMAT parquet)"
        )
    ordered.replace(source / "members.parquet")
    (source / "ready").touch()
    return source


def with_text_ids(source: Path) -> Path:
    """The same Members with their identifiers as text."""
    return source.with_name(source.name + "-text.parquet")
