"""The seams of the service: Protocols that adapters fill and services use.

Every store method runs inside one transaction of the state database: services get a `Stores`
bundle from `State.read` / `State.write` (or the awaitable `aread` / `awrite`), and what one
callable does is committed whole or not at all. `Unavailable(state_unavailable)` is raised when the
database is away, within a bounded time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from daybreak.domain.audit import AuditEvent
from daybreak.domain.identity import (
    Account,
    ApiToken,
    Device,
    Grant,
    Landing,
    Reach,
    Seat,
    Session,
    SessionStanding,
    TokenStanding,
)
from daybreak.domain.snapshot import CurrentFile, ManifestEntry, Snapshot, SnapshotState

T = TypeVar("T")


# --- State database ------------------------------------------------------------------------------


class SeatStore(Protocol):
    """Seats, their passwords and their second factors."""

    def by_email(self, email: str) -> Seat | None:
        """The seat of an email, whatever its case; None when there is none."""

    def by_id(self, seat_id: str) -> Seat | None: ...

    def list_all(self) -> list[Seat]: ...

    def set_password_hash(self, seat_id: str, password_hash: str, now: datetime) -> None: ...

    def set_disabled(self, seat_id: str, disabled: bool) -> None: ...  # noqa: FBT001 - the name says it

    def set_operator(self, seat_id: str, operator: bool) -> None: ...  # noqa: FBT001 - the name says it

    def set_last_client(self, seat_id: str, client_id: str) -> None: ...

    def reach(self, seat_id: str) -> list[Reach]:
        """Every account with a grant of the seat, inactive ones too, ordered by account name."""

    def reach_size(self, seat_id: str) -> int:
        """How many those are."""

    def landing(self, seat: Seat) -> Landing | None:
        """Where a login begins; None when no account in reach is active."""

    def sealed_seed(self, seat_id: str) -> str | None:
        """The enrolled second factor's sealed seed."""

    def pending_seed(self, seat_id: str) -> str | None:
        """The sealed seed of an enrolment that is not confirmed yet."""

    def begin_second_factor(self, seat_id: str, sealed_seed: str, now: datetime) -> None: ...

    def confirm_second_factor(self, seat_id: str, step: int, recovery_hashes: Sequence[str], now: datetime) -> bool:
        """Makes the pending seed the seat's factor, its step used, recovery codes replaced.
        False when nothing was pending."""

    def accept_step(self, seat_id: str, step: int) -> bool:
        """Uses a step once: one atomic statement; False when this or a later one was used."""

    def replace_recovery_codes(self, seat_id: str, hashes: Sequence[str]) -> None: ...

    def use_recovery_code(self, seat_id: str, code_hash: str, now: datetime) -> bool:
        """One atomic statement; False when it is unknown or used."""

    def recovery_codes_left(self, seat_id: str) -> int: ...

    def reset_second_factor(self, seat_id: str) -> None: ...

    def reseal_seeds(self, reseal: Callable[[str, str], str | None]) -> int:
        """Writes each sealed seed anew where `reseal(seat_id, sealed)` gives another; how many."""


class SessionStore(Protocol):
    """Logins and the devices they came from."""

    def start(self, session: Session) -> None: ...

    def pass_second_factor(self, sid: str, *, device_id: str, expires_at: datetime, amr: tuple[str, ...]) -> bool:
        """Ends the waiting, once: atomic; False when the session waits no longer or has ended."""

    def standing(self, sid: str, client_id: str | None) -> SessionStanding | None:
        """Session, seat, account and grant by one statement; None when the sid is unknown."""

    def end(self, sid: str, now: datetime, reason: str) -> bool:
        """False when it had ended already."""

    def end_all(self, seat_id: str, now: datetime, reason: str, *, keep_sid: str | None = None) -> int: ...

    def list_open(self, seat_id: str, now: datetime) -> list[tuple[Session, Device | None]]: ...

    def mark_reauthenticated(self, sid: str, now: datetime) -> None: ...

    def remember_device(self, device: Device) -> None:
        """Inserts the device, or brings agent, address and last seen of a known one up to date."""

    def device(self, device_id: str, seat_id: str) -> Device | None: ...

    def forget_ended(self, before: datetime) -> int:
        """Deletes sessions that ended or expired before that instant; how many."""

    def forget_devices(self, before: datetime) -> int:
        """Deletes devices not seen since that instant and with no session left; how many."""


