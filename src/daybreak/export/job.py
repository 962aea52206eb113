"""Jobs of the engine, what observes them, and what they report."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from daybreak.domain.delta import LeaderDelta
from daybreak.domain.snapshot import ManifestEntry, StoredFormat


@dataclass(frozen=True, slots=True)
class DeltaBase:
    """A Leader's CSV file in the published snapshot, and its number of rows."""

    rows: int
    stored: StoredFormat


@dataclass(frozen=True, slots=True)
class DeltaJob:
    """Parameters of the deltas of one resource.

    `bases` maps a client_id to the previous file. A Leader without one gets no delta. The deltas of `verified_share` of
    the Leaders, which `seed` selects, are applied to the previous file and compared byte for byte with the new one.
    Deltas are spilled to `temp_dir`, None for the default of the machine. `parquet` is whether they are also stored in
    Parquet.
    """

    bases: Mapping[str, DeltaBase]
    verified_share: float = 1.0
    seed: int = 0
    temp_dir: str | None = None
    parquet: bool = False


@dataclass(frozen=True, slots=True)
class ExportJob:
    """Parameters of the export of one resource.

    `formats` are names of the catalogue's formats, at least one of them a text format. `compression` is a codec name
    such as `igzip-2`. `threads` bounds encoding and compression. `previous` maps a client_id to its fingerprint in the
    previous snapshot: the files of a Leader whose fingerprint is unchanged are reused. `deltas` is None when no deltas
    are made.
    """

    resource: str
    formats: tuple[str, ...]
    compression: str
    threads: int
    previous: Mapping[str, str] = field(default_factory=dict)
    deltas: DeltaJob | None = None


class ExportObserver(Protocol):
    """Receives the results of an export during the export, in the thread that called `export`."""

    def entries_written(self, entries: list[ManifestEntry]) -> None:
        """Receive manifest entries whose files are in the sink. The first is the shared header-only one, with
        client_id "".
        """

    def deltas_made(self, deltas: list[LeaderDelta]) -> None:
        """Receive the deltas of changed Leaders. Their files are in the sink."""

    def leaders_reused(self, client_ids: list[str]) -> None:
        """Receive Leaders whose rows, formats and compression are those of the previous snapshot. No file of theirs was
        written.
        """

    def rows_done(self, rows: int) -> None:
        """Receive the number of rows exported so far, including those of reused Leaders. May raise to stop the
        export.
        """


@dataclass(slots=True)
class ExportResults:
    """An `ExportObserver` that stores all results. `rows` is the last reported number of rows."""

    entries: list[ManifestEntry] = field(default_factory=list)
    deltas: list[LeaderDelta] = field(default_factory=list)
    reused: list[str] = field(default_factory=list)
    rows: int = 0

    def entries_written(self, entries: list[ManifestEntry]) -> None:
        self.entries += entries

    def deltas_made(self, deltas: list[LeaderDelta]) -> None:
        self.deltas += deltas

    def leaders_reused(self, client_ids: list[str]) -> None:
        self.reused += client_ids

    def rows_done(self, rows: int) -> None:
        self.rows = rows


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Counts over the rows of known Leaders, by column: NULLs, and values that the catalogue does not list or that
    files cannot contain. `unknown` is the number of rows of unknown Leaders, which no file contains.
    """

    nulls: Mapping[str, int] = field(default_factory=dict)
    unexpected: Mapping[str, int] = field(default_factory=dict)
    unknown: int = 0

    def __add__(self, other: "RowCounts") -> "RowCounts":
        """Return the counts over the rows of both."""
        nulls, unexpected = (
            {name: one.get(name, 0) + another.get(name, 0) for name in (*one, *another)}
            for one, another in ((self.nulls, other.nulls), (self.unexpected, other.unexpected))
        )
        return RowCounts(nulls, unexpected, self.unknown + other.unknown)


@dataclass(frozen=True, slots=True)
class ResourceReport:
    """Figures of one resource's export.

    `rows` and `leaders` count everything exported; `reused_leaders` of them were unchanged. `sums` are those of
    `catalogue.written_sums.figure_names`, by Leader. `spill_bytes` are those of temporary files without a name.
    """

    resource: str
    rows: int
    leaders: int
    reused_leaders: int
    counts: RowCounts
    spill_bytes: int = 0
    sums: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
