"""The way to the export engine: the embedded one, or one that makes the files on many machines by itself.

The embedded engine is loaded when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import cast

from daybreak.domain.snapshot import ManifestEntry
from daybreak.ports.sources import DistributedReading, EmbeddedReading, Reading, ReferentialFault, ResourceReport
from daybreak.snapshots.plan import RunPlan
from daybreak.snapshots.watched_sink import WatchedSink


def export(
    reading: Reading,
    resource: str,
    plan: RunPlan,
    sink: WatchedSink,
    *,
    previous: Mapping[str, str],
    on_entries: Callable[[list[ManifestEntry]], None],
    on_carried: Callable[[list[str]], None],
    on_progress: Callable[[int], None],
) -> ResourceReport:
    """Makes one resource's files of all Leaders, wherever the reading's engine makes them. `on_progress` is told the
    rows done so far. Raises SourceError, RunError and what the sink raises.
    """
    if isinstance(reading, DistributedReading):

        def counted(entries: list[ManifestEntry]) -> None:
            for entry in entries:
                for stored in entry.formats.values():
                    sink.count(stored.bytes)
            on_entries(entries)

        return reading.export_resource(
            resource,
            plan.formats,
            sink.for_tasks(),
            previous=previous,
            compression=plan.compression,
            on_entries=counted,
            on_carried=on_carried,
            on_progress=on_progress,
        )
    from daybreak.export import export_resource

    return export_resource(
        cast("EmbeddedReading", reading),
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


def faults_between(reading: Reading, filled: Collection[str]) -> list[ReferentialFault]:
    """Rows of the nine resources that contradict each other; `filled` are those that have rows. Raises SourceError."""
    if isinstance(reading, DistributedReading):
        return reading.referential_faults(filled)
    from daybreak.export import referential_faults

    return referential_faults(cast("EmbeddedReading", reading), filled)