class ApiTokenStore(Protocol):
    """API tokens by the digest of their secret."""

    def add(self, token: ApiToken) -> None: ...

    def standing(self, digest: str) -> TokenStanding | None:
        """Token, seat, account and grant by one statement."""

    def standing_by_id(self, token_id: str) -> TokenStanding | None: ...

    def touch(self, token_id: str, now: datetime, *, not_after: datetime) -> None:
        """Sets last used unless it was used after `not_after` (at most one write a minute)."""

    def list_for(self, *, client_id: str | None = None, seat_id: str | None = None) -> list[ApiToken]: ...

    def revoke(self, token_id: str, now: datetime, reason: str) -> bool: ...

    def revoke_for_grants(self, grants: Iterable[Grant], now: datetime, reason: str) -> None:
        """Revokes every token that stands on one of them."""

    def forget_dead(self, before: datetime) -> int:
        """Deletes tokens revoked or expired before that instant; how many."""


@dataclass(frozen=True, slots=True)
class ThrottleRule:
    """At most `limit` attempts in any `window_seconds` for one `key`."""

    key: str
    limit: int
    window_seconds: int


class ThrottleStore(Protocol):
    """Counted attempts, shared by all workers and nodes."""

    def count(self, rules: Sequence[ThrottleRule], now: datetime) -> ThrottleRule | None:
        """Counts one attempt against every rule, atomically. None = allowed; else the rule that
        is exceeded (then the attempt does not push the window further out)."""

    def retry_after_seconds(self, rule: ThrottleRule, now: datetime) -> int: ...

    def clear(self, key: str) -> None: ...

    def forget(self, before: datetime) -> int: ...


class AuditStore(Protocol):
    """Append-only trail."""

    def append(self, event: AuditEvent) -> None: ...

    def append_all(self, events: Sequence[AuditEvent]) -> None:
        """Many at once, in their order: a tenth of the cost of one by one."""

    def read(
        self,
        *,
        client_id: str | None = None,
        seat_id: str | None = None,
        actor: str | None = None,
        action: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        after_id: int | None = None,
        newest_first: bool = False,
        limit: int = 1000,
    ) -> list[AuditEvent]: ...

    def forget(self, before: datetime, *, at_most: int = 10_000) -> int:
        """Deletes events before that instant, the oldest first; how many. Call it again until it
        deletes fewer than `at_most`. The database refuses to delete any other event."""


