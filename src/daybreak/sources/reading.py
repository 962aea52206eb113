"""Row sources: the operator's platform, read as of one instant."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Protocol

from daybreak.catalogue.models import Model
from daybreak.domain.run_report import ReferentialFault
from daybreak.export.job import ExportJob, ExportObserver, ResourceReport
from daybreak.filestore.file_store import FileSink
from daybreak.sources.malformed import MalformedRows


class Reading(Protocol):
    """A consistent view of the platform as of one instant, valid until its context ends.

    Rows are exported in this process or by tasks on other machines; the caller does not see the difference.
    """

    @property
    def lag(self) -> timedelta | None:
        """How far a standby was behind at opening, None for a source without replication."""

    @property
    def models(self) -> Mapping[str, Model]:
        """The models by resource."""

    @property
    def malformed(self) -> Sequence[MalformedRows]:
        """Rows that no file contains, because a value cannot be converted. `check` finds them."""

    def check(self) -> None:
        """Check tables, models, Leaders and terms against the catalogue. Raises SourceError that lists every fault."""

    def leaders(self) -> list[str]:
        """Return every Leader that gets files: lower-case UUID text, sorted."""

    def input_bytes(self) -> int:
        """Return the approximate size of the source on disk, 0 when unknown."""

    def export(self, job: ExportJob, sink: FileSink, observer: ExportObserver) -> ResourceReport:
        """Write all files of one resource to the sink, which the caller seals.

        The same rows, formats and compression produce the same bytes. Raises SourceError when rows cannot be read,
        RunError when rows are missing, and what the sink and the observer raise.
        """

    def referential_faults(self, resources: Collection[str], skipped: Collection[str] = ()) -> list[ReferentialFault]:
        """Check the relations that the catalogue declares, except those whose code is `skipped`. `resources` are those
        that have rows of known Leaders; the others have no rows to check.
        """

    def source_rows(self, subject: str, sql: str) -> Iterable[Sequence[object]]:
        """Return the rows of a query over the source tables, in the types of the catalogue, perhaps as they are read.
        `subject` begins the message of a SourceError, which leaves the reading usable. To be called after the exports.
        """

    def cancel(self) -> None:
        """End the query of `source_rows` that is in progress, from another thread. It raises SourceError."""

    def confirm_unchanged(self) -> None:
        """Raise SourceUnavailable when the source changed while it was read. To be called last."""


class RowSource(Protocol):
    """The operator's platform as the source of rows."""

    @property
    def engine(self) -> str:
        """The value of `source.engine`."""

    def open(self, as_of: datetime) -> AbstractContextManager[Reading]:
        """Open one consistent reading. Raises SourceError, or SourceUnavailable when another attempt may succeed."""


class DirectorySource(Protocol):
    """The operator's platform as the source of accounts, seats and grants."""

    def query(self, sql: str) -> list[dict[str, object]]:
        """Return the rows of a query from the settings under `[directory]`, by column name. Raises SourceError."""


class PlatformSource(RowSource, DirectorySource, Protocol):
    """The operator's platform as the source of rows and of the directory."""
