"""Seats, their passwords and their second factors."""

import unicodedata

from msgspec.structs import replace

from daybreak.domain.identity import InitialAccount, Seat
from daybreak.state.database import Database
from tests.integration.state.values import ANN, BEA, MINUTE, NOW, SEAT, account, seat, two_accounts, uuid


def test_seat_is_found_by_email_in_any_case(state: Database) -> None:
    state.write(lambda stores: stores.directory.put_seats(seat(1, email="Zoë@Example.org")))
    found = state.read(lambda stores: stores.seats.by_email("  ZOË@example.ORG "))
    assert found is not None
    assert found.email == "Zoë@Example.org"
    decomposed = unicodedata.normalize("NFD", "zoë@example.org")
    assert state.read(lambda stores: stores.seats.by_email(decomposed)) == found
    assert state.read(lambda stores: stores.seats.by_email("zoe@example.org")) is None
    assert state.read(lambda stores: stores.seats.by_id(uuid(1))) == found
    assert state.read(lambda stores: stores.seats.by_id(uuid(2))) is None


def test_accounts_of_a_seat_are_ordered_by_name(state: Database) -> None:
    state.write(two_accounts)
    state.write(lambda stores: stores.directory.put_accounts(account(0xB1, first_name="bea", active=False)))
    reached = state.read(lambda stores: stores.seats.granted_accounts(SEAT.seat_id))
    assert [reach.account.client_id for reach in reached] == [ANN.client_id, BEA.client_id]
    assert reached[0].account == ANN
    assert (reached[0].grant.roles, reached[0].grant.data_export) == (("owner", "admin"), True)
    assert (reached[1].account.active, reached[1].grant.async_rest_api) == (False, True)
    assert state.read(lambda stores: stores.seats.granted_accounts(uuid(99))) == []
    for granted in reached:
        client_id = granted.account.client_id
        assert state.read(lambda stores, of=client_id: stores.seats.granted_account(SEAT.seat_id, of)) == granted  # type: ignore[misc]
        holders = state.read(lambda stores, of=client_id: stores.seats.list_on_account(of))  # type: ignore[misc]
        assert holders == [(SEAT, granted.grant)]
    assert state.read(lambda stores: stores.seats.granted_account(SEAT.seat_id, uuid(99))) is None


def test_login_starts_on_last_used_or_first_active_account(state: Database) -> None:
    def landing(of: Seat = SEAT) -> InitialAccount | None:
        return state.read(lambda stores: stores.seats.initial_account(of))

    state.write(two_accounts)
    assert state.read(lambda stores: stores.seats.count_granted_accounts(SEAT.seat_id)) == 2
    assert landing() == InitialAccount(ANN.client_id, second_factor_required=True)
    last = replace(SEAT, last_client_id=BEA.client_id)
    assert landing(last) == InitialAccount(BEA.client_id, second_factor_required=True)
    assert landing(replace(SEAT, last_client_id=uuid(9))) == landing()
    state.write(lambda stores: stores.directory.put_accounts(replace(BEA, active=False)))
    assert landing(last) == InitialAccount(ANN.client_id, second_factor_required=False)
    state.write(lambda stores: stores.directory.put_accounts(replace(ANN, active=False)))
    assert landing(last) is None
    assert landing(seat(3)) is None


def test_changes_of_a_seat_are_stored(state: Database) -> None:
    state.write(two_accounts)
    state.write(lambda stores: stores.seats.set_password_hash(SEAT.seat_id, "another"))
    state.write(lambda stores: stores.seats.set_disabled(SEAT.seat_id, disabled=True))
    state.write(lambda stores: stores.seats.set_operator(SEAT.seat_id, operator=True))
    state.write(lambda stores: stores.seats.set_last_client(SEAT.seat_id, BEA.client_id))
    found = state.read(lambda stores: stores.seats.list_all())[0]
    assert (found.password_hash, found.disabled, found.operator, found.last_client_id) == (
        "another", True, True, BEA.client_id,
    )  # fmt: skip


