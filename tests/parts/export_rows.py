"""Rows made up by a test, as a reading that `daybreak.export` takes, and a sink that keeps files in memory."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import Resource, resource_named
from daybreak.export.engine import open_engine
from daybreak.ports.files import WrittenFile

AS_OF = datetime(2026, 11, 20, 4, tzinfo=UTC)

CORPORA = Path(__file__).parent.parent / "vendored"

_SQL_TYPES = {
    ColumnType.UUID: "UUID",
    ColumnType.TEXT: "VARCHAR",
    ColumnType.BIGINT: "BIGINT",
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.DATE: "DATE",
    ColumnType.TIMESTAMP: "TIMESTAMP",
}


def naughty_strings() -> list[str]:
    """Texts that break readers and writers: two public corpora and a few of our own."""
    texts: list[str] = json.loads((CORPORA / "blns" / "blns.json").read_text("utf-8"))
    for path in sorted((CORPORA / "csv-spectrum").glob("*.json")):
        for row in json.loads(path.read_text("utf-8")):
            texts += [*row.keys(), *row.values()]
    return [
        *texts,
        "",
        '"',
        '""',
        ",",
        "\n",
        "\r\n",
        "\\",
        '\\"',
        "\\\\n",
        "\x00",
        "a\x00b",
        "\ufeffBOM",
        "\u2028\u2029",
        "null",
        "NULL",
        ",\n",
        "},\n{",
        "=1+1",
        "'",
        "".join(map(chr, range(0xA0))),
        "\U0001f469\u200d\U0001f680",
        "\u202eright to left",
    ]


class MemorySink:
    """A FileSink that keeps what it is given: `files[(client_id, resource, format)]`."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, str, str], bytes] = {}
        self.pieces: dict[tuple[str, str, str], list[int]] = {}
        self._lock = threading.Lock()

    def write(self, client_id: str, resource: str, format: str, pieces: Iterable[bytes | memoryview]) -> WrittenFile:
        taken = [bytes(piece) for piece in pieces]
        content = b"".join(taken)
        with self._lock:
            assert (client_id, resource, format) not in self.files, "written twice"
            self.files[client_id, resource, format] = content
            self.pieces[client_id, resource, format] = [len(piece) for piece in taken]
        digest = hashlib.sha256(content).hexdigest()
        return WrittenFile(f"{resource}/{client_id}.{format}", len(content), digest)

    def carry(self, key: str) -> str:
        return key

    def seal(self) -> None:
        pass

    def discard(self) -> None:
        pass


class MadeUpReading:
    """A Reading over one resource's rows, given as Python values in the resource's column order."""

    def __init__(self, connection: Any, leaders: Sequence[str]) -> None:
        self._connection = connection
        self._leaders = sorted(leaders)

    @property
    def as_of(self) -> datetime:
        return AS_OF

    def check(self) -> None:
        pass

    def leaders(self) -> list[str]:
        return self._leaders

    def input_bytes(self) -> int:
        return 0

    def rows(self, resource: str) -> str:
        return f"SELECT * FROM made_up_{resource}"

    def cursor(self) -> Any:
        return self._connection.cursor()

    def confirm(self) -> None:
        pass


@contextmanager
def made_up_reading(
    temp_dir: Path,
    rows: Mapping[str, Sequence[Sequence[object]]],
    leaders: Sequence[str],
    *,
    threads: int = 2,
    memory_bytes: int = 256_000_000,
) -> Iterator[MadeUpReading]:
    """Opens an engine with a table per resource holding just these rows."""
    connection = open_engine(memory_bytes=memory_bytes, threads=threads, temp_dir=temp_dir)
    try:
        for name, values in rows.items():
            make_table(connection, resource_named(name), values)
        yield MadeUpReading(connection, leaders)
    finally:
        connection.close()


def make_table(connection: Any, resource: Resource, values: Sequence[Sequence[object]]) -> None:
    """`made_up_RESOURCE` with these rows."""
    columns = ", ".join(f'"{c.name}" {_SQL_TYPES[c.type]}' for c in resource.columns)
    connection.execute(f"CREATE TABLE made_up_{resource.name} ({columns})")
    if values:
        # One list per column: a statement per row would take longer than everything it prepares.
        lists = [list(column) for column in zip(*values, strict=True)]
        unnested = ", ".join(
            f"unnest(CAST(${number} AS {_SQL_TYPES[column.type]}[]))"
            for number, column in enumerate(resource.columns, start=1)
        )
        connection.execute(f"INSERT INTO made_up_{resource.name} SELECT {unnested}", lists)
