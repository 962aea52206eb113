"""What a snapshot is: its states, its manifest, and what is said about how fresh it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum

import msgspec

_CLOCKS_DIFFER = timedelta(minutes=1)


class SnapshotState(StrEnum):
    """building -> complete -> published -> retired; or held, discarded, failed on the way."""

    BUILDING = "building"
    COMPLETE = "complete"
    HELD = "held"
    PUBLISHED = "published"
    RETIRED = "retired"
    DISCARDED = "discarded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One run and what came of it.

    `day` is the UTC date whose 04:00 publication it is for, None for a run by hand.
    `fence` is the fencing token of the builder that holds it. `report` is the run report
    (rows per resource, durations, guard's findings), plain JSON values.
    """

    snapshot_id: str
    state: SnapshotState
    as_of: datetime
    started_at: datetime
    day: date | None = None
    finished_at: datetime | None = None
    published_at: datetime | None = None
    failure: str | None = None
    fence: int = 0
    builder: str = ""
    heartbeat_at: datetime | None = None
    lease_until: datetime | None = None
    progress: Mapping[str, object] = field(default_factory=dict)
    report: Mapping[str, object] = field(default_factory=dict)
    accepted_reason: str | None = None

    def ahead_of(self, now: datetime) -> bool:
        """Whether it shows an instant that is still to come, by more than clocks of two machines may differ."""
        return self.as_of > now + _CLOCKS_DIFFER

    def under_way(self, now: datetime) -> bool:
        """Whether a builder is making it."""
        return self.state is SnapshotState.BUILDING and not self.lapsed(now)

    def lapsed(self, now: datetime) -> bool:
        """Whether its builder fell silent before it came to an end."""
        return self.state is SnapshotState.BUILDING and self.lease_until is not None and self.lease_until <= now


class StoredFormat(msgspec.Struct, frozen=True, gc=False):
    """One file in the store. `key` is its object key; digests are lower-case hex SHA-256."""

    bytes: int
    sha256: str
    content_bytes: int
    content_sha256: str
    key: str


class ManifestEntry(msgspec.Struct, frozen=True):
    """One Leader's files of one resource: the same rows in every format.

    A Leader without rows in a resource has no entry of its own: the snapshot's shared entry with
    `client_id` "" (header alone) stands for it. `fingerprint` is hex over all rows and the recipe
    (format versions, columns, compression) that made the bytes.
    """

    client_id: str
    resource: str
    rows: int
    fingerprint: str
    formats: Mapping[str, StoredFormat]


class CurrentFile(msgspec.Struct, frozen=True):
    """One file of the published snapshot, as the download path looks it up."""

    snapshot_id: str
    as_of: datetime
    published_at: datetime
    resource: str
    format: str
    rows: int
    stored: StoredFormat


@dataclass(frozen=True, slots=True)
class Freshness:
    """How fresh the files are, for people and machines. `late` with `reason` when the publication
    that should be there is not."""

    snapshot: Snapshot | None
    next_expected_at: datetime
    late: bool
    reason: str | None = None
