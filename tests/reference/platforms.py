"""Small random platforms with hostile texts, and with times near `as_of` and near the start of its 90-day window."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
from hypothesis import strategies as st

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import (
    CHANNELS,
    GENDERS,
    LINK_TYPES,
    OUTBOUND_MESSAGE_TYPES,
    SUBSCRIPTION_STATES,
    USAGE_CHANNELS,
)
from daybreak.catalogue.source_tables import SOURCE_TABLES, SourceTable

Draw = Callable[[st.SearchStrategy[Any]], Any]
Table = list[dict[str, Any]]

HOSTILE = (
    "", " ", '"', '""', ",", "\n", "\r", "\r\n", "\t", "a,b", 'a"b', "'", "\\", "\\n", "=1+1", "+1",
    "-1", "@a", "NULL", "null", "true", "0", "\x00", "\x01", "\x1f", "\x7f", "\x85", "\u2028",
    "\u2029", "\ufeff", "\ufffd", "\u202eabc", "\u0301", "é", "e\u0301", "日本", "🎉",
    "👩\u200d👩\u200d👧", "𠮷", "{}", "[", "]", "],\n[", "},\n{", '","', "\U0010ffff", "</script>",
    "\u0000\u0000", "a" * 300,
)  # fmt: skip
texts = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(codec="utf-8"), max_size=12),
    st.lists(st.sampled_from(HOSTILE), max_size=4).map("".join),
)
maybe = st.one_of(st.none(), texts)
instants = st.sampled_from(
    [
        datetime(2026, 11, 20, 4, tzinfo=UTC),
        datetime(2026, 11, 20, 3, 59, 59, 999_999, tzinfo=UTC),
        datetime(2024, 2, 29, 23, 30, tzinfo=UTC),
        datetime(2027, 1, 1, tzinfo=UTC),
        datetime(2026, 3, 29, 1, 30, 0, 1, tzinfo=UTC),
    ]
)


def _ids(kind: int) -> list[str]:
    # UUIDs must sort equally as text and as numbers, so first digits are below and above 8, and values are consecutive.
    prefixes = ("00000000", "7fffffff", "80000000", "a0000000", "fffffffe", "ffffffff", "0000000a", "12345678")
    return [str(UUID(f"{prefix}-000{kind}-4000-8000-00000000000{kind}")) for prefix in prefixes]


LEADERS, MEMBERS, CAMPAIGNS, LINKS, TERMS, COMMUNITIES = (_ids(kind) for kind in range(1, 7))


def times_around(as_of: datetime) -> st.SearchStrategy[datetime]:
    """Return instants near `as_of`, near the start of its 90-day window, near midnight, and within 200 days."""
    micro = timedelta(microseconds=1)
    window = as_of - timedelta(days=90)
    midnight = as_of.replace(hour=0, minute=0, second=0, microsecond=0)
    edges = [edge + step for edge in (as_of, window, midnight) for step in (-micro, timedelta(0), micro)]
    anywhere = st.integers(-200 * 86_400_000_000, 3 * 86_400_000_000).map(lambda micros: as_of + micros * micro)
    # `as_of` itself is frequent, because a wrong comparison operator fails only there.
    return st.one_of(st.just(as_of), st.sampled_from(edges), anywhere)


@st.composite
def platforms(draw: Draw) -> tuple[dict[str, Table], datetime]:
    """Return the rows of the thirteen tables and `as_of`. Some rows refer to missing Leaders, Members or campaigns."""
    as_of = draw(instants)
    times = times_around(as_of)
    leaders = LEADERS[: draw(st.integers(1, 4))]
    some_leader = st.sampled_from([*leaders, *leaders, LEADERS[-1]])
    some_member, some_campaign = st.sampled_from(MEMBERS), st.sampled_from(CAMPAIGNS)
    flags, counts = st.booleans(), st.integers(0, 10**9)

    def rows(most: int, make: Callable[[int], dict[str, Any]]) -> Table:
        # Most tables have rows. An empty table is only one of many cases.
        count = draw(st.sampled_from([0, most // 2, most, most, most]))
        return [make(number) for number in range(count)]

    def leader(number: int) -> dict[str, Any]:
        above = st.sampled_from([None, LEADERS[-1], *leaders[:number]])
        return {
            "leader_id": leaders[number],
            "leader_name": draw(texts),
            "parent_leader_id": draw(above),
            "billing_entity_leader_id": draw(st.sampled_from([None, *leaders])),
        }

    def member(number: int) -> dict[str, Any]:
        return {
            "member_id": MEMBERS[number],
            "leader_id": draw(some_leader),
            "phone_number": draw(texts),
            "subscription_state": draw(st.sampled_from([*SUBSCRIPTION_STATES, "deleted", "odd,\n"])),
            **{name: draw(maybe) for name in ("first_name", "last_name", "email", "city", "state", "state_code")},
            **{name: draw(maybe) for name in ("country", "country_code", "device_type")},
            "date_of_birth": draw(st.one_of(st.none(), st.dates(date(1900, 1, 1), date(2026, 1, 1)))),
            "gender": draw(st.sampled_from([None, *GENDERS, "?"])),
            "first_activated_at": draw(st.one_of(st.none(), times)),
        }

    def campaign(number: int) -> dict[str, Any]:
        return {
            "campaign_id": CAMPAIGNS[number],
            "leader_id": draw(some_leader),
            "campaign_name": draw(maybe),
            "channel": draw(st.sampled_from(CHANNELS)),
            "usage_channel": draw(st.sampled_from(USAGE_CHANNELS)),
            "text": draw(maybe),
            "media_url": draw(maybe),
            **{name: draw(flags) for name in ("is_test", "is_scheduled", "is_filtered")},
            "sent_at": draw(times),
        }

    tables = {
        "leaders": [leader(number) for number in range(len(leaders))],
        "members": rows(len(MEMBERS) - 1, member),
        "member_state_changes": rows(6, lambda _: {
            "member_id": draw(some_member), "leader_id": draw(some_leader),
            "subscription_state": draw(st.sampled_from(SUBSCRIPTION_STATES)), "state_changed_at": draw(times)}),
        "campaigns": rows(4, campaign),
        "outbound_messages": rows(10, lambda n: {
            "message_id": str(UUID(int=n)), "leader_id": draw(some_leader), "member_id": draw(some_member),
            "campaign_id": draw(st.one_of(st.none(), some_campaign)),
            "outbound_message_type": draw(st.sampled_from([*OUTBOUND_MESSAGE_TYPES[:3], "new kind"])),
            "usage_channel": draw(st.sampled_from(USAGE_CHANNELS)),
            "segment_count": draw(counts), "unit_count": draw(counts), "sent_at": draw(times)}),
        "inbound_messages": rows(6, lambda n: {
            "message_id": str(UUID(int=n)), "leader_id": draw(some_leader), "member_id": draw(some_member),
            "campaign_id": draw(st.one_of(st.none(), some_campaign)), "is_stop": draw(flags),
            "received_at": draw(times)}),
        "campaign_links": rows(5, lambda _: {
            "link_id": draw(st.sampled_from(LINKS)), "campaign_id": draw(some_campaign),
            "link_type": draw(st.sampled_from(LINK_TYPES)), "link_url": draw(st.sampled_from(HOSTILE))}),
        "link_hits": rows(6, lambda _: {
            "link_id": draw(st.sampled_from(LINKS)), "member_id": draw(st.one_of(st.none(), some_member)),
            "hit_at": draw(times)}),
        "terms": rows(3, lambda n: {
            "term_id": TERMS[n], **{name: draw(maybe) for name in (
                "term_language", "custom_signup_language", "additional_checkbox_language")}}),
        "member_term_accepts": rows(8, lambda _: {
            "member_id": draw(some_member), "leader_id": draw(some_leader), "term_id": draw(st.sampled_from(TERMS)),
            "member_email": draw(maybe), "member_country_code": draw(maybe),
            "was_checked": draw(flags), "was_pre_checked": draw(flags), "accepted_at": draw(times)}),
        "custom_field_values": _distinct(rows(6, lambda _: {
            "member_id": draw(some_member), "leader_id": draw(some_leader), "custom_field_name": draw(texts),
            "custom_field_value": draw(maybe)}), "member_id", "custom_field_name"),
        "communities": rows(3, lambda n: {
            "community_id": COMMUNITIES[n], "leader_id": draw(some_leader), "community_name": draw(texts)}),
        "community_memberships": rows(12, lambda _: {
            "community_id": draw(st.sampled_from(COMMUNITIES[:4])), "member_id": draw(some_member),
            "joined_at": draw(times), "left_at": draw(st.one_of(st.none(), st.just(as_of), times))}),
    }  # fmt: skip
    return tables, as_of


SQL_TYPES = {
    ColumnType.UUID: "UUID",
    ColumnType.TEXT: "VARCHAR",
    ColumnType.BIGINT: "BIGINT",
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.DATE: "DATE",
    ColumnType.TIMESTAMP: "TIMESTAMP WITH TIME ZONE",
}


def write_duckdb(tables: dict[str, Table], file: Path) -> None:
    """Write a DuckDB file with the thirteen tables."""
    with duckdb.connect(str(file)) as connection:
        _fill(connection, tables)


def write_parquet(tables: dict[str, Table], folder: Path) -> None:
    """Write a folder with one Parquet file per table."""
    folder.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as connection:
        _fill(connection, tables)
        for table in SOURCE_TABLES:
            connection.execute(f"COPY {table.name} TO '{folder}/{table.name}.parquet' (FORMAT parquet)")


def _fill(connection: duckdb.DuckDBPyConnection, tables: dict[str, Table]) -> None:
    connection.execute("SET TimeZone = 'UTC'")
    for table in SOURCE_TABLES:
        columns = ", ".join(f'"{column.name}" {SQL_TYPES[column.type]}' for column in table.columns)
        connection.execute(f"CREATE TABLE {table.name} ({columns})")
        _insert(connection, table, tables[table.name])


def _insert(connection: duckdb.DuckDBPyConnection, table: SourceTable, rows: Table) -> None:
    if rows:
        columns = {column.name: [row[column.name] for row in rows] for column in table.columns}
        typed = ", ".join(f'CAST("{column.name}" AS {SQL_TYPES[column.type]})' for column in table.columns)
        connection.register("new_rows", pa.table(columns))
        connection.execute(f"INSERT INTO {table.name} SELECT {typed} FROM new_rows")
        connection.unregister("new_rows")


def _distinct(rows: Table, *key: str) -> Table:
    return list({tuple(row[name] for name in key): row for row in rows}.values())
