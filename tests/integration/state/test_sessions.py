"""Sessions and devices."""

from datetime import datetime, timedelta

from daybreak.domain.identity import Device, Grant
from daybreak.state.database import Database
from daybreak.state.stores import Stores
from tests.integration.state.values import ANN, BEA, MINUTE, NOW, SEAT, account, seat, session, two_accounts, uuid

SID = uuid(0x5E55)
DEVICE = Device(uuid(0xDE), SEAT.seat_id, "curl/8", "192.0.2.7", NOW, NOW)


def one_session(stores: Stores) -> None:
    two_accounts(stores)
    stores.sessions.save_device(DEVICE)
    stores.sessions.start(session(0x5E55, SEAT.seat_id, device_id=DEVICE.device_id, amr=("pwd", "otp")))


def test_resolved_session_has_seat_account_and_grant(state: Database) -> None:
    state.write(one_session)
    resolved = state.read(lambda stores: stores.sessions.resolve(SID, ANN.client_id))
    assert resolved is not None
    assert resolved.session == session(0x5E55, SEAT.seat_id, device_id=DEVICE.device_id, amr=("pwd", "otp"))
    assert resolved.seat == SEAT
    assert resolved.account == ANN.status
    assert resolved.grant is not None
    assert resolved.grant.roles == ("owner", "admin")


def test_session_without_a_grant_has_no_account(state: Database) -> None:
    state.write(one_session)
    state.write(lambda stores: stores.directory.put_accounts(account(0xC1)))
    for client_id in (uuid(0xC1), uuid(0xFF), None, ""):
        resolved = state.read(lambda stores, it=client_id: stores.sessions.resolve(SID, it))  # type: ignore[misc]
        assert resolved is not None
        assert (resolved.account, resolved.grant, resolved.seat) == (None, None, SEAT)
    assert state.read(lambda stores: stores.sessions.resolve(uuid(1), ANN.client_id)) is None


def test_changes_are_visible_on_the_next_read(state: Database) -> None:
    state.write(one_session)
    state.write(lambda stores: stores.seats.set_disabled(SEAT.seat_id, disabled=True))
    state.write(lambda stores: stores.directory.put_accounts(account(0xA1, first_name="Ann", active=False)))
    resolved = state.read(lambda stores: stores.sessions.resolve(SID, ANN.client_id))
    assert resolved is not None
    assert resolved.seat.disabled
    assert resolved.account is not None
    assert not resolved.account.active
    state.write(lambda stores: stores.directory.remove_grants(Grant(SEAT.seat_id, ANN.client_id)))
    without_grant = state.read(lambda stores: stores.sessions.resolve(SID, ANN.client_id))
    assert without_grant is not None
    assert without_grant.account is None


def test_session_is_replaced_once(state: Database) -> None:
    state.write(two_accounts)
    waiting = session(7, SEAT.seat_id, awaiting_second_factor=True, expires_at=NOW + 10 * MINUTE)
    state.write(lambda stores: stores.sessions.start(waiting))
    assert state.read(lambda stores: stores.sessions.list_open(SEAT.seat_id, NOW)) == []

    def complete(number: int) -> bool:
        new = session(number, SEAT.seat_id, device_id=DEVICE.device_id, amr=("pwd", "otp"), last_seen_at=NOW)
        return state.write(lambda stores: stores.sessions.replace(uuid(7), new, NOW + MINUTE, "second factor"))

    assert [complete(8), complete(9)] == [True, False]
    old = state.read(lambda stores: stores.sessions.resolve(uuid(7), ANN.client_id))
    assert old is not None
    assert (old.session.ended_at, old.session.end_reason) == (NOW + MINUTE, "second factor")
    ((found, _),) = state.read(lambda stores: stores.sessions.list_open(SEAT.seat_id, NOW))
    assert found == session(8, SEAT.seat_id, device_id=DEVICE.device_id, amr=("pwd", "otp"), last_seen_at=NOW)


def test_ended_or_unknown_session_is_not_replaced(state: Database) -> None:
    state.write(two_accounts)
    state.write(lambda stores: stores.sessions.start(session(7, SEAT.seat_id, awaiting_second_factor=True)))
    state.write(lambda stores: stores.sessions.end(uuid(7), NOW, "logout"))
    for old in (uuid(7), uuid(1)):

        def replace(stores: Stores, old: str = old) -> bool:
            return stores.sessions.replace(old, session(8, SEAT.seat_id), NOW, "any")

        assert not state.write(replace)
    assert state.read(lambda stores: stores.sessions.resolve(uuid(8), None)) is None


def test_session_ends_once_and_end_all_can_keep_one(state: Database) -> None:
    state.write(two_accounts)
    state.write(lambda stores: stores.directory.put_seats(seat(2)))
    for number in (1, 2, 3):
        state.write(lambda stores, number=number: stores.sessions.start(session(number, SEAT.seat_id)))  # type: ignore[misc]
    state.write(lambda stores: stores.sessions.start(session(4, uuid(2))))
    assert state.write(lambda stores: stores.sessions.end(uuid(1), NOW, "logout"))
    assert not state.write(lambda stores: stores.sessions.end(uuid(1), NOW + MINUTE, "again"))
    assert state.write(lambda stores: stores.sessions.end_all(SEAT.seat_id, NOW, "password", keep_sid=uuid(2))) == 1
    ended = state.read(lambda stores: stores.sessions.resolve(uuid(1), None))
    assert ended is not None
    assert (ended.session.ended_at, ended.session.end_reason) == (NOW, "logout")
    still = state.read(lambda stores: stores.sessions.list_open(SEAT.seat_id, NOW))
    assert [one.sid for one, _ in still] == [uuid(2)]
    assert len(state.read(lambda stores: stores.sessions.list_open(uuid(2), NOW))) == 1


