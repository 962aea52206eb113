"""The way to the export engine: the embedded one, or one that makes the files on many machines by itself.

The embedded engine is loaded when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from daybreak.domain.snapshot import ManifestEntry
from daybreak.ports import DistributedReading, FileSink, Reading, ReferentialFault, ResourceReport
from daybreak.snapshots.plan import RunPlan


def export(
    reading: Reading,
    resource: str,
    plan: RunPlan,
    sink: FileSink,
    *,
    previous: Mapping[str, str],
    on_entries: Callable[[list[ManifestEntry]], None],
    on_carried: Callable[[list[str]], None],
    on_progress: Callable[[int], None],
) -> ResourceReport:
    """Makes one resource's files of all Leaders, wherever the reading's engine makes them. `on_progress` is told the
    rows done so far. Raises SourceError, RunError and what the sink raises.
    """
    distributed = _distributed(reading)
    if distributed is not None:
        return distributed.export_resource(
            resource,
            plan.formats,
            sink,
            previous=previous,
            compression=plan.compression,
            on_entries=on_entries,
            on_carried=on_carried,
            on_progress=on_progress,
        )
    from daybreak.export import export_resource

    return export_resource(
        reading,
        resource,
        plan.formats,
        sink,
        previous=previous,
        threads=plan.threads,
        compression=plan.compression,
        on_entries=on_entries,
        on_carried=on_carried,
        on_progress=on_progress,
    )


def faults_between(reading: Reading) -> list[ReferentialFault]:
    """Rows of the nine resources that contradict each other. Raises SourceError."""
    distributed = _distributed(reading)
    if distributed is not None:
        return distributed.referential_faults()
    from daybreak.export import referential_faults

    return referential_faults(reading)


def _distributed(reading: Reading) -> DistributedReading | None:
    return cast("DistributedReading", reading) if hasattr(reading, "export_resource") else None
