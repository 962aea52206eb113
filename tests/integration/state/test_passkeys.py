"""Passkeys and their challenges."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from msgspec.structs import replace

from daybreak.domain.identity import Passkey
from daybreak.state.database import Database
from daybreak.state.stores import Stores
from tests.integration.state.values import MINUTE, NOW, SEAT, seat, session, two_accounts, uuid
from tests.parts.waiting import PATIENT_SECONDS

OTHER = seat(0x52)
SID = uuid(7)
LAPTOP = Passkey("bGFwdG9w", SEAT.seat_id, "a2V5", 5, "laptop 🌅", NOW)
PHONE = Passkey("cGhvbmU", SEAT.seat_id, "a2V5", 0, "phone", NOW + MINUTE)


def fill(stores: Stores) -> None:
    two_accounts(stores)
    stores.directory.put_seats(OTHER)
    stores.sessions.start(session(7, SEAT.seat_id))
    stores.passkeys.add(PHONE)
    stores.passkeys.add(LAPTOP)


def passkeys_of(state: Database, seat_id: str = SEAT.seat_id) -> list[Passkey]:
    return state.read(lambda stores: stores.passkeys.list_for(seat_id))


def test_passkeys_are_listed_oldest_first(state: Database) -> None:
    state.write(fill)
    assert passkeys_of(state) == [LAPTOP, PHONE]
    assert passkeys_of(state, OTHER.seat_id) == []
    assert state.read(lambda stores: stores.passkeys.find(PHONE.credential_id, SEAT.seat_id)) == PHONE
    assert state.read(lambda stores: stores.passkeys.find(PHONE.credential_id, OTHER.seat_id)) is None


async def test_credential_id_is_stored_once(state: Database) -> None:
    state.write(fill)
    again, new = replace(LAPTOP, seat_id=OTHER.seat_id), replace(LAPTOP, credential_id="bmV3")
    for passkey, added in ((LAPTOP, False), (again, False), (new, True)):
        assert state.write(lambda stores, it=passkey: stores.passkeys.add(it)) is added  # type: ignore[misc]

    async def add_both() -> list[bool]:
        try:
            return [
                await state.awrite(lambda stores: stores.passkeys.add(LAPTOP)),
                await state.awrite(lambda stores: stores.passkeys.add(replace(LAPTOP, credential_id="bmV3ZXI"))),
            ]
        finally:
            await state.aclose()

    assert await add_both() == [False, True]


def test_counter_must_increase_unless_it_is_zero(state: Database) -> None:
    state.write(fill)
    later = NOW + MINUTE

    def used(passkey: Passkey, sign_count: int) -> bool:
        signed = replace(passkey, sign_count=sign_count)
        return state.write(lambda stores: stores.passkeys.record_use(signed, later))

    for count, accepted in ((5, False), (4, False), (0, False), (6, True), (6, False), (2**32 - 1, True)):
        assert used(LAPTOP, count) is accepted
    for count, accepted in ((0, True), (0, True), (1, True), (0, False)):
        assert used(PHONE, count) is accepted
    assert passkeys_of(state) == [
        replace(LAPTOP, sign_count=2**32 - 1, last_used_at=later),
        replace(PHONE, sign_count=1, last_used_at=later),
    ]


def test_passkeys_change_for_their_seat_only(state: Database) -> None:
    state.write(fill)
    foreign = replace(LAPTOP, seat_id=OTHER.seat_id, sign_count=9)
    assert not state.write(lambda stores: stores.passkeys.rename(foreign, "mine"))
    assert not state.write(lambda stores: stores.passkeys.record_use(foreign, NOW))
    assert not state.write(lambda stores: stores.passkeys.remove(foreign))
    assert passkeys_of(state) == [LAPTOP, PHONE]
    assert state.write(lambda stores: stores.passkeys.rename(LAPTOP, "old laptop"))
    assert state.write(lambda stores: stores.passkeys.remove(PHONE))
    assert not state.write(lambda stores: stores.passkeys.remove(PHONE))
    assert passkeys_of(state) == [replace(LAPTOP, name="old laptop")]


def test_reset_of_the_second_factor_removes_passkeys(state: Database) -> None:
    state.write(fill)
    state.write(lambda stores: stores.passkeys.add(replace(LAPTOP, credential_id="b3RoZXI", seat_id=OTHER.seat_id)))
    state.write(lambda stores: stores.seats.reset_second_factor(SEAT.seat_id))
    assert passkeys_of(state) == []
    assert len(passkeys_of(state, OTHER.seat_id)) == 1


def test_challenge_is_taken_once(state: Database) -> None:
    state.write(fill)
    state.write(lambda stores: stores.passkeys.set_challenge(SID, "0a", NOW + MINUTE))
    state.write(lambda stores: stores.passkeys.set_challenge(SID, "0b", NOW + MINUTE))

    def take(stores: Stores) -> str | None:
        return stores.passkeys.take_challenge(SID, NOW)

    assert [state.write(take), state.write(take)] == ["0b", None]
    assert state.write(lambda stores: stores.passkeys.take_challenge(uuid(8), NOW)) is None


def test_expired_challenge_is_not_returned(state: Database) -> None:
    state.write(fill)
    for age, expected in ((timedelta(seconds=59), "0a"), (MINUTE, None), (timedelta(days=1), None)):
        state.write(lambda stores: stores.passkeys.set_challenge(SID, "0a", NOW + MINUTE))
        assert state.write(lambda stores, it=age: stores.passkeys.take_challenge(SID, NOW + it)) == expected  # type: ignore[misc]


def test_parallel_transactions_take_a_challenge_once(
    migrated_postgresql_url: str, open_database: Callable[[str], Database]
) -> None:
    # SQLite runs one write transaction at a time.
    state, count = open_database(migrated_postgresql_url), 6
    state.write(fill)
    barrier = threading.Barrier(count, timeout=PATIENT_SECONDS)

    def take(stores: Stores) -> str | None:
        assert stores.seats.by_id(SEAT.seat_id) is not None
        barrier.wait()
        return stores.passkeys.take_challenge(SID, NOW)

    with ThreadPoolExecutor(count) as pool:
        for _ in range(10):
            state.write(lambda stores: stores.passkeys.set_challenge(SID, "0a", NOW + MINUTE))
            taken = list(pool.map(lambda _: state.write(take), range(count)))
            assert sorted(taken, key=str) == ["0a", *[None] * (count - 1)]
