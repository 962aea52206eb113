"""A folder of Parquet files: which files are which table, and what they were at opening.

A table is the file `TABLE.parquet`, or the folder `TABLE/` or `TABLE.parquet/` with its parts, below folders
named `column=value` where a writer has split it so. Names that begin with a dot or an underscore are passed over:
that is how writers name what is no table, or is not finished.
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
    """A Parquet file as it is at one moment."""

    path: Path
    size: int
    modified_ns: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """Raises OSError."""
        status = path.stat()
        return cls(path, status.st_size, status.st_mtime_ns, status.st_ino)

    def stands(self) -> bool:
        """Whether the file is still the same."""
        try:
            return FileState.of(self.path) == self
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The parts of a table, sorted. `split_by` are the columns that stand in the names of folders, in lower case."""

    name: str
    parts: tuple[FileState, ...]
    split_by: tuple[str, ...]


def tables_in(folder: Path) -> list[TableFiles]:
    """The tables of a folder by lower-case name, those without a file left out.

    Raises SourceError when it cannot be told which files are a table.
    """
    found: dict[str, tuple[Path, TableFiles]] = {}
    for entry in _entries(folder):
        name = (entry.stem if _is_parquet(entry) else entry.name).lower()
        paths = list(_parts(entry)) if entry.is_dir() else [entry] if _is_parquet(entry) else []
        if not paths:
            continue
        if name in found:
            raise SourceError(f"Table {name} is there twice: {found[name][0]} and {entry}. Move one of them away.")
        parts = tuple(FileState.of(path) for path in sorted(paths))
        found[name] = (entry, TableFiles(name, parts, _split_by(name, entry, paths)))
    return [table for _, table in found.values()]


def _parts(folder: Path) -> Iterator[Path]:
    if (folder / "_delta_log").exists():
        raise SourceError(
            f"{folder} is a Delta table: which of its files count stands in its log. "
            'Read it with source.engine = "spark", by a catalogue (source.location = "catalog:NAME").'
        )
    for entry in _entries(folder):
        if not entry.is_dir():
            if _is_parquet(entry):
                yield entry
        elif "=" in entry.name:
            yield from _parts(entry)
        elif any(_is_parquet(below) for below in entry.rglob("*")):
            raise SourceError(
                f"{entry} holds Parquet files that are part of no table: "
                "the parts of a table lie in its folder, or in folders named column=value there."
            )


def _split_by(table: str, folder: Path, paths: list[Path]) -> tuple[str, ...]:
    splits = {tuple(name.partition("=")[0].lower() for name in path.relative_to(folder).parts[:-1]) for path in paths}
    if len(splits) > 1:
        raise SourceError(f"Table {table}: the files in {folder} are not all split by the same columns.")
    return splits.pop()


def _entries(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith((".", "_")))


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() == _ENDING
