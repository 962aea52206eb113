"""A folder of Parquet files: which files belong to which table, and their state at opening.

A table is the file `TABLE.parquet`, or the folder `TABLE/` or `TABLE.parquet/`, with folders named `column=value` below
it when it is partitioned. A file is Parquet by its content, whatever its name. Every entry is read, or the folder is
refused and the entry named. Exceptions are hidden entries, checksums, and the markers that writers leave.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import duckdb

from daybreak.catalogue.columns import TIMES
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.domain.display import format_count
from daybreak.domain.errors import SourceError
from daybreak.export.engine import engine_faults
from daybreak.export.sql import literal

# Both ends of a Parquet file.
_MAGIC = b"PAR1"
_SMALLEST_FILE = 12
# The ending of a file or folder of a table, with the codec where Spark and others write it.
_ENDING = re.compile(r"(?:\.(?:snappy|gz|gzip|zst|zstd|lz4|br|brotli))?\.(?:parquet|parq|pq)(?:\.gz)?", re.IGNORECASE)
_NOT_DATA = re.compile(
    r"\..*|_SUCCESS|_metadata|_common_metadata|_(?:committed|started)_\d+|.*\.(?:crc|md5|sha1|sha256|sha512)"
    r"|(?:MD5|SHA1|SHA256|SHA512)SUMS",
    re.IGNORECASE,
)
# The engine would read a name with these characters as a pattern, and another file with it.
_PATTERN = re.compile(r"[*?\[]")
# `members-2`, `members (1)`, `members.old`: a part or a copy of a table.
_PART_OF_TABLE = re.compile(
    rf"({'|'.join(table.name for table in SOURCE_TABLES)})(?:[-_ ]*\(?\d+\)?|[-_ ]*(?:part|copy)\b.*|\..*)"
)
_SHOWN_FAULTS = 20

_FIRST_GREGORIAN_DAY = "DATE '1582-10-15'"
_TEMPORAL = {table.name: [column.name for column in table.columns if column.type in TIMES] for table in SOURCE_TABLES}
# https://github.com/apache/spark/blob/v4.0.0/sql/core/src/main/scala/org/apache/spark/sql/execution/datasources/DataSourceUtils.scala
_LEGACY = (
    "key IN ('org.apache.spark.legacyDateTime'::BLOB, 'org.apache.spark.legacyINT96'::BLOB) "
    "OR key = 'org.apache.spark.version'::BLOB AND value < '3'::BLOB "
    "OR key = 'writer.date.proleptic'::BLOB AND value = 'false'::BLOB"
)


@dataclass(frozen=True, slots=True)
class FileState:
    """A file's size, modification time, device and inode at one moment."""

    path: Path
    size: int
    modified_ns: int
    identity: tuple[int, int]

    @classmethod
    def of(cls, path: Path) -> Self:
        """Return the current state of a file. Raises OSError."""
        status = path.stat()
        return cls(path, status.st_size, status.st_mtime_ns, (status.st_dev, status.st_ino))

    def is_current(self) -> bool:
        """Return whether the file is unchanged."""
        try:
            return FileState.of(self.path) == self
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The files of a table, sorted. `partition_columns` are the columns in the names of its folders, in lower case."""

    name: str
    files: tuple[FileState, ...]
    partition_columns: tuple[str, ...]


def list_tables(folder: Path) -> list[TableFiles]:
    """Return the tables of a folder that have files, names in lower case.

    Raises SourceError when an entry is not read, or when it is ambiguous which files are a table. Raises OSError.
    """
    found: dict[str, tuple[Path, TableFiles]] = {}
    faults: list[str] = []
    for entry in _entries(folder):
        name = _table_name(entry, faults)
        paths = list(_data_files(entry, faults)) if entry.is_dir() else [entry] if _is_data(entry, faults) else []
        if not paths:
            continue
        if name in found:
            raise SourceError(f"Table {name} exists twice: {found[name][0]} and {entry}. Remove one of them.")
        files = tuple(FileState.of(path) for path in sorted(paths))
        _refuse_links(name, files)
        found[name] = (entry, TableFiles(name, files, _partition_columns(name, entry, paths)))
    if faults:
        more = f"\n  and {len(faults) - _SHOWN_FAULTS} more" if len(faults) > _SHOWN_FAULTS else ""
        raise SourceError(
            "The source folder has entries that belong to no table. Move them out of the folder:\n  "
            + "\n  ".join(faults[:_SHOWN_FAULTS])
            + more
        )
    return [table for _, table in found.values()]


def _refuse_links(table: str, files: Sequence[FileState]) -> None:
    """Raise SourceError when two entries of a table are one file, whose rows would be counted twice."""
    seen: dict[tuple[int, int], Path] = {}
    for file in files:
        first = seen.setdefault(file.identity, file.path)
        if first != file.path:
            raise SourceError(f"Table {table}: {first} and {file.path} are one file, linked twice. Remove one of them.")


def _table_name(entry: Path, faults: list[str]) -> str:
    ending = list(_ENDING.finditer(entry.name))
    name = (entry.name[: ending[-1].start()] if ending and ending[-1].end() == len(entry.name) else entry.name).lower()
    part = _PART_OF_TABLE.fullmatch(name)
    if part:
        faults.append(f"{entry}: to add it to table {part[1]}, move all files of the table to a folder {part[1]}/")
    return name


def _data_files(folder: Path, faults: list[str]) -> Iterator[Path]:
    if (folder / "_delta_log").exists():
        raise SourceError(
            f"{folder} is a Delta table, whose log lists the current files. Read it through a catalog: set "
            'source.engine = "spark" and source.location = "catalog:NAME".'
        )
    for entry in _entries(folder):
        if not entry.is_dir():
            if _is_data(entry, faults):
                yield entry
        elif "=" in entry.name:
            yield from _data_files(entry, faults)
        elif any(not below.is_dir() for below in entry.rglob("*")):
            faults.append(f"{entry}: a folder inside a table must be named column=value")


def _partition_columns(table: str, folder: Path, paths: list[Path]) -> tuple[str, ...]:
    found = {tuple(name.partition("=")[0].lower() for name in path.relative_to(folder).parts[:-1]) for path in paths}
    if len(found) > 1:
        raise SourceError(f"Table {table}: the files in {folder} are not all partitioned by the same columns.")
    return found.pop()


def _entries(folder: Path) -> list[Path]:
    entries = sorted(entry for entry in folder.iterdir() if not _NOT_DATA.fullmatch(entry.name))
    for entry in entries:
        try:
            entry.name.encode()
        except UnicodeEncodeError:
            raise SourceError(f"{folder} has the entry {entry.name!a}, whose name is not UTF-8. Rename it.") from None
    return entries


def _is_data(path: Path, faults: list[str]) -> bool:
    """Return whether a file is Parquet that the engine reads as one file. Appends the reason if it is not."""
    if _PATTERN.search(str(path)):
        faults.append(f"{path}: the path must not contain * ? or [")
    elif not path.is_file():
        faults.append(f"{path}: not a file, or a link to a missing file")
    elif not _is_parquet(path):
        faults.append(f"{path}: not a complete Parquet file")
    else:
        return True
    return False


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, 2) < _SMALLEST_FILE:
            return False
        file.seek(-len(_MAGIC), 2)
        last = file.read()
        file.seek(0)
        return file.read(len(_MAGIC)) == last == _MAGIC


def refuse_julian_dates(connection: duckdb.DuckDBPyConnection, tables: Sequence[TableFiles]) -> None:
    """Raise SourceError that names each column with such dates, and counts them."""
    faults = [fault for table in tables if _TEMPORAL.get(table.name) for fault in _julian_dates(connection, table)]
    if faults:
        raise SourceError(
            "Parquet files of the source have dates of the Julian calendar, which would be exported as other days:\n  "
            + "\n  ".join(faults)
            + "\nWrite these files with Spark 3 or later and spark.sql.parquet.datetimeRebaseModeInWrite=CORRECTED, or "
            'set source.engine = "spark".'
        )


def _julian_dates(connection: duckdb.DuckDBPyConnection, table: TableFiles) -> Iterator[str]:
    names = ", ".join(literal(str(file.path)) for file in table.files)
    with engine_faults(f"Table {table.name}"):
        found = connection.execute(
            f"SELECT DISTINCT file_name FROM parquet_kv_metadata([{names}]) WHERE {_LEGACY}"
        ).fetchall()
        if not found:
            return
        legacy = ", ".join(literal(str(name)) for (name,) in found)
        rows = connection.sql(f"SELECT * FROM read_parquet([{legacy}], union_by_name = true)")
        kinds = {name.lower(): str(kind) for name, kind in zip(rows.columns, rows.types, strict=True)}
        for column in _TEMPORAL[table.name]:
            if not kinds.get(column, "").startswith(("DATE", "TIMESTAMP")):
                continue
            (count,) = rows.filter(f"{column} < {_FIRST_GREGORIAN_DAY}").aggregate("count(*)").fetchall()[0]
            if count:
                yield f"{table.name}: {column} in {format_count(count, 'row')} is before 1582-10-15"
