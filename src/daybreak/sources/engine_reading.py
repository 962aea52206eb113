"""What the readings of several engines share. `Reading` documents the methods."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from daybreak.catalogue.models import Model, required_tables
from daybreak.domain.run_report import ReferentialFault
from daybreak.export.job import ExportJob, ExportObserver, ResourceReport
from daybreak.export.referential import referential_faults
from daybreak.export.resource_export import export_resource
from daybreak.export.work_tables import EmbeddedRows
from daybreak.filestore.file_store import FileSink
from daybreak.sources.contract import checked_leaders
from daybreak.sources.malformed import MalformedPolicy, MalformedRows


class EngineReading(ABC):
    """Models, malformed rows and Leaders of a reading."""

    lag: timedelta | None = None

    def __init__(self, models: Mapping[str, Model], as_of: datetime, policy: MalformedPolicy) -> None:
        self.models = models
        self.malformed: Sequence[MalformedRows] = ()
        self._as_of, self._policy = as_of, policy
        self._required = required_tables(models)
        self._leaders: list[str] | None = None

    def leaders(self) -> list[str]:
        if self._leaders is None:
            self._leaders = checked_leaders(self._parents())
        return self._leaders

    @abstractmethod
    def _parents(self) -> Iterable[Sequence[str | None]]:
        """Return leader_id and parent_leader_id of the rows of table leaders. Raises SourceError."""


class EmbeddedReading(EngineReading, EmbeddedRows):
    """A reading whose rows the embedded engine exports."""

    def export(self, job: ExportJob, sink: FileSink, observer: ExportObserver) -> ResourceReport:
        return export_resource(self, job, sink, observer)

    def referential_faults(self, resources: Collection[str], skipped: Collection[str] = ()) -> list[ReferentialFault]:
        return referential_faults(self, resources, skipped)
