"""The access services over a real state database with four seats and five accounts."""

import base64
import hashlib
import secrets
import sqlite3
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from daybreak.access.link_usage import AuditBuffer, LinkRate, byte_rate
from daybreak.access.login import SecondFactorPending, SessionStarted, login
from daybreak.access.services import Services
from daybreak.credentials import keyring, passwords, totp
from daybreak.credentials.passwords import PasswordHashing
from daybreak.domain.audit import AuditEvent, AuditQuery
from daybreak.domain.identity import Account, Caller, Grant, ResolvedSession, Seat
from daybreak.domain.run_report import RunReport
from daybreak.domain.snapshot import ManifestEntry, Snapshot, SnapshotState
from daybreak.filestore.local_disk import LocalDisk
from daybreak.state.database import Database, open_state
from daybreak.state.migrate import migrate
from daybreak.state.sqlite_state import SqliteState
from daybreak.state.stores import Stores
from tests.configured import configured
from tests.parts.waiting import PATIENT_SECONDS

T = TypeVar("T")

START = datetime(2026, 11, 20, 9, 0, 5, tzinfo=UTC)
PASSWORD = "violet ladder 19 rain"
CALLER = Caller("192.0.2.7", "curl/8", "request-1")
ELSEWHERE = Caller("198.51.100.9", "curl/8", "request-2")

ROSA = "00000000-0000-4000-8000-0000000000a1"  # three accounts, no second factor
OMAR = "00000000-0000-4000-8000-0000000000a2"  # one account, second factor enrolled by `enrol_second_factor`
INES = "00000000-0000-4000-8000-0000000000a3"  # an account that requires a second factor
LEON = "00000000-0000-4000-8000-0000000000a4"  # only an inactive account
ALPHA = "10000000-0000-4000-8000-000000000001"
BRAVO = "10000000-0000-4000-8000-000000000002"
CLOSED = "10000000-0000-4000-8000-000000000003"
STRICT = "10000000-0000-4000-8000-000000000004"
FOREIGN = "10000000-0000-4000-8000-000000000005"
UNKNOWN = "10000000-0000-4000-8000-0000000000ff"

# Computed once: a hash takes 30 ms.
_HASH = passwords.hash_password(PASSWORD)