def test_every_open_session_ends_and_is_counted(state: Database) -> None:
    state.write(two_accounts)
    state.write(lambda stores: stores.directory.put_seats(seat(2), seat(3)))
    expired = session(4, uuid(3), expires_at=NOW)
    for started in (session(1, SEAT.seat_id), session(2, SEAT.seat_id), session(3, uuid(2)), expired):
        state.write(lambda stores, one=started: stores.sessions.start(one))  # type: ignore[misc]
    assert state.write(lambda stores: stores.sessions.end_all(uuid(3), NOW, "operator")) == 0
    assert state.write(lambda stores: stores.sessions.end_every(NOW, "operator")) == {SEAT.seat_id: 2, uuid(2): 1}
    assert state.write(lambda stores: stores.sessions.end_every(NOW, "operator")) == {}
    for number, reason in ((1, "operator"), (2, "operator"), (3, "operator"), (4, None)):
        found = state.read(lambda stores, number=number: stores.sessions.resolve(uuid(number), None))  # type: ignore[misc]
        assert found is not None
        assert found.session.end_reason == reason


def test_activity_is_recorded_and_unused_session_ends(state: Database) -> None:
    state.write(two_accounts)
    state.write(lambda stores: stores.sessions.start(session(1, SEAT.seat_id)))

    def last_used(stores: Stores) -> datetime:
        found = stores.sessions.resolve(uuid(1), None)
        assert found is not None
        return found.session.last_used_at

    def record(stores: Stores, at: datetime) -> datetime:
        stores.sessions.record_activity(uuid(1), at, not_after=at - MINUTE)
        return last_used(stores)

    def end(stores: Stores, since: datetime) -> bool:
        return stores.sessions.end_unused(uuid(1), NOW + 9 * MINUTE, "idle", since=since)

    assert state.write(lambda stores: record(stores, NOW + MINUTE / 2)) == NOW
    assert state.write(lambda stores: record(stores, NOW + 2 * MINUTE)) == NOW + 2 * MINUTE
    assert state.write(lambda stores: record(stores, NOW + 2.5 * MINUTE)) == NOW + 2 * MINUTE
    assert not state.write(lambda stores: end(stores, NOW + MINUTE))
    assert [state.write(lambda stores: end(stores, NOW + 2 * MINUTE)) for _ in range(2)] == [True, False]


def test_open_sessions_are_listed_with_their_devices(state: Database) -> None:
    state.write(one_session)
    state.write(
        lambda stores: stores.sessions.start(session(8, SEAT.seat_id, kind="dashboard", started_at=NOW + MINUTE))
    )
    listed = state.read(lambda stores: stores.sessions.list_open(SEAT.seat_id, NOW))
    assert [(one.sid, one.kind, device) for one, device in listed] == [
        (uuid(8), "dashboard", None),
        (SID, "api", DEVICE),
    ]
    assert state.read(lambda stores: stores.sessions.list_open(SEAT.seat_id, NOW + timedelta(days=7))) == []


def test_device_is_updated_only_by_its_own_seat(state: Database) -> None:
    state.write(one_session)
    state.write(lambda stores: stores.directory.put_seats(seat(2)))
    later = Device(DEVICE.device_id, SEAT.seat_id, "curl/9", "192.0.2.8", NOW + MINUTE, NOW + MINUTE)
    of_other_seat = Device(DEVICE.device_id, uuid(2), "other", "203.0.113.1", NOW, NOW + 2 * MINUTE)
    state.write(lambda stores: stores.sessions.save_device(later))
    state.write(lambda stores: stores.sessions.save_device(of_other_seat))
    found = state.read(lambda stores: stores.sessions.known_device(DEVICE.device_id, SEAT.seat_id, at_most=1))
    assert found == Device(DEVICE.device_id, SEAT.seat_id, "curl/9", "192.0.2.8", NOW, NOW + MINUTE)
    assert state.read(lambda stores: stores.sessions.known_device(DEVICE.device_id, uuid(2), at_most=1)) is None


def test_reauthentication_is_stored_and_ended_sessions_deleted(state: Database) -> None:
    state.write(one_session)
    state.write(lambda stores: stores.sessions.mark_reauthenticated(SID, NOW + MINUTE))
    resolved = state.read(lambda stores: stores.sessions.resolve(SID, BEA.client_id))
    assert resolved is not None
    assert resolved.session.reauthenticated_at == NOW + MINUTE
    state.write(lambda stores: stores.sessions.start(session(1, SEAT.seat_id)))
    state.write(lambda stores: stores.sessions.end(uuid(1), NOW, "logout"))
    state.write(lambda stores: stores.sessions.start(session(2, SEAT.seat_id, expires_at=NOW - MINUTE)))
    assert state.write(lambda stores: stores.sessions.delete_ended(NOW + MINUTE)) == 2
    idle = Device(uuid(0xDF), SEAT.seat_id, "old", "192.0.2.9", NOW, NOW)
    state.write(lambda stores: stores.sessions.save_device(idle))
    assert state.write(lambda stores: stores.sessions.delete_unused_devices(NOW)) == 0
    assert state.write(lambda stores: stores.sessions.delete_unused_devices(NOW + MINUTE)) == 1
    assert state.read(lambda stores: stores.sessions.known_device(DEVICE.device_id, SEAT.seat_id, at_most=1)) == DEVICE
    assert state.read(lambda stores: stores.sessions.resolve(SID, None)) is not None
