"""The PostgreSQL fixtures."""

from collections.abc import Callable

import psycopg
import pytest

from tests.parts.postgresql import PostgreSQLServer


def test_server_has_a_supported_version_and_utf8(postgresql_url: str) -> None:
    with psycopg.connect(postgresql_url) as connection:
        row = connection.execute("SELECT current_setting('server_version_num')::int, 'ÅΩ😀'").fetchone()
    assert row is not None
    assert row[0] >= 140000
    assert row[1] == "ÅΩ😀"


def test_each_database_is_empty(make_postgresql_url: Callable[[], str]) -> None:
    first, second = make_postgresql_url(), make_postgresql_url()
    with psycopg.connect(first) as connection:
        connection.execute("CREATE TABLE mine (n int)")
    with psycopg.connect(second) as connection, pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute("SELECT * FROM mine")


def test_backends_of_a_database_are_listed(postgresql_server: PostgreSQLServer, postgresql_url: str) -> None:
    database = postgresql_url.rpartition("/")[2]
    with psycopg.connect(postgresql_url) as connection:
        assert postgresql_server.backends(database) == [connection.info.backend_pid]
