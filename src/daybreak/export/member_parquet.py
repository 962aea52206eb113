"""Copies of stored Parquet files without the rows of one Member."""

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Self

import duckdb

from daybreak.catalogue.columns import field_id
from daybreak.catalogue.resources import Resource
from daybreak.domain.errors import FileDamaged, SourceError
from daybreak.domain.snapshot import FileStatistics, StoredPart
from daybreak.export.engine import engine_faults, open_engine
from daybreak.export.parquet_parts import add_parts
from daybreak.export.sql import identifier, literal

_PIECE_BYTES = 1 << 20
_MEMORY_BYTES = 128_000_000


@contextmanager
def _file_faults() -> Iterator[None]:
    """Convert the engine's errors to RunError, and to FileDamaged if the file cannot be read."""
    try:
        with engine_faults("A Parquet file"):
            yield
    except SourceError as error:
        raise FileDamaged("The content of a Parquet file cannot be read.") from error


class MemberParquet:
    """Copies Parquet files in a temporary folder. One instance for one thread.

    `statistics` and `parts` are those of the last copy, after its bytes were read. `removed` counts the rows that the
    last copy `without` the Member lacks, and `communities` those by COMMUNITY_ID, if the resource has it.
    """

    def __init__(self, engine: duckdb.DuckDBPyConnection, folder: Path, member_id: str) -> None:
        self._engine = engine
        self._source, self._target = folder / "source.parquet", folder / "target.parquet"
        self._rows = f"read_parquet({literal(str(self._source))}, file_row_number = true)"
        self._member = f"CAST({literal(member_id)} AS UUID)"
        self.statistics = FileStatistics(0, ())
        self.parts: tuple[StoredPart, ...] = ()
        self.removed = 0
        self.communities: Counter[str] = Counter()

    @classmethod
    @contextmanager
    def open(cls, spill_folder: Path, member_id: str) -> Iterator[Self]:
        """Open the engine and its folder below `spill_folder`. Raises OperatorError if it cannot be created."""
        spill_folder.mkdir(0o700, parents=True, exist_ok=True)
        with (
            tempfile.TemporaryDirectory(prefix="erase-", dir=spill_folder) as folder,
            closing(open_engine(memory_bytes=_MEMORY_BYTES, threads=1, temp_dir=Path(folder))) as engine,
        ):
            yield cls(engine, Path(folder), member_id)

    def occurs_in(self, pieces: Iterable[bytes]) -> bool:
        """Return whether a file has a row of the Member."""
        self._store(pieces)
        return bool(self._fetch(f"SELECT 1 FROM {self._rows} WHERE MEMBER_ID = {self._member} LIMIT 1"))

    def without(self, resource: Resource, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the bytes of a copy of a file without the Member's rows."""
        self._store(pieces)
        group = "CAST(COMMUNITY_ID AS VARCHAR)" if "COMMUNITY_ID" in resource.column_names else "''"
        counted = self._fetch(
            f"SELECT {group}, count(*) FROM {self._rows} WHERE MEMBER_ID = {self._member} GROUP BY ALL"
        )
        self.removed = sum(rows for _, rows in counted)
        self.communities = Counter({community: rows for community, rows in counted if community})
        yield from self._copy(f"SELECT * FROM {self._rows} WHERE MEMBER_ID IS DISTINCT FROM {self._member}")

    def with_fewer_members(self, pieces: Iterable[bytes], removed: Mapping[str, int]) -> Iterator[bytes]:
        """Yield the bytes of a copy of `communities` with lower values of MEMBER_COUNT."""
        cases = " ".join(f"WHEN {literal(community)} THEN {rows}" for community, rows in removed.items())
        fewer = f"MEMBER_COUNT - CASE CAST(COMMUNITY_ID AS VARCHAR) {cases} ELSE 0 END" if cases else "MEMBER_COUNT"
        self._store(pieces)
        yield from self._copy(f"SELECT * REPLACE (CAST({fewer} AS BIGINT) AS MEMBER_COUNT) FROM {self._rows}")

    def _copy(self, query: str) -> Iterator[bytes]:
        # Copies keep the order of rows.
        in_order = f"SELECT * EXCLUDE (file_row_number) FROM ({query}) ORDER BY file_row_number"
        with _file_faults():
            names = self._engine.sql(in_order).columns
            ids = ", ".join(f"{identifier(name)}: {field_id(name)}" for name in names)
            [(_, rows, _, _, columns, *_)] = self._engine.execute(
                f"COPY ({in_order}) TO {literal(str(self._target))} "
                f"(FORMAT parquet, COMPRESSION zstd, FIELD_IDS {{{ids}}}, RETURN_STATS)"
            ).fetchall()
        self.statistics = FileStatistics(rows, tuple(int(columns[identifier(name)]["null_count"]) for name in names))
        with self._target.open("r+b") as file:
            self.parts = add_parts(file)
            file.seek(0)
            while piece := file.read(_PIECE_BYTES):
                yield piece

    def _store(self, pieces: Iterable[bytes]) -> None:
        with self._source.open("wb") as file:
            file.writelines(pieces)

    def _fetch(self, query: str) -> list[tuple[str, int]]:
        with _file_faults():
            return self._engine.execute(query).fetchall()