def test_second_factor_is_enrolled_when_confirmed(state: Database) -> None:
    state.write(two_accounts)
    assert not state.write(lambda stores: stores.seats.confirm_second_factor(SEAT.seat_id, 5, ["r1"], NOW))
    state.write(lambda stores: stores.seats.begin_second_factor(SEAT.seat_id, "sealed", NOW))
    assert state.read(lambda stores: stores.seats.sealed_seed(SEAT.seat_id)) is None
    assert state.read(lambda stores: stores.seats.pending_seed(SEAT.seat_id)) == "sealed"
    assert state.write(lambda stores: stores.seats.confirm_second_factor(SEAT.seat_id, 5, ["r1", "r2"], NOW))
    assert state.read(lambda stores: stores.seats.sealed_seed(SEAT.seat_id)) == "sealed"
    assert state.read(lambda stores: stores.seats.pending_seed(SEAT.seat_id)) is None
    assert state.read(lambda stores: stores.seats.by_id(SEAT.seat_id)).second_factor_enrolled  # type: ignore[union-attr]
    assert state.read(lambda stores: stores.seats.recovery_codes_left(SEAT.seat_id)) == 2


def test_step_is_accepted_once_and_earlier_steps_never(state: Database) -> None:
    state.write(two_accounts)
    assert not state.write(lambda stores: stores.seats.use_step(SEAT.seat_id, 5)), "no second factor is enrolled"
    state.write(lambda stores: stores.seats.begin_second_factor(SEAT.seat_id, "sealed", NOW))
    state.write(lambda stores: stores.seats.confirm_second_factor(SEAT.seat_id, 5, [], NOW))
    answers = [
        state.write(lambda stores, step=step: stores.seats.use_step(SEAT.seat_id, step))  # type: ignore[misc]
        for step in (5, 6, 6, 5, 7)
    ]
    assert answers == [False, True, False, False, True]


def test_recovery_code_works_once_and_not_after_a_reset(state: Database) -> None:
    state.write(two_accounts)
    state.write(lambda stores: stores.seats.replace_recovery_codes(SEAT.seat_id, ["old"]))
    state.write(lambda stores: stores.seats.replace_recovery_codes(SEAT.seat_id, ["r1", "r2"]))
    answers = [
        state.write(lambda stores, code=code: stores.seats.use_recovery_code(SEAT.seat_id, code, NOW))  # type: ignore[misc]
        for code in ("old", "r1", "r1")
    ]
    assert answers == [False, True, False]
    assert state.read(lambda stores: stores.seats.recovery_codes_left(SEAT.seat_id)) == 1
    state.write(lambda stores: stores.seats.begin_second_factor(SEAT.seat_id, "sealed", NOW))
    state.write(lambda stores: stores.seats.confirm_second_factor(SEAT.seat_id, 9, ["r3"], NOW))
    state.write(lambda stores: stores.seats.reset_second_factor(SEAT.seat_id))
    assert state.read(lambda stores: stores.seats.sealed_seed(SEAT.seat_id)) is None
    assert state.read(lambda stores: stores.seats.recovery_codes_left(SEAT.seat_id)) == 0


def test_used_step_is_refused_after_a_reset(state: Database) -> None:
    state.write(two_accounts)
    state.write(lambda stores: stores.seats.begin_second_factor(SEAT.seat_id, "one", NOW))
    state.write(lambda stores: stores.seats.confirm_second_factor(SEAT.seat_id, 9, [], NOW))
    state.write(lambda stores: stores.seats.reset_second_factor(SEAT.seat_id))
    state.write(lambda stores: stores.seats.begin_second_factor(SEAT.seat_id, "two", NOW + MINUTE))
    assert not state.write(lambda stores: stores.seats.use_step(SEAT.seat_id, 9))


def test_seeds_are_resealed_after_a_key_change(state: Database) -> None:
    for number, seed in ((1, "k1:one"), (2, "k2:two"), (3, "k1:three")):
        state.write(lambda stores, number=number: stores.directory.put_seats(seat(number)))  # type: ignore[misc]
        state.write(lambda stores, number=number, seed=seed: stores.seats.begin_second_factor(uuid(number), seed, NOW))  # type: ignore[misc]
    state.write(lambda stores: stores.seats.confirm_second_factor(uuid(1), 1, [], NOW))

    def reseal(seat_id: str, seed: str) -> str | None:
        assert seat_id.endswith("0000")
        return seed.replace("k1:", "k2:") if seed.startswith("k1:") else None

    assert state.write(lambda stores: stores.seats.reseal_seeds(reseal)) == 2
    assert state.read(lambda stores: stores.seats.sealed_seed(uuid(1))) == "k2:one"
    assert state.read(lambda stores: stores.seats.pending_seed(uuid(2))) == "k2:two"
    assert state.read(lambda stores: stores.seats.pending_seed(uuid(3))) == "k2:three"
