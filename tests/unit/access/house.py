"""One small house with people in it, over a real state database."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
import socket
import sqlite3
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from daybreak.access.hashing import PasswordHashing
from daybreak.access.login import SecondFactorOwed, SessionStarted, login
from daybreak.access.services import AccessServices, AccessSettings
from daybreak.credentials import keyring, passwords, totp
from daybreak.domain.audit import AuditEvent
from daybreak.domain.identity import Account, Caller, Grant, Seat
from daybreak.ports.state import Stores
from daybreak.state.database import Database, open_state
from daybreak.state.migrate import migrate
from daybreak.state.sqlite_state import SqliteState

T = TypeVar("T")

START = datetime(2026, 11, 20, 9, 0, 5, tzinfo=UTC)
PASSWORD = "violet ladder 19 rain"
CALLER = Caller("192.0.2.7", "curl/8", "request-1")
ELSEWHERE = Caller("198.51.100.9", "curl/8", "request-2")

ROSA = "00000000-0000-4000-8000-0000000000a1"  # three accounts, no second factor
OMAR = "00000000-0000-4000-8000-0000000000a2"  # one account, second factor enrolled by `enrol`
INES = "00000000-0000-4000-8000-0000000000a3"  # an account that requires a second factor
LEON = "00000000-0000-4000-8000-0000000000a4"  # only an inactive account
ALPHA = "10000000-0000-4000-8000-000000000001"
BRAVO = "10000000-0000-4000-8000-000000000002"
CLOSED = "10000000-0000-4000-8000-000000000003"
STRICT = "10000000-0000-4000-8000-000000000004"
FOREIGN = "10000000-0000-4000-8000-000000000005"
UNKNOWN = "10000000-0000-4000-8000-0000000000ff"

# Made once: a hash costs 30 ms.
_HASH = passwords.hash_password(PASSWORD)


@dataclass
class House:
    """The services over one state database, with a clock that stands until it is moved."""

    services: AccessServices
    state: Database
    path: Path
    url: str
    now: list[datetime] = field(default_factory=lambda: [START])

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine to its end."""
        return asyncio.run(work)

    def later(self, **span: float) -> None:
        """Moves the clock."""
        self.now[0] += timedelta(**span)

    def write(self, work: Callable[[Stores], T]) -> T:
        return self.state.write(work)

    def audit(self, action: str | None = None) -> list[AuditEvent]:
        return self.state.read(lambda stores: stores.audit.read(action=action))

    def asked(self, work: Coroutine[Any, Any, object]) -> list[str]:
        """The statements that a coroutine's reads ask of the database."""
        assert isinstance(self.state, SqliteState)
        self.run(self.state.aread(lambda stores: stores.seats.by_id(ROSA)))
        connection = self.state._reader._connection
        assert connection is not None
        driver: Any = connection.connection.driver_connection
        said: list[str] = []
        driver.set_trace_callback(said.append)
        try:
            self.run(work)
        finally:
            driver.set_trace_callback(None)
        return said

    def seat(self, seat_id: str) -> Seat:
        seat = self.state.read(lambda stores: stores.seats.by_id(seat_id))
        assert seat is not None
        return seat

    def account(self, client_id: str, **changes: Any) -> None:
        """Changes an account."""

        def work(stores: Stores) -> None:
            (account,) = [each for each in stores.directory.load().accounts if each.client_id == client_id]
            stores.directory.put_accounts(replace(account, **changes))

        self.write(work)

    def grant(self, seat_id: str, client_id: str, **changes: Any) -> None:
        """Gives or changes a grant."""
        self.write(
            lambda stores: stores.directory.put_grants(Grant(seat_id, client_id, **({"data_export": True} | changes)))
        )

    async def login(
        self, email: str = "rosa@example.org", password: str = PASSWORD, **more: Any
    ) -> SessionStarted | SecondFactorOwed:
        return await login(self.services, email=email, password=password, **({"caller": CALLER} | more))

    async def start(self, email: str = "rosa@example.org", **more: Any) -> SessionStarted:
        outcome = await self.login(email, **more)
        assert isinstance(outcome, SessionStarted)
        return outcome

    async def wait(self, email: str = "omar@example.org", **more: Any) -> SecondFactorOwed:
        outcome = await self.login(email, **more)
        assert isinstance(outcome, SecondFactorOwed)
        return outcome

    def enrol(self, seat_id: str = OMAR) -> bytes:
        """Gives a seat a second factor; its seed. The step used is long past."""
        seed = secrets.token_bytes(20)
        sealed = totp.seal(
            seed,
            seat_id=seat_id,
            keyring=self.services.keyring.current(),
            random=secrets.token_bytes,
        )

        def work(stores: Stores) -> None:
            stores.seats.begin_second_factor(seat_id, sealed, self.now[0])
            assert stores.seats.confirm_second_factor(seat_id, 1, [], self.now[0])

        self.write(work)
        return seed

    def code(self, seed: bytes, steps: int = 0) -> str:
        return totp.code_at(seed, int(self.now[0].timestamp()) // 30 + steps)

    def wrong_code(self, seed: bytes) -> str:
        good = {self.code(seed, steps) for steps in (-1, 0, 1)}
        return next(code for code in ("000000", "111111", "222222", "333333") if code not in good)


class QuickHashing(PasswordHashing):
    """Looks like Argon2 and is none: for tests in which hashing is not what is tried."""

    def __init__(self) -> None:
        """Asks nobody."""

    async def verify(self, password_hash: str | None, password: str) -> bool:
        return password_hash == await self.hash(password) or (password_hash, password) == (_HASH, PASSWORD)

    async def hash(self, password: str) -> str:
        digest = hashlib.sha256(password.encode()).digest()
        salt, output = (base64.b64encode(part).decode().rstrip("=") for part in (digest[:16], digest))
        return f"$argon2id$v=19$m=19456,t=2,p=1${salt}${output}"


@contextmanager
def open_house(
    folder: Path, url: str | None = None, *, hashing_channel: socket.socket | None = None
) -> Iterator[House]:
    """A house in an empty folder; its state database is a file there, unless another is named. Without a channel to
    hashing processes, passwords are hashed by a stand-in that costs nothing."""
    if url is None:
        url = f"sqlite:///{folder}/state.db"
        (folder / "state.db").write_bytes(_furnished())
    else:
        _furnish(url)
    state = open_state(url)
    ring = folder / "keyring.json"
    keyring.create(ring, START, secrets.token_bytes)
    now = [START]
    services = AccessServices(
        settings=AccessSettings(issuer="https://data.example.org"),
        state=state,
        keyring=keyring.KeyringFile(ring),
        hashing=QuickHashing() if hashing_channel is None else PasswordHashing(hashing_channel),
        clock=lambda: now[0],
        random=secrets.token_bytes,
    )
    yield House(services, state, folder, url, now)
    state.close()


def verify_by(
    monkeypatch: pytest.MonkeyPatch, services: AccessServices, verdict: Callable[[str | None, str], bool]
) -> None:
    """Passwords are verified by the test."""

    async def verify(_: PasswordHashing, password_hash: str | None, password: str) -> bool:
        return verdict(password_hash, password)

    monkeypatch.setattr(type(services.hashing), "verify", verify)


@cache
def _furnished() -> bytes:
    """The file of a state database with the people in it: made once, copied for each test."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "state.db"
        _furnish(f"sqlite:///{path}")
        with closing(sqlite3.connect(path)) as connection:
            # One file: nothing of it is left in the log beside it.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return path.read_bytes()


def _furnish(url: str) -> None:
    migrate(url)
    state = open_state(url)
    state.write(_people)
    state.close()


def _people(stores: Stores) -> None:
    def account(client_id: str, name: str, **more: Any) -> None:
        stores.directory.put_accounts(Account(client_id, name, "Band", "+15550100", "long_code", **more))

    account(ALPHA, "Alpha", api_tokens_enabled=True)
    account(BRAVO, "Bravo")
    account(CLOSED, "Closed", active=False)
    account(STRICT, "Strict", second_factor_required=True)
    account(FOREIGN, "Foreign")
    for seat_id, name in ((ROSA, "rosa"), (OMAR, "omar"), (INES, "ines"), (LEON, "leon")):
        stores.directory.put_seats(Seat(seat_id, f"{name}@example.org", _HASH))
    # Bravo before Alpha: the first context goes by name, not by time.
    for seat_id, client_id in (
        (ROSA, BRAVO),
        (ROSA, ALPHA),
        (ROSA, CLOSED),
        (OMAR, ALPHA),
        (INES, STRICT),
        (LEON, CLOSED),
    ):
        stores.directory.put_grants(Grant(seat_id, client_id, ("analyst",), data_export=True, async_rest_api=True))