class SnapshotStore(Protocol):
    """Runs, manifests and the one pointer to what is served."""

    def claim_day(self, snapshot: Snapshot, now: datetime, lease_seconds: int) -> Snapshot | None:
        """Claims `snapshot.day` for its builder: inserts it, or takes over a day whose builder let
        its lease lapse or whose last run failed (a new fence, a new snapshot id). None when another
        holds it or the day is done (complete, held, published)."""

    def begin_manual(self, snapshot: Snapshot, now: datetime, lease_seconds: int) -> Snapshot:
        """A run by hand, with an id of its own."""

    def renew(
        self,
        snapshot_id: str,
        fence: int,
        now: datetime,
        lease_seconds: int,
        progress: Mapping[str, object],
    ) -> bool:
        """Keeps the lease and says how far it is. False when fenced."""

    def add_entries(self, snapshot_id: str, fence: int, entries: Sequence[ManifestEntry]) -> None:
        """Appends manifest entries (also the shared header-only ones). Raises RunFenced."""

    def add_leaders(self, snapshot_id: str, fence: int, client_ids: Sequence[str]) -> None: ...

    def finish(
        self,
        snapshot_id: str,
        fence: int,
        state: SnapshotState,
        now: datetime,
        *,
        report: Mapping[str, object],
        failure: str | None = None,
    ) -> None:
        """From building to complete, held or failed. Raises RunFenced."""

    def publish(
        self,
        snapshot_id: str,
        fence: int | None,
        now: datetime,
        *,
        accepted_reason: str | None = None,
    ) -> None:
        """Moves the pointer, one transaction; refuses one that is older (as_of) than the served
        one, is not complete, or held without a reason. Raises RunFenced, Conflict."""

    def discard(self, snapshot_id: str, now: datetime, reason: str) -> None: ...

    def lapse(self, now: datetime) -> list[Snapshot]:
        """Marks building runs whose lease is over as failed; returns them."""

    def current(self) -> Snapshot | None:
        """The snapshot that is served."""

    def get(self, snapshot_id: str) -> Snapshot | None: ...

    def of_day(self, day: date) -> Snapshot | None:
        """The latest run for that day's publication."""

    def recent(self, limit: int = 50) -> list[Snapshot]:
        """Newest first."""

    def file(self, snapshot_id: str | None, client_id: str, resource: str, format: str) -> CurrentFile | None:
        """One file (header-only when the Leader has no rows); `snapshot_id` None = the current
        one. None when the snapshot does not know the Leader, or is not (or no longer) served:
        published snapshots and retired ones whose files still stand are."""

    def leader_known(self, snapshot_id: str, client_id: str) -> bool: ...

    def manifest(self, snapshot_id: str, client_id: str) -> list[ManifestEntry]:
        """The nine entries of one Leader, header-only ones filled in, in catalogue order of names
        as stored; [] when unknown."""

    def entries(self, snapshot_id: str, resource: str | None = None) -> Iterator[ManifestEntry]:
        """All entries, ordered by resource and client_id."""

    def leaders(self, snapshot_id: str) -> Iterator[str]: ...

    def fingerprints(self, snapshot_id: str, resource: str) -> dict[str, str]: ...

    def served(self) -> list[Snapshot]:
        """Published and retired snapshots whose files still stand, newest publication first."""

    def abandoned(self) -> list[Snapshot]:
        """Runs whose manifest rows are to be forgotten, oldest first: failed and discarded ones, and
        those that were being forgotten when that was interrupted."""

    def forget(self, snapshot_id: str, *, at_most: int | None = None) -> int:
        """Deletes manifest rows; the run's own row stays for history, as retired without files. How
        many rows went. With `at_most`, call it again until it deletes fewer, so that others may
        write in between. Raises Conflict for a snapshot that is served, or may still be."""

    def keys_in_use(self, snapshot_ids: Sequence[str]) -> Iterator[str]:
        """Object keys the manifests of these snapshots name."""


@dataclass(frozen=True, slots=True)
class Directory:
    """Accounts, seats and grants as one value."""

    accounts: tuple[Account, ...]
    seats: tuple[Seat, ...]
    grants: tuple[Grant, ...]


class DirectoryStore(Protocol):
    """Accounts, seats and grants in bulk."""

    def load(self) -> Directory: ...

    def put_accounts(self, *given: Account) -> None: ...

    def put_seats(self, *given: Seat) -> None:
        """Inserts or changes email, disabled and (when not None) password_hash."""

    def put_grants(self, *given: Grant) -> None: ...

    def remove_grants(self, *given: Grant) -> None:
        """Takes away what is named by seat_id and client_id."""

    def account(self, client_id: str) -> Account | None: ...


@dataclass(frozen=True, slots=True)
class Node:
    """One running service process, as others see it."""

    node_id: str
    host: str
    version: str
    started_at: datetime
    seen_at: datetime
    roles: tuple[str, ...]


class NodeStore(Protocol):
    """Heartbeats of service nodes."""

    def beat(self, node: Node) -> None: ...

    def list_seen(self, since: datetime) -> list[Node]: ...

    def forget(self, before: datetime) -> int:
        """Deletes nodes not seen since that instant; how many."""


class Stores(Protocol):
    """Everything in the state database, within one transaction."""

    @property
    def seats(self) -> SeatStore: ...
    @property
    def sessions(self) -> SessionStore: ...
    @property
    def api_tokens(self) -> ApiTokenStore: ...
    @property
    def throttle(self) -> ThrottleStore: ...
    @property
    def audit(self) -> AuditStore: ...
    @property
    def snapshots(self) -> SnapshotStore: ...
    @property
    def directory(self) -> DirectoryStore: ...
    @property
    def nodes(self) -> NodeStore: ...


