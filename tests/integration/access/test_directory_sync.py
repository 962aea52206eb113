"""Synchronization with a platform: addresses that move, invalid rows, few seats, and its status."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from daybreak.access.directory.document import import_document
from daybreak.access.directory.sync import DirectorySync
from daybreak.domain.errors import OperatorError, SourceError
from daybreak.domain.events import EventType
from daybreak.domain.identity import Seat
from daybreak.settings import DirectorySettings
from daybreak.state.database import open_state
from daybreak.state.stores import State
from tests.parts.migrated import create_migrated

NOW = datetime(2026, 11, 20, 3, tzinfo=UTC)
SETTINGS = DirectorySettings(accounts="accounts", seats="seats", access="access")
ACCOUNT = {"client_id": "a0000000-0000-4000-8000-000000000001", "first_name": "An", "last_name": "Account",
           "phone_number": "+15550100000", "phone_number_type": "long_code"}  # fmt: skip


def seat_id(number: int) -> str:
    return f"b0000000-0000-4000-8000-{number:012}"


class Platform:
    """A `DirectorySource` with rows to change."""

    def __init__(self, *emails: str) -> None:
        self.accounts: list[dict[str, object]] = [dict(ACCOUNT)]
        self.seats = dict(enumerate(emails, 1))
        self.more_seats: list[dict[str, object]] = []
        self.grants: list[dict[str, object]] | None = None
        self.failure: str | None = None

    def query(self, sql: str) -> list[dict[str, object]]:
        if self.failure is not None:
            raise SourceError(self.failure)
        if sql == "accounts":
            return self.accounts
        if sql == "seats":
            listed: list[dict[str, object]] = [{"seat_id": seat_id(n), "email": e} for n, e in self.seats.items()]
            return listed + self.more_seats
        if self.grants is not None:
            return self.grants
        return [
            {"seat_id": seat_id(number), "client_id": ACCOUNT["client_id"], "roles": "admin", "data_export": True}
            for number in self.seats
        ]


@pytest.fixture(params=["sqlite", "postgresql"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[State]:
    sqlite = f"sqlite:///{tmp_path}/state.db"
    url = sqlite if request.param == "sqlite" else request.getfixturevalue("migrated_postgresql_url")
    create_migrated(url)
    found = open_state(url)
    yield found
    found.close()


Sync = Callable[..., list[str]]


@pytest.fixture
def platform() -> Platform:
    return Platform("ana@x.example", "bo@x.example", "cy@x.example")


@pytest.fixture
def sync(state: State, platform: Platform) -> Sync:
    """Synchronize at an instant, and return the faults."""

    def run(at: datetime = NOW, **options: Any) -> list[str]:
        return DirectorySync(SETTINGS, platform, state, lambda: at).run(actor="service", **options)[1]

    assert run() == []
    return run


def seats(state: State) -> dict[int, Seat]:
    found = state.read(lambda stores: stores.seats.list_all())
    return {int(seat.seat_id[-3:]): seat for seat in found}


@pytest.mark.parametrize(
    "emails",
    [
        {1: "bo@x.example", 2: "ana@x.example", 3: "cy@x.example"},
        {1: "bo@x.example", 2: "cy@x.example", 3: "ana@x.example"},
        {1: "BO@X.example", 2: "bo2@x.example", 3: "cy@x.example"},
        {4: "ana@x.example", 2: "bo@x.example", 3: "cy@x.example"},
        {4: "bo@x.example", 1: "cy@x.example", 5: "ana@x.example"},
    ],
    ids=["swap", "ring", "other case", "address of a former seat", "all at the same time"],
)
def test_emails_move_between_seats(state: State, platform: Platform, sync: Sync, emails: dict[int, str]) -> None:
    platform.seats = emails
    assert sync() == []
    found = seats(state)
    assert {number: found[number].email for number in emails} == emails
    former = {1, 2, 3} - emails.keys()
    assert all(found[number].disabled for number in former)
    assert not any(found[number].disabled for number in emails)
    assert state.read(lambda stores: stores.seats.by_email("ANA@x.example")) == next(
        (found[number] for number, email in emails.items() if email == "ana@x.example"), None
    )
    assert sync() == []


def test_former_seat_returns_with_its_email(state: State, platform: Platform, sync: Sync) -> None:
    platform.seats = {4: "ana@x.example", 2: "bo@x.example", 3: "cy@x.example"}
    sync()
    platform.seats = {1: "ana@x.example", 2: "bo@x.example", 3: "cy@x.example"}
    assert sync() == []
    assert (seats(state)[1].email, seats(state)[1].disabled) == ("ana@x.example", False)
    assert seats(state)[4].disabled


BAD_ROWS: list[dict[str, object]] = [
    {"seat_id": seat_id(2), "email": "bo2@x.example"},
    {"seat_id": seat_id(7), "email": "nobody"},
    {"seat_id": seat_id(7), "email": None},
    {"seat_id": "nonsense", "email": "x@x.example"},
    {"seat_id": None, "email": "x@x.example"},
    {"seat_id": seat_id(7), "email": "BO@x.example"},
    {"seat_id": seat_id(7), "email": "x@x.example", "disabled": "maybe"},
]


@pytest.mark.parametrize("row", BAD_ROWS)
def test_invalid_row_does_not_stop_a_deactivation(
    state: State, platform: Platform, sync: Sync, row: dict[str, object]
) -> None:
    del platform.seats[1]
    platform.more_seats = [row]
    faults = sync()
    assert faults
    found = seats(state)
    assert found[1].disabled
    assert not found[2].disabled
    assert (found[2].email, 7 in found) == ("bo@x.example", False)
    assert not any("x.example" in fault or "nobody" in fault for fault in faults)
    status = state.read(lambda stores: stores.directory.sync_status())
    assert status is not None
    assert (status.failing_since, status.succeeded_at) == (NOW, NOW)


def test_invalid_grant_stays_and_others_are_removed(state: State, platform: Platform, sync: Sync) -> None:
    grant = {"client_id": ACCOUNT["client_id"], "roles": "admin", "data_export": True}
    platform.grants = [
        {**grant, "seat_id": seat_id(1), "roles": "king"},
        {**grant, "seat_id": seat_id(9)},
        {**grant, "seat_id": seat_id(3), "client_id": seat_id(3)},
    ]
    faults = sync()
    assert len(faults) == 3
    assert seat_id(1) in faults[0]
    left = state.read(lambda stores: stores.directory.load()).grants
    assert [(grant.seat_id, grant.roles) for grant in left] == [(seat_id(1), ("admin",))]


def test_few_removals_are_always_allowed(state: State, platform: Platform, sync: Sync) -> None:
    platform.seats = {number: f"p{number}@x.example" for number in range(1, 10)}
    sync()
    del platform.seats[9]
    assert sync() == []
    assert seats(state)[9].disabled
    platform.seats = {}
    with pytest.raises(OperatorError, match="8 of 8 seats"):
        sync()
    assert not seats(state)[1].disabled


def test_failing_sync_is_an_event_after_a_day(state: State, platform: Platform, sync: Sync) -> None:
    platform.failure = "The platform does not answer."

    def event_at(hours: int) -> bool:
        with pytest.raises(SourceError):
            sync(NOW + timedelta(hours=hours))
        return state.read(lambda stores: stores.outbox.latest(EventType.DIRECTORY_FAILING)) is not None

    assert [event_at(hours) for hours in (1, 20, 24, 25, 40)] == [False, False, False, True, True]
    status = state.read(lambda stores: stores.directory.sync_status())
    assert status is not None
    assert (status.failing_since, status.succeeded_at) == (NOW + timedelta(hours=1), NOW)
    assert "does not answer" in (status.reason or "")
    platform.failure = None
    assert sync(NOW + timedelta(hours=41)) == []
    status = state.read(lambda stores: stores.directory.sync_status())
    assert status is not None
    assert status.failing_since is None


def test_dry_run_records_nothing(state: State, platform: Platform, sync: Sync) -> None:
    del platform.seats[1]
    sync(NOW + timedelta(hours=1), dry_run=True)
    status = state.read(lambda stores: stores.directory.sync_status())
    assert status is not None
    assert status.attempted_at == NOW
    assert not seats(state)[1].disabled


def test_imported_seat_may_have_an_existing_account_and_no_taken_email(state: State, sync: Sync) -> None:
    del sync
    access = [{"client_id": ACCOUNT["client_id"], "roles": ["analyst"]}]
    document = '{{"accounts": [], "seats": [{{"seat_id": "{}", "email": "{}", "access": {}}}]}}'
    text = document.format(seat_id(8), "di@x.example", str(access).replace("'", '"'))
    assert [change.entry.email for change in import_document(state, text, NOW).seats] == ["di@x.example"]
    with pytest.raises(OperatorError, match=rf"cannot have the email of seat {seat_id(1)}"):
        import_document(state, document.format(seat_id(9), "ANA@x.example", "[]"), NOW)