@dataclass
class Instance:
    """The services over one state database, with a clock that only `advance` changes."""

    services: Services
    state: Database
    path: Path
    url: str
    now: list[datetime] = field(default_factory=lambda: [START])

    def advance(self, **span: float) -> None:
        """Move the clock forward."""
        self.now[0] += timedelta(**span)

    def write(self, work: Callable[[Stores], T]) -> T:
        return self.state.write(work)

    def audit(self, action: str | None = None) -> list[AuditEvent]:
        return self.state.read(lambda stores: stores.audit.read(AuditQuery(action=action)))

    async def statements_of(self, work: Coroutine[Any, Any, object]) -> list[str]:
        """Run a coroutine and return the statements of its reads."""
        assert isinstance(self.state, SqliteState)
        await self.state.aread(lambda stores: stores.seats.by_id(ROSA))
        stores = self.state._reader._stores
        assert stores is not None
        driver: Any = stores.connection.connection.driver_connection
        statements: list[str] = []
        driver.set_trace_callback(statements.append)
        try:
            await work
        finally:
            driver.set_trace_callback(None)
        return statements

    def seat(self, seat_id: str) -> Seat:
        seat = self.state.read(lambda stores: stores.seats.by_id(seat_id))
        assert seat is not None
        return seat

    def session(self, sid: str) -> ResolvedSession:
        resolved = self.state.read(lambda stores: stores.sessions.resolve(sid, None))
        assert resolved is not None
        return resolved

    def change_account(self, client_id: str, **changes: Any) -> None:
        """Change fields of an account."""

        def work(stores: Stores) -> None:
            (account,) = [each for each in stores.directory.load().accounts if each.client_id == client_id]
            stores.directory.put_accounts(replace(account, **changes))

        self.write(work)

    def put_grant(self, seat_id: str, client_id: str, **changes: Any) -> None:
        """Create or replace a grant, with Data Export unless `changes` remove it."""
        self.write(
            lambda stores: stores.directory.put_grants(Grant(seat_id, client_id, **({"data_export": True} | changes)))
        )

    def publish(self, snapshot_id: str, leaders: Sequence[str], entries: Sequence[ManifestEntry]) -> None:
        """Publish a snapshot with these Leaders and entries of the manifest."""

        def work(stores: Stores) -> None:
            now = self.now[0]
            run = stores.snapshots.begin_manual(Snapshot(snapshot_id, SnapshotState.BUILDING, now, now), now, 60)
            stores.snapshots.add_leaders(snapshot_id, run.fence, leaders)
            stores.snapshots.add_entries(snapshot_id, run.fence, entries)
            stores.snapshots.finish(snapshot_id, run.fence, SnapshotState.COMPLETE, now, report=RunReport())
            stores.snapshots.publish(snapshot_id, run.fence, now)

        self.write(work)

    async def login(
        self, email: str = "rosa@example.org", password: str = PASSWORD, **more: Any
    ) -> SessionStarted | SecondFactorPending:
        return await login(self.services, email=email, password=password, **({"caller": CALLER} | more))

    async def log_in(self, email: str = "rosa@example.org", **more: Any) -> SessionStarted:
        """Sign in to a seat that needs no second factor."""
        outcome = await self.login(email, **more)
        assert isinstance(outcome, SessionStarted)
        return outcome

    async def start_login(self, email: str = "omar@example.org", **more: Any) -> SecondFactorPending:
        """Start the login of a seat that needs a second factor."""
        outcome = await self.login(email, **more)
        assert isinstance(outcome, SecondFactorPending)
        return outcome

    def enrol_second_factor(self, seat_id: str = OMAR) -> bytes:
        """Enrol a second factor and return its seed. The step that confirmed it is in the past."""
        seed = secrets.token_bytes(20)
        encrypted = totp.encrypt_seed(
            seed,
            seat_id=seat_id,
            keyring=self.services.keyring.current(),
            random=secrets.token_bytes,
        )

        def work(stores: Stores) -> None:
            stores.seats.begin_second_factor(seat_id, encrypted, self.now[0])
            assert stores.seats.confirm_second_factor(seat_id, 1, [], self.now[0])

        self.write(work)
        return seed

    def code(self, seed: bytes, steps: int = 0) -> str:
        return totp.code_at(seed, int(self.now[0].timestamp()) // 30 + steps)

    def wrong_code(self, seed: bytes) -> str:
        valid = {self.code(seed, steps) for steps in (-1, 0, 1)}
        return next(code for code in ("000000", "111111", "222222", "333333") if code not in valid)


class QuickHashing(PasswordHashing):
    """SHA-256 in the format of Argon2, for tests that do not test hashing."""

    def __init__(self) -> None:
        """Start no thread."""

    async def verify(self, password_hash: str | None, password: str) -> bool:
        return password_hash == await self.hash(password) or (password_hash, password) == (_HASH, PASSWORD)

    async def hash(self, password: str) -> str:
        digest = hashlib.sha256(password.encode()).digest()
        salt, output = (base64.b64encode(part).decode().rstrip("=") for part in (digest[:16], digest))
        return f"$argon2id$v=19$m=19456,t=2,p=1${salt}${output}"


@contextmanager
def open_instance(
    folder: Path, url: str | None = None, *, hashing: PasswordHashing | None = None
) -> Iterator[Instance]:
    """Open an instance in an empty folder.

    Its state database is a file in the folder unless `url` names another. Without `hashing`, passwords are hashed by
    `QuickHashing`.
    """
    if url is None:
        url = f"sqlite:///{folder}/state.db"
        (folder / "state.db").write_bytes(_database_file())
    else:
        _fill_database(url)
    state = open_state(url, wait_seconds=PATIENT_SECONDS)
    ring = folder / "keyring.json"
    keyring.create(ring, START, secrets.token_bytes)
    now = [START]
    settings = configured(base_url="https://data.example.org")
    services = Services(
        settings=settings,
        state=state,
        files=LocalDisk(folder / "files"),
        keyring=keyring.KeyringFile(ring),
        hashing=hashing or QuickHashing(),
        audit_buffer=AuditBuffer(state),
        link_rate=LinkRate(state, settings.access.link_rate, lambda: now[0]),
        byte_rate=byte_rate(state, settings.access.daily_bytes, lambda: now[0]),
        clock=lambda: now[0],
        random=secrets.token_bytes,
    )
    yield Instance(services, state, folder, url, now)
    state.close()


def replace_verification(
    monkeypatch: pytest.MonkeyPatch, services: Services, matches: Callable[[str | None, str], bool]
) -> None:
    """Replace the verification of passwords by `matches`."""

    async def verify(_: PasswordHashing, password_hash: str | None, password: str) -> bool:
        return matches(password_hash, password)

    monkeypatch.setattr(type(services.hashing), "verify", verify)


@cache
def _database_file() -> bytes:
    """Return the bytes of a filled state database, created once and copied for each test."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "state.db"
        _fill_database(f"sqlite:///{path}")
        with closing(sqlite3.connect(path)) as connection:
            # Move the rows from the write-ahead log to the file.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return path.read_bytes()


def _fill_database(url: str) -> None:
    migrate(url)
    state = open_state(url)
    state.write(_add_directory)
    state.close()


def _add_directory(stores: Stores) -> None:
    def account(client_id: str, name: str, **more: Any) -> None:
        stores.directory.put_accounts(Account(client_id, name, "Band", "+15550100", "long_code", **more))

    account(ALPHA, "Alpha", api_tokens_enabled=True)
    account(BRAVO, "Bravo")
    account(CLOSED, "Closed", active=False)
    account(STRICT, "Strict", second_factor_required=True)
    account(FOREIGN, "Foreign")
    for seat_id, name in ((ROSA, "rosa"), (OMAR, "omar"), (INES, "ines"), (LEON, "leon")):
        stores.directory.put_seats(Seat(seat_id, f"{name}@example.org", _HASH))
    # Bravo before Alpha, because contexts are ordered by name, not by creation.
    for seat_id, client_id in (
        (ROSA, BRAVO),
        (ROSA, ALPHA),
        (ROSA, CLOSED),
        (OMAR, ALPHA),
        (INES, STRICT),
        (LEON, CLOSED),
    ):
        stores.directory.put_grants(Grant(seat_id, client_id, ("analyst",), data_export=True, async_rest_api=True))
