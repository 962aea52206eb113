"""Snapshots: states, manifest entries, freshness."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum

import msgspec
from msgspec import structs

from daybreak.domain.clock import MAX_DIFFERENCE
from daybreak.domain.run_report import RunProgress, RunReport

PACK_BELOW = 65_536
"""Default and maximum of `snapshot.pack_below`. The service reads a packed file as a whole."""

_CLOCK_TOLERANCE = timedelta(minutes=1)


def milliseconds(instant: datetime) -> int:
    """Return a time in milliseconds since 1970, as table formats have it."""
    return int(instant.timestamp() * 1000)


class SnapshotState(StrEnum):
    """building -> complete -> published -> retired; or held, discarded, failed."""

    BUILDING = "building"
    COMPLETE = "complete"
    HELD = "held"
    PUBLISHED = "published"
    RETIRED = "retired"
    DISCARDED = "discarded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One run and its result.

    `day` is the UTC date of the publication that it is for, None for a manual run. `fence` is the fencing token of the
    builder that owns the run. `version` is the number of the publication, which grows by one each time; None before
    the publication. `chain_id` is the first snapshot of its chain of publications, and `chain_reason` why that one
    began a chain. `deltas_from` is the snapshot that its deltas begin from.
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
    progress: RunProgress = field(default_factory=RunProgress)
    report: RunReport = field(default_factory=RunReport)
    accepted_reason: str | None = None
    version: int | None = None
    chain_id: str | None = None
    chain_reason: str | None = None
    deltas_from: str | None = None

    def is_ahead_of(self, now: datetime) -> bool:
        """Whether `as_of` is in the future, by more than the clocks of two machines may differ."""
        return self.as_of > now + _CLOCK_TOLERANCE

    def is_running(self, now: datetime) -> bool:
        """Whether a builder is working on it."""
        return self.state is SnapshotState.BUILDING and not self.lapsed(now)

    def lapsed(self, now: datetime) -> bool:
        """Whether its builder stopped renewing the lease before the run ended."""
        if self.state is not SnapshotState.BUILDING or self.lease_until is None:
            return False
        renewed_at = self.heartbeat_at or self.started_at
        return self.lease_until <= now or renewed_at > now + MAX_DIFFERENCE

    def state_at(self, now: datetime) -> str:
        """Return the state at an instant, `lapsed` for a run that its builder left."""
        return "lapsed" if self.lapsed(now) else self.state.value

    @property
    def duration(self) -> timedelta | None:
        return self.finished_at - self.started_at if self.finished_at is not None else None


class FileStatistics(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Number of rows in a file, and of NULLs in each column, in the order of the catalogue."""

    rows: int
    null_counts: tuple[int, ...]


class Since(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Publication in which the bytes of a file first appeared. `through` is the last one known to have them.

    `published_at` is when an erasure replaced the file, if that is where the bytes come from.
    """

    version: int
    published_at: datetime
    through: int


PARQUET_MAGIC = b"PAR1"
"""The start of a Parquet file."""


class StoredPart(msgspec.Struct, frozen=True, gc=False):
    """A part of a large Parquet file that clients read as a file: `PARQUET_MAGIC`, the bytes from `start`, and those
    from `footer_start`. `bytes` is the sum of the three.
    """

    bytes: int
    sha256: str
    statistics: FileStatistics
    start: int
    footer_start: int
    footer_bytes: int


class StoredFormat(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One file in the file store. `key` is its object key; digests are SHA-256 in lower-case hex.

    Only Parquet files have `statistics`. Those of earlier versions of Daybreak have none. `since` is recorded for bytes
    that the publication before has too, and for files that an erasure replaced; read it with `since_in`. A large
    Parquet file has `parts`, whose rows together are those of the file.
    """

    bytes: int
    sha256: str
    content_bytes: int
    content_sha256: str
    key: str
    statistics: FileStatistics | None = None
    since: Since | None = None
    parts: tuple[StoredPart, ...] = ()

    @property
    def files(self) -> "tuple[StoredFormat | StoredPart, ...]":
        """The files of a table: the parts, or the file itself."""
        return self.parts or (self,)

    def since_in(self, version: int, published_at: datetime) -> Since:
        """Return since when the publication `version` has these bytes without interruption."""
        # The run compared with the publication before. Another one in between may have had other bytes.
        if self.since is not None and self.since.through >= version - 1:
            return Since(self.since.version, self.since.published_at, version)
        return Since(version, published_at, version)


class ManifestEntry(msgspec.Struct, frozen=True, gc=False):
    """One Leader's files of one resource: the same rows in every format.

    Leaders without rows in a resource share the snapshot's entry with `client_id` "", whose files hold only the header.
    `fingerprint` is a hex digest of all rows and of what determines the bytes: format versions, columns, compression.
    """

    client_id: str
    resource: str
    rows: int
    fingerprint: str
    formats: Mapping[str, StoredFormat]


class CurrentFile(msgspec.Struct, frozen=True):
    """One file of a published snapshot, or a `part`, as downloads look it up. `replaced_at` is when an erasure replaced
    it.
    """

    snapshot_id: str
    as_of: datetime
    published_at: datetime
    version: int
    resource: str
    format: str
    rows: int
    stored: StoredFormat
    replaced_at: datetime | None = None
    part: StoredPart | None = None

    def with_part(self, part: StoredPart) -> "CurrentFile":
        """Return a part of the file."""
        return structs.replace(self, part=part, rows=part.statistics.rows)

    @property
    def content(self) -> StoredFormat | StoredPart:
        """What clients receive: the part, or the whole file."""
        return self.part or self.stored

    @property
    def modified_at(self) -> datetime:
        """When the bytes of this file became available."""
        return self.replaced_at or self.published_at


class TableFiles(msgspec.Struct, frozen=True):
    """The Parquet file of one resource of one account in a published snapshot, which has statistics.

    `columns` are those of all resources in the snapshot, None if they were not recorded.
    """

    snapshot_id: str
    as_of: datetime
    published_at: datetime
    version: int
    rows: int
    stored: StoredFormat
    columns: Mapping[str, Sequence[tuple[str, str, bool]]] | None = None


@dataclass(frozen=True, slots=True)
class TableVersion:
    """Selects one of the kept snapshots: by number, or by time. Without any, the current snapshot.

    `not_after` selects the last one published at or before that time, `not_before` the first one at or after it
    that has the table.
    """

    number: int | None = None
    not_after: datetime | None = None
    not_before: datetime | None = None


class PublicationState(StrEnum):
    """What the users of an account see of the publication.

    `late` files are being built or have not been started. `first_run` and `unpublished` have no files yet.
    """

    FRESH = "fresh"
    LATE = "late"
    FAILED = "failed"
    HELD = "held"
    FIRST_RUN = "first_run"
    UNPUBLISHED = "unpublished"


@dataclass(frozen=True, slots=True)
class Freshness:
    """How fresh the published files are. `late`: the last publication is overdue, for `reason`.

    `late_since` is the first publication that was missed. `next_attempt_at` is when a failed day is built again, None
    if the attempt is due or none follows.
    """

    snapshot: Snapshot | None
    next_expected_at: datetime
    late: bool
    reason: str | None = None
    state: PublicationState = PublicationState.FRESH
    late_since: datetime | None = None
    next_attempt_at: datetime | None = None
