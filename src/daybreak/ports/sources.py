"""Where rows come from: the operator's platform, read as of one instant."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from daybreak.domain.snapshot import ManifestEntry
from daybreak.ports.files import FileSink


@dataclass(frozen=True, slots=True)
class ResourceReport:
    """What came of one resource's export.

    `rows` and `leaders` count what is exported, carried Leaders (unchanged since the snapshot
    before) included. `unexpected_values` counts, per column, values outside the allowed ones;
    `null_counts` counts NULLs per column; both over the rows of known Leaders.
    """

    resource: str
    rows: int
    leaders: int
    carried: int
    unknown_leader_rows: int
    unexpected_values: Mapping[str, int]
    null_counts: Mapping[str, int]
    bytes_written: int


@dataclass(frozen=True, slots=True)
class ReferentialFault:
    """Rows that contradict each other: `check` names the promise, `rows` how many break it."""

    check: str
    rows: int
    example: str


class Reading(Protocol):
    """One consistent view of the platform as of one instant, open until its context ends."""

    @property
    def as_of(self) -> datetime: ...

    def check(self) -> None:
        """Holds tables, models and the chain of Leaders to the contract. Raises SourceError that
        lists every fault."""

    def leaders(self) -> list[str]:
        """Every Leader that gets files: lower-case UUID text, sorted."""

    def input_bytes(self) -> int:
        """About how many bytes the source holds on disk, 0 when unknown."""

    def confirm(self) -> None:
        """Asked at the end: raises SourceUnavailable when the source changed while it was read."""


class EmbeddedReading(Reading, Protocol):
    """A reading whose rows are found in the embedded engine, which makes the files here."""

    def rows(self, resource: str) -> str:
        """A SELECT in DuckDB's dialect that gives the resource's columns under their names, rows in any order. It may
        be run as often as needed: what is dear to make (aggregates, streams) the reading makes once and keeps."""

    def cursor(self) -> Any:
        """A DuckDB connection on the reading's engine, for one thread and one open stream; the
        caller closes it. The SELECTs of `rows` run on it."""


@runtime_checkable
class DistributedReading(Reading, Protocol):
    """A reading whose engine makes and stores the files itself, on many machines."""

    def export_resource(
        self,
        resource: str,
        formats: Sequence[str],
        sink: FileSink,
        *,
        previous: Mapping[str, str],
        compression: str,
        on_entries: Callable[[list[ManifestEntry]], None],
        on_carried: Callable[[list[str]], None],
        on_progress: Callable[[int], None],
    ) -> ResourceReport:
        """As `daybreak.export.export_resource`."""

    def referential_faults(self, filled: Collection[str]) -> list[ReferentialFault]:
        """As `daybreak.export.referential_faults`."""


class RowSource(Protocol):
    """The operator's platform. `open` gives one consistent reading as of one instant.

    Raises SourceError (what is there is not what was promised: all faults in one message) or
    SourceUnavailable (transient).
    """

    @property
    def engine(self) -> str: ...

    def open(self, as_of: datetime) -> AbstractContextManager[Reading]: ...