class State(Protocol):
    """The state database. `read` sees one consistent view, each statement of an `aread` what is committed when it
    starts; `write` and `awrite` are one durable transaction."""

    def read(self, work: Callable[[Stores], T]) -> T: ...

    def write(self, work: Callable[[Stores], T]) -> T: ...

    async def aread(self, work: Callable[[Stores], T]) -> T: ...

    async def awrite(self, work: Callable[[Stores], T]) -> T: ...

    def close(self) -> None: ...

    async def aclose(self) -> None: ...


# --- Files ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """What a store says about a file it took: digest and length of the stored bytes, and key."""

    key: str
    bytes: int
    sha256: str


class FileSink(Protocol):
    """Where one run's files go: the staging of one snapshot. Called from several threads."""

    def write(self, client_id: str, resource: str, format: str, pieces: Iterable[bytes | memoryview]) -> WrittenFile:
        """Takes one finished file, piece by piece; `client_id` "" is the shared header-only one."""

    def carry(self, key: str) -> str:
        """Makes a file of an earlier snapshot part of this one (link or reference): its new key."""

    def seal(self) -> None:
        """Returns when everything written is durable (sync once) and under its final name."""

    def discard(self) -> None:
        """Removes what was written."""


@dataclass(frozen=True, slots=True)
class StoreLink:
    """A URL of the store's own, good for a minute at most."""

    url: str
    expires_at: datetime


class FileStore(Protocol):
    """Where published files live: local disk or an object store."""

    @property
    def reads_cheaply(self) -> bool:
        """Whether reading every file back costs little. A store that is far away checks digests as files arrive, and
        a run reads back a sample."""

    def stage(self, snapshot_id: str) -> FileSink: ...

    def check(self, key: str, bytes: int, sha256: str) -> None:
        """Reads the whole file; raises FileDamaged when length or digest differ, FileStoreError
        when it is not there."""

    def local_path(self, key: str, bytes: int) -> Path | None:
        """The path of the file when it lies on local disk (length checked), None on an object
        store. Raises FileStoreError when it is gone."""

    async def store_link(
        self,
        key: str,
        *,
        seconds: int,
        file_name: str,
        content_type: str,
        content_encoding: str | None,
        method: str = "GET",
    ) -> StoreLink | None:
        """A store-signed URL, or None on local disk."""

    def read(self, key: str) -> Iterator[bytes]: ...

    def stream(self, key: str) -> AsyncIterator[bytes]: ...

    def remove(self, snapshot_id: str, keep_keys: frozenset[str]) -> int:
        """Deletes a snapshot's files but those kept (carried into living ones); how many."""

    def leftovers(self, known_snapshot_ids: frozenset[str]) -> list[str]:
        """Snapshot ids (or staging folders) that lie in the store and nobody knows."""

    def free_bytes(self) -> int | None:
        """Free space, None when the store has no such figure."""

    def probe(self) -> None:
        """Writes, reads and deletes a small object; raises FileStoreError or Unavailable."""


# --- Sources: rows come from the operator's platform ----------------------------------------------


@dataclass(frozen=True, slots=True)
class ResourceRows:
    """A resource's rows as the embedded engine finds them.

    `select` is a SELECT in DuckDB's dialect that gives the resource's columns under their names,
    in any order of rows; `repeatable` is False when running it twice costs much (aggregates,
    joins, streams), so that the result is kept aside once.
    """

    select: str
    repeatable: bool


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

    def rows(self, resource: str) -> ResourceRows: ...

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

    def referential_faults(self) -> list[ReferentialFault]:
        """As `daybreak.export.referential_faults`."""


class RowSource(Protocol):
    """The operator's platform. `open` gives one consistent reading as of one instant.

    Raises SourceError (what is there is not what was promised: all faults in one message) or
    SourceUnavailable (transient).
    """

    @property
    def engine(self) -> str: ...

    def open(self, as_of: datetime) -> AbstractContextManager[Reading]: ...
