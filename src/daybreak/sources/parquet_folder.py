"""A folder of Parquet files: which files belong to which table, and their state at opening.

A table is the file `TABLE.parquet`, or the folder `TABLE/` or `TABLE.parquet/`, with folders named `column=value` below
it when it is partitioned. Names that begin with a dot or an underscore are skipped: writers use them for files that are
not data or not finished.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from daybreak.domain.errors import SourceError

_ENDING = ".parquet"


@dataclass(frozen=True, slots=True)
class FileState:
    """A file's size, modification time and inode at one moment."""

    path: Path
    size: int
    modified_ns: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """Return the current state of a file. Raises OSError."""
        status = path.stat()
        return cls(path, status.st_size, status.st_mtime_ns, status.st_ino)

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

    Raises SourceError when it is ambiguous which files are a table.
    """
    found: dict[str, tuple[Path, TableFiles]] = {}
    for entry in _entries(folder):
        name = (entry.stem if _is_parquet(entry) else entry.name).lower()
        paths = list(_data_files(entry)) if entry.is_dir() else [entry] if _is_parquet(entry) else []
        if not paths:
            continue
        if name in found:
            raise SourceError(f"Table {name} exists twice: {found[name][0]} and {entry}. Remove one of them.")
        files = tuple(FileState.of(path) for path in sorted(paths))
        found[name] = (entry, TableFiles(name, files, _partition_columns(name, entry, paths)))
    return [table for _, table in found.values()]


def _data_files(folder: Path) -> Iterator[Path]:
    if (folder / "_delta_log").exists():
        raise SourceError(
            f"{folder} is a Delta table, whose log lists the current files. Read it through a catalog: set "
            'source.engine = "spark" and source.location = "catalog:NAME".'
        )
    for entry in _entries(folder):
        if not entry.is_dir():
            if _is_parquet(entry):
                yield entry
        elif "=" in entry.name:
            yield from _data_files(entry)
        elif any(_is_parquet(below) for below in entry.rglob("*")):
            raise SourceError(
                f"{entry} has Parquet files that belong to no table. Move them to the table's folder, or to folders "
                "named column=value in it."
            )


def _partition_columns(table: str, folder: Path, paths: list[Path]) -> tuple[str, ...]:
    found = {tuple(name.partition("=")[0].lower() for name in path.relative_to(folder).parts[:-1]) for path in paths}
    if len(found) > 1:
        raise SourceError(f"Table {table}: the files in {folder} are not all partitioned by the same columns.")
    return found.pop()


def _entries(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith((".", "_")))


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() == _ENDING
