"""Results of an export, kept in memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from daybreak.domain.delta import LeaderDelta
from daybreak.domain.snapshot import ManifestEntry


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
