"""Source platforms, created by the demo's generator or by SQL for a given shape, and kept between runs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.models import load_models
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.export.engine import ENGINE_TYPES

AS_OF = datetime(2026, 11, 20, 4, tzinfo=UTC)


def make_source(folder: Path, rows: int, leaders: int, messages: int, order: str, *, even: bool = False) -> Path:
    """Create a folder of Parquet files. `order` of the Members is "shuffled" (random) or "clustered" (by Leader). The
    Leaders are of very different size, or of one size if `even`.
    """
    # Methods import this module too, and need no generator.
    from daybreak.demo.plan import PlatformSizes
    from daybreak.demo.platform import make_platform

    source = folder / f"platform-{rows}-{leaders}-{messages}-{order}{'-even' if even else ''}"
    if (source / ".ready").exists():
        return source
    print(f"Generating a platform of {rows:,} Members in {source} ...", flush=True)
    sizes = PlatformSizes(leaders=leaders, members=rows, messages=messages)
    make_platform(source, replace(sizes, skew=0.0) if even else sizes, as_of=AS_OF)
    sort_columns = "hash(member_id)" if order == "shuffled" else "leader_id, member_id"
    ordered = source.with_name(source.name + "-ordered.parquet")
    with _engine() as connection:
        connection.execute(
            f"COPY (SELECT * FROM '{source}/members.parquet' ORDER BY {sort_columns}) TO '{ordered}' (FORMAT parquet)"
        )
    ordered.replace(source / "members.parquet")
    (source / ".ready").touch()
    return source


CHANGES: Mapping[str, tuple[str, str]] = {
    "members": ("city", "'New Town'"),
    "member_state_changes": ("state_changed_at", "state_changed_at + INTERVAL 1 MICROSECOND"),
    "campaigns": ("campaign_name", "'New name'"),
    "outbound_messages": ("segment_count", "segment_count + 1"),
    "campaign_links": ("link_url", "'https://example.org/new'"),
    "member_term_accepts": ("was_checked", "NOT was_checked"),
    "custom_field_values": ("custom_field_value", "'New value'"),
    "communities": ("community_name", "'New name'"),
    "community_memberships": ("joined_at", "joined_at + INTERVAL 1 MICROSECOND"),
}
"""A column and its new value (SQL), by table."""


def changed_copy(source: Path, name: str, condition: str, tables: Iterable[str] = CHANGES) -> Path:
    """Return a copy of a platform with changes in some tables, in the rows `one` that meet a condition (SQL)."""
    lists = {}
    for table in tables:
        column, value = CHANGES[table]
        lists[table] = f"* REPLACE (CASE WHEN {condition} THEN {value} ELSE {column} END AS {column})"
    return _copy(source, name, lists)


def with_text_ids(source: Path) -> Path:
    """Return a copy with identifiers as text: Polars reads a Parquet UUID as bytes, which it cannot write to CSV."""
    lists = {}
    for table in SOURCE_TABLES:
        ids = [one.name for one in table.columns if one.type is ColumnType.UUID]
        lists[table.name] = f"* REPLACE ({', '.join(f'CAST({name} AS VARCHAR) AS {name}' for name in ids)})"
    return _copy(source, "text", lists)


def _copy(source: Path, name: str, lists: Mapping[str, str]) -> Path:
    """Copy a platform, once. `lists` has what to select from tables that change."""
    target = source.with_name(f"{source.name}-{name}")
    if (target / ".ready").exists():
        return target
    target.mkdir(exist_ok=True)
    with _engine() as connection:
        for path in source.glob("*.parquet"):
            rows = f"SELECT {lists.get(path.stem, '*')} FROM '{path}' AS one"
            connection.execute(f"COPY ({rows}) TO '{target / path.name}' (FORMAT parquet)")
    (target / ".ready").touch()
    return target


def open_members(source: Path, **config: Any) -> duckdb.DuckDBPyConnection:
    """Return an engine with the table of Members."""
    connection = duckdb.connect(config=config)
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")
    connection.execute(f"CREATE VIEW members AS SELECT * FROM '{source}/members.parquet'")
    return connection


def members_model() -> str:
    """Return the SELECT of the Members in files."""
    return load_models()["members"].at(AS_OF)


def read_once(source: Path) -> None:
    """Read all files of a source into the page cache, so that the first method has no disadvantage."""
    for path in (*source.glob("*.parquet"), with_text_ids(source) / "members.parquet"):
        with path.open("rb") as file:
            while file.read(1 << 24):
                pass


@dataclass(frozen=True, slots=True)
class Shape:
    """A platform with only Members.

    Attributes:
        leaders: Number of Leaders.
        rows: SQL with one row per Member: `n`, its number, and `leader`, the number of its Leader, below `leaders`.
        text: SQL over `n` for the city of a Member; a short text if None.
        every_text: SQL over `n` for every text of a Member; short texts if None.
        part_rows: Rows per file, with identifiers as text; one file if None.
        row_group_rows: Rows per row group, for cells so large that a group of default size would not fit in memory.
    """

    name: str
    description: str
    leaders: int
    rows: str
    text: str | None = None
    every_text: str | None = None
    part_rows: int | None = None
    row_group_rows: int | None = None


def even_shape(rows: int, leaders: int, name: str = "even", text: str | None = None) -> Shape:
    """Return the shape with Leaders of one size, whose Members are not sorted."""
    return Shape(
        f"{name}-{rows}-{leaders}",
        f"{rows:,} Members of {leaders:,} Leaders of one size",
        leaders,
        f"SELECT n, hash(n) % {leaders} AS leader FROM range({rows}) AS t(n)",
        text,
    )


def make_shape(folder: Path, shape: Shape) -> Path:
    """Create a folder of Parquet files in that shape, with one statement per file."""
    source = folder / f"shape-{shape.name}"
    if (source / ".ready").exists():
        return source
    print(f"Generating {shape.description} in {source} ...", flush=True)
    source.mkdir(parents=True, exist_ok=True)
    with _engine() as connection:
        connection.execute("SET memory_limit = '2GB'")
        for table in SOURCE_TABLES:
            match table.name:
                case "leaders":
                    query = (
                        f"SELECT {_uuid('leader', 'n')} AS leader_id, 'Leader ' || n AS leader_name, "
                        "NULL::UUID AS parent_leader_id, NULL::UUID AS billing_entity_leader_id "
                        f"FROM range({shape.leaders}) AS t(n)"
                    )
                case "members":
                    if shape.part_rows is not None:
                        _make_parts(connection, shape, shape.part_rows, source / "members")
                        continue
                    query = _members(shape)
                case _:
                    columns = ", ".join(f"NULL::{ENGINE_TYPES[one.type]} AS {one.name}" for one in table.columns)
                    query = f"SELECT {columns} LIMIT 0"
            size = f", ROW_GROUP_SIZE {shape.row_group_rows}" if shape.row_group_rows else ""
            connection.execute(
                f"COPY ({query}) TO '{source}/{table.name}.parquet' (FORMAT parquet, COMPRESSION zstd{size})"
            )
    (source / ".ready").touch()
    return source


def _make_parts(connection: duckdb.DuckDBPyConnection, shape: Shape, part_rows: int, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    [(count,)] = connection.execute(f"SELECT count(*) FROM ({shape.rows})").fetchall()
    for first in range(0, count, part_rows):
        part = replace(shape, rows=f"SELECT * FROM ({shape.rows}) LIMIT {part_rows} OFFSET {first}")
        connection.execute(
            "COPY (SELECT * REPLACE (CAST(member_id AS VARCHAR) AS member_id, CAST(leader_id AS VARCHAR) AS leader_id) "
            f"FROM ({_members(part)})) TO '{folder}/{first:06}.parquet' (FORMAT parquet, COMPRESSION zstd)"
        )


def _members(shape: Shape) -> str:
    text_sql = shape.every_text
    return f"""
        SELECT {_uuid("member", "n")} AS member_id, {_uuid("leader", "leader")} AS leader_id,
               '+4915' || (100000000 + n) AS phone_number, 'live' AS subscription_state,
               {text_sql or "'Ana ' || n % 1009"} AS first_name, {text_sql or "'Müller-' || n % 4001"} AS last_name,
               {text_sql or "'person' || n || '@example.org'"} AS email, DATE '1990-01-01' + (n % 9000)::INTEGER
               AS date_of_birth, 'female' AS gender, {shape.text or text_sql or "'Town ' || n % 307"} AS city,
               {text_sql or "'Bayern'"} AS state, 'BY' AS state_code, {text_sql or "'Germany'"} AS country,
               'DE' AS country_code, {text_sql or "'android'"} AS device_type,
               TIMESTAMP '2025-01-01' + to_microseconds((hash(n) % 30000000000000)::BIGINT) AS first_activated_at
        FROM ({shape.rows})
    """


def _uuid(kind: str, number: str) -> str:
    return f"md5('{kind}' || {number})::UUID"


def _engine() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"preserve_insertion_order": True})
    connection.execute("SET enable_progress_bar = false")
    return connection
