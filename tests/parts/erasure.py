"""A platform with a Member that has rows in every resource, and a search for its data."""

import gzip
import re
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import NamedTemporaryFile

import duckdb

from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import make_platform

AS_OF = datetime(2026, 11, 20, 3, tzinfo=UTC)
PHONE, FIRST_NAME, LAST_NAME, EMAIL, VALUE = (
    "+19995550123", 'Zo"ë,\nErased', "O'Qqxyz\\", "erase-me@qqxyz.example", 'likes "qqxyz"\r\n,tea',
)  # fmt: skip
# Parts of the values that no quoting changes.
TRACES = (b"9995550123", b"Erased", b"Qqxyz", b"qqxyz")
_TABLES = ("members", "member_state_changes", "member_term_accepts", "custom_field_values", "community_memberships")


@dataclass(frozen=True)
class Person:
    """The Member to erase."""

    member_id: str
    client_id: str


def make_person(platform: Path, *, leaders: int = 4, members: int = 60) -> Person:
    """Create a platform with a Member whose values are in `TRACES`, and who belongs to a community."""
    make_platform(platform, PlatformSizes(leaders=leaders, members=members, messages=200), seed=5, as_of=AS_OF)
    with duckdb.connect() as engine:
        found = engine.execute(
            f"SELECT m.member_id::VARCHAR, m.leader_id::VARCHAR FROM '{platform}/members.parquet' m "
            f"JOIN '{platform}/member_term_accepts.parquet' t USING (member_id) "
            f"JOIN '{platform}/community_memberships.parquet' c USING (member_id) "
            f"JOIN '{platform}/custom_field_values.parquet' v USING (member_id) "
            "WHERE m.subscription_state <> 'deleted' AND c.left_at IS NULL ORDER BY ALL LIMIT 1"
        ).fetchone()
        assert found is not None, "the seed generates such a Member"
        person = Person(*found)
        own = f"member_id = '{person.member_id}'"
        _rewrite(engine, platform, "members", f"SELECT * REPLACE (CASE WHEN {own} THEN $1 ELSE phone_number END AS "
                 f"phone_number, CASE WHEN {own} THEN $2 ELSE first_name END AS first_name, CASE WHEN {own} THEN $3 "
                 f"ELSE last_name END AS last_name, CASE WHEN {own} THEN $4 ELSE email END AS email)",
                 [PHONE, FIRST_NAME, LAST_NAME, EMAIL])  # fmt: skip
        _rewrite(engine, platform, "member_term_accepts", "SELECT * REPLACE (CASE WHEN "
                 f"{own} THEN $1 ELSE member_email END AS member_email, CASE WHEN {own} THEN "
                 "TIMESTAMP '2026-11-19 00:00:00' ELSE accepted_at END AS accepted_at)", [EMAIL])  # fmt: skip
        _rewrite(engine, platform, "custom_field_values", "SELECT * REPLACE (CASE WHEN "
                 f"{own} THEN $1 ELSE custom_field_value END AS custom_field_value)", [VALUE])  # fmt: skip
    return person


def delete_person(platform: Path, person: Person) -> None:
    """Delete the Member from the platform. Totals of campaigns stay."""
    with duckdb.connect() as engine:
        for table in _TABLES:
            _rewrite(engine, platform, table, "SELECT *", [], f"WHERE member_id <> '{person.member_id}'")


def traces_in(folder: Path) -> list[str]:
    """Return the files below a folder, decompressed, and the databases, dumped, that contain a trace of the Member."""
    # One engine for all files: to open one takes longer than to read a file.
    with duckdb.connect(config={"threads": 1}) as engine:
        return [str(path) for path in sorted(folder.rglob("*")) if path.is_file() and _has_trace(engine, path)]


def _has_trace(engine: duckdb.DuckDBPyConnection, path: Path) -> bool:
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    elif path.suffix == ".pack":
        content += b"".join(_unpacked(engine, content))
    elif path.suffix == ".parquet":
        content = repr(engine.execute(f"SELECT * FROM '{path}'").fetchall()).encode()
    elif path.suffix == ".db":
        with sqlite3.connect(path) as connection:
            content = "\n".join(connection.iterdump()).encode()
        connection.close()
    return any(trace in content for trace in TRACES)


def _unpacked(engine: duckdb.DuckDBPyConnection, pack: bytes) -> Iterator[bytes]:
    """Yield the content of the gzip and Parquet files in a pack, found by their first bytes, up to where it ends."""
    for found in re.finditer(rb"\x1f\x8b\x08", pack):
        member = zlib.decompressobj(wbits=31)
        content = bytearray()
        with suppress(zlib.error):
            for start in range(found.start(), len(pack), 64):
                content += member.decompress(pack[start : start + 64])
                if member.eof:
                    break
        yield bytes(content)
    marks = [found.start() for found in re.finditer(rb"PAR1", pack)]
    for start, end in zip(marks[::2], marks[1::2], strict=True):
        with NamedTemporaryFile(suffix=".parquet") as file:
            file.write(pack[start : end + 4])
            file.flush()
            yield repr(engine.execute(f"SELECT * FROM '{file.name}'").fetchall()).encode()


def _rewrite(
    engine: duckdb.DuckDBPyConnection, platform: Path, table: str, select: str, values: list[str], where: str = ""
) -> None:
    path = platform / f"{table}.parquet"
    engine.execute(f"CREATE OR REPLACE TEMP TABLE changed AS {select} FROM '{path}' {where}", values)
    engine.execute(f"COPY changed TO '{path}' (FORMAT parquet)")
