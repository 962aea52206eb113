"""Malformed rows."""

import duckdb

from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.sources.malformed import find_malformed


def test_long_malformed_key_is_shortened_in_the_report() -> None:
    members = next(table for table in SOURCE_TABLES if table.name == "members")
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE members AS SELECT repeat('x', 1000000) AS member_id")
        (found,) = find_malformed(
            members, {"member_id": "true"}, "members", lambda sql: connection.execute(sql).fetchall()
        )
    assert found.key == f"member_id '{'x' * 80}'"
