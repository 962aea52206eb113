"""Values for tests of the state database."""

from datetime import UTC, date, datetime, timedelta

import sqlalchemy as sa

from daybreak.domain.identity import Account, ApiToken, BillingState, Grant, Seat, Session
from daybreak.domain.run_report import RunReport
from daybreak.domain.snapshot import FileStatistics, ManifestEntry, Snapshot, SnapshotState, StoredFormat
from daybreak.state.database import sqlite_path
from daybreak.state.postgresql_state import blocking_engine
from daybreak.state.sqlite_file import sqlite_engine
from daybreak.state.stores import Stores

NOW = datetime(2026, 11, 20, 4, 0, 0, 123456, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DAY = date(2026, 11, 20)
LEASE_SECONDS = 60


def sql_engine(url: str) -> sa.Engine:
    """Return an engine of a state database, for statements of tests. Dispose of it after its use."""
    path = sqlite_path(url)
    return blocking_engine(url) if path is None else sqlite_engine(path)


def uuid(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


def account(number: int, **changes: object) -> Account:
    values: dict[str, object] = {
        "client_id": uuid(number),
        "first_name": f"First {number}",
        "last_name": "Läst 🌅",
        "phone_number": "+12025550123",
        "phone_number_type": "long_code",
        "billing": BillingState(billing_provided=True, trial_length_days=14),
    }
    return Account(**{**values, **changes})  # type: ignore[arg-type]


def seat(number: int, **changes: object) -> Seat:
    values: dict[str, object] = {
        "seat_id": uuid(number),
        "email": f"Seat{number}@Example.org",
        "password_hash": f"hash {number}",
    }
    return Seat(**{**values, **changes})  # type: ignore[arg-type]


def session(number: int, seat_id: str, **changes: object) -> Session:
    values: dict[str, object] = {
        "sid": uuid(number),
        "seat_id": seat_id,
        "started_at": NOW,
        "expires_at": NOW + timedelta(days=7),
        "amr": ("pwd",),
    }
    return Session(**{**values, **changes})  # type: ignore[arg-type]


def token(number: int, seat_id: str, client_id: str, **changes: object) -> ApiToken:
    values: dict[str, object] = {
        "token_id": uuid(number),
        "digest": f"{number:064x}",
        "seat_id": seat_id,
        "client_id": client_id,
        "name": "nightly",
        "last_four": "wxyz",
        "created_at": NOW,
        "created_by_email": "someone@example.org",
    }
    return ApiToken(**{**values, **changes})  # type: ignore[arg-type]


SEAT = seat(0x51)
ANN = account(0xA1, first_name="Ann")
BEA = account(0xB1, first_name="bea", second_factor_required=True)


def two_accounts(stores: Stores) -> None:
    """One seat with a grant on each of two accounts; BEA requires a second factor."""
    stores.directory.put_accounts(ANN)
    stores.directory.put_accounts(BEA)
    stores.directory.put_seats(SEAT)
    stores.directory.put_grants(Grant(SEAT.seat_id, ANN.client_id, ("owner", "admin"), data_export=True))
    stores.directory.put_grants(Grant(SEAT.seat_id, BEA.client_id, ("analyst",), async_rest_api=True))


def run(number: int, *, day: date | None = DAY, as_of: datetime = NOW) -> Snapshot:
    return Snapshot(uuid(number), SnapshotState.BUILDING, as_of, NOW, day=day, builder=f"builder {number}")


def entry(snapshot_id: str, client_id: str, resource: str, rows: int = 5, *, parquet: bool = False) -> ManifestEntry:
    formats = {
        name: StoredFormat(
            bytes=100 + rows,
            sha256="a" * 64,
            content_bytes=1000 + rows,
            content_sha256="b" * 64,
            key=f"snapshots/{snapshot_id}/{client_id or 'shared'}/{resource}.{name}.gz",
            statistics=FileStatistics(rows, (0, 1)) if name == "parquet" else None,
        )
        for name in ("csv", "json", *(["parquet"] if parquet else []))
    }
    return ManifestEntry(client_id, resource, rows, f"{rows:064x}", formats)


def complete_run(
    stores: Stores, number: int, *, day: date | None = None, as_of: datetime = NOW, parquet: bool = False
) -> Snapshot:
    """Store a complete run with two Leaders. The first has members, and neither has campaigns."""
    snapshot = stores.snapshots.begin_manual(run(number, day=day, as_of=as_of), NOW, LEASE_SECONDS)
    snapshot_id, fence = snapshot.snapshot_id, snapshot.fence
    stores.snapshots.add_leaders(snapshot_id, fence, [uuid(1), uuid(2)])
    stores.snapshots.add_entries(
        snapshot_id,
        fence,
        [
            entry(snapshot_id, uuid(1), "members", parquet=parquet),
            entry(snapshot_id, "", "members", rows=0, parquet=parquet),
            entry(snapshot_id, "", "campaigns", rows=0, parquet=parquet),
        ],
    )
    stores.snapshots.finish(snapshot_id, fence, SnapshotState.COMPLETE, NOW, report=RunReport(rows=5))
    return snapshot
