"""The functions of the guide to integer keys return UUIDs of version 5. Spark's is in `test_spark_source.py`."""

import re
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID, uuid5

import duckdb
import psycopg

from tests.parts.postgresql import SERVER_SETTINGS, running_postgresql
from tests.parts.presence import absent

GUIDE = Path(__file__).parents[3] / "docs/how-to/integer-keys.md"
NAMESPACE = UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")
IDS = (0, 1, 7, 4711, -5, 2**31, 2**63 - 1, -(2**63), None)
EXPECTED = [None if number is None else str(uuid5(NAMESPACE, f"member:{number}")) for number in IDS]


def statements_of(heading: str) -> Sequence[str]:
    """Return the statements of the SQL block below a heading of the guide."""
    block = re.search(rf"^#+ {heading}\n.*?```sql\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert block is not None
    return [each for each in re.split(r";\n(?=CREATE|\Z)", block[1]) if each.strip()]


def rows(kind: str) -> str:
    """Return SQL for a table of the ids in order, with columns `n` and `id`."""
    values = ("NULL" if number is None else f"'{number}'" for number in IDS)
    literals = ", ".join(f"({place}, CAST({value} AS {kind}))" for place, value in enumerate(values))
    return f"(VALUES {literals}) AS t (n, id)"


def test_duckdb_function_through_a_view_of_an_attached_file(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "platform.duckdb")) as connection:
        for statement in statements_of("DuckDB"):
            connection.execute(statement)
        connection.execute("CREATE SCHEMA tables")
        connection.execute("CREATE TABLE tables.leaders (id BIGINT, name TEXT, parent_id BIGINT, billing_id BIGINT)")
        connection.execute(f"INSERT INTO tables.leaders SELECT id, 'x', id, NULL FROM {rows('BIGINT')}")
        connection.execute(statements_of("Create the views")[0].replace("platform.leaders", "tables.leaders"))
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{tmp_path}/platform.duckdb' AS source (READ_ONLY)")
        found = connection.execute("SELECT CAST(parent_leader_id AS TEXT) FROM source.leaders").fetchall()
    leaders = [None if number is None else str(uuid5(NAMESPACE, f"leader:{number}")) for number in IDS]
    assert [value for (value,) in found] == leaders


def test_postgresql_function() -> None:
    try:
        with (
            running_postgresql(SERVER_SETTINGS, extension="uuid-ossp") as server,
            psycopg.connect(server.url()) as connection,
        ):
            for statement in statements_of("PostgreSQL"):
                connection.execute(statement.encode())
            query = f"SELECT export.uuid_key('member', id)::text FROM {rows('bigint')} ORDER BY n"
            assert [value for (value,) in connection.execute(query.encode()).fetchall()] == EXPECTED
    except LookupError:
        absent("PostgreSQL with uuid-ossp", "apt-get install postgresql")
