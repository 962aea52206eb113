"""Search for the files of kept snapshots that hold a Member's rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from daybreak.catalogue.resources import RESOURCES, Resource
from daybreak.domain.snapshot import ManifestEntry, Snapshot, SnapshotState
from daybreak.export.member_records import MEMBER_COLUMN

MEMBER_RESOURCES: tuple[Resource, ...] = tuple(each for each in RESOURCES if MEMBER_COLUMN in each.column_names)
"""Resources with rows of single Members. The others have totals."""
_RECENT_RUNS = 200
_UNPUBLISHED = frozenset({SnapshotState.COMPLETE, SnapshotState.HELD})


@dataclass(frozen=True, slots=True)
class MemberFiles:
    """Entries of one Leader in one snapshot whose files hold the Member's rows, by resource."""

    snapshot: Snapshot
    client_id: str
    entries: Mapping[str, ManifestEntry]
