"""The end of a seat's credentials: sessions, and links that set a password, for every reason."""

import json
from collections.abc import Callable, Coroutine
from functools import partial

import pytest
from msgspec.structs import replace as replace_struct

from daybreak.access import operators, passwords, sessions
from daybreak.access.directory.changes import apply_changes, compare_directories
from daybreak.access.directory.document import import_document
from daybreak.access.services import Services
from daybreak.credentials import totp
from daybreak.domain.errors import OperatorError, Unauthenticated
from daybreak.domain.events import EventType
from daybreak.domain.identity import Seat
from daybreak.state.directory import Directory
from daybreak.state.stores import Stores
from tests.configured import configured
from tests.unit.access.instance import CALLER, PASSWORD, ROSA, Instance

NEW = "copper kettle over seven hills"
INVITED, REQUESTED = EventType.SEAT_INVITED, EventType.PASSWORD_RESET_REQUESTED


def link(instance: Instance, type_: EventType = REQUESTED) -> str:
    """Create the token of a link, as the deliverer does."""
    seat, now = instance.seat(ROSA), instance.now[0]
    token, reset = passwords.create_reset(seat, type_, now, now, instance.services.random)
    instance.write(lambda stores: stores.password_resets.replace(reset))
    return token


def put_seat(**changes: object) -> Callable[[Instance], object]:
    """Return a synchronization with a directory in which these fields of the seat differ."""

    def work(instance: Instance) -> None:
        def write(stores: Stores) -> None:
            known = stores.directory.load()
            seats = tuple(replace_struct(s, **changes) if s.seat_id == ROSA else s for s in known.seats)
            wanted = Directory(known.accounts, seats, known.grants)
            apply_changes(stores, compare_directories(known, wanted, complete=True), instance.now[0], "service")

        instance.write(write)

    return work


def remove_seat(instance: Instance) -> None:
    def write(stores: Stores) -> None:
        known = stores.directory.load()
        wanted = Directory(known.accounts, tuple(s for s in known.seats if s.seat_id != ROSA), ())
        apply_changes(stores, compare_directories(known, wanted, complete=True), instance.now[0], "service")

    instance.write(write)


def by_operator(action: Callable[..., object], *arguments: object, **more: object) -> Callable[[Instance], object]:
    def work(instance: Instance) -> object:
        seat, now = instance.seat(ROSA), instance.now[0]
        return instance.write(lambda stores: action(stores, seat, *arguments, now, actor="operator", **more))

    return work


def sign_out_all(instance: Instance) -> object:
    return instance.write(lambda stores: operators.sign_out_all(stores, instance.now[0], actor="operator"))


def disable_and_enable(instance: Instance) -> None:
    by_operator(operators.set_disabled, disabled=True)(instance)
    by_operator(operators.set_disabled, disabled=False)(instance)


def import_password(instance: Instance) -> None:
    seat = {"seat_id": ROSA, "email": "rosa@example.org", "password": NEW, "access": []}
    import_document(instance.state, json.dumps({"accounts": [], "seats": [seat]}), instance.now[0])


async def use_other_link(instance: Instance) -> None:
    token = link(instance)
    await passwords.reset_password(instance.services, token, NEW, CALLER)


def issue_link(instance: Instance, seat: Seat | None = None, **oidc: bool) -> str:
    random, issued_to = instance.services.random, seat or instance.seat(ROSA)
    settings = configured(instance.services.settings, oidc=oidc)
    issue = partial(operators.issue_link, settings=settings, random=random, actor="operator")
    return instance.write(lambda stores: issue(stores, issued_to, "$argon2id$unknown", instance.now[0]))


REASONS = {
    "address corrected by the directory": put_seat(email="rosa.new@example.org"),
    "seat disabled by the directory": put_seat(disabled=True),
    "seat left the directory": remove_seat,
    "password changed by the directory": put_seat(password_hash="$argon2id$other"),
    "password changed by an import": import_password,
    "seat disabled": by_operator(operators.set_disabled, disabled=True),
    "seat disabled and enabled": disable_and_enable,
    "signed out by an operator": by_operator(operators.sign_out),
    "every seat signed out": sign_out_all,
    "bound to single sign-on": by_operator(operators.bind_identity, "https://login.example.org", "7"),
    "link issued by an operator": issue_link,
    "password set by an operator": by_operator(operators.set_password_hash, "$argon2id$other"),
    "second factor reset": by_operator(operators.reset_second_factor),
    "password reset by another link": use_other_link,
}


@pytest.mark.parametrize("name", REASONS)
@pytest.mark.parametrize("type_", [REQUESTED, INVITED])
async def test_sessions_and_links_end_together(
    instance: Instance, services: Services, name: str, type_: EventType
) -> None:
    started, token = await instance.log_in(), link(instance, type_)
    instance.advance(seconds=1)
    ending = REASONS[name](instance)
    if isinstance(ending, Coroutine):
        await ending
    assert not await passwords.seat_of_link(services, token)
    with pytest.raises(Unauthenticated):
        await passwords.reset_password(services, token, "other words over nine rivers", CALLER)
    with pytest.raises(Unauthenticated):
        await sessions.authenticate(services, started.token)


@pytest.mark.parametrize("name", ["password", "sign-out"])
async def test_changes_by_the_owner_keep_one_session(instance: Instance, services: Services, name: str) -> None:
    other, own = await instance.log_in(), await instance.log_in()
    token = link(instance)
    instance.advance(seconds=1)
    active = await sessions.active_session(services, own.token)
    if name == "password":
        await passwords.change_own(services, active, current=PASSWORD, new=NEW, caller=CALLER)
    else:
        await sessions.end_others(services, active, CALLER)
    assert not await passwords.seat_of_link(services, token)
    with pytest.raises(Unauthenticated):
        await sessions.authenticate(services, other.token)
    await sessions.authenticate(services, own.token)


async def test_link_of_an_operator_replaces_password_and_links(instance: Instance) -> None:
    """It needs no mail."""
    assert not instance.services.settings.mail.enabled
    first, second = issue_link(instance), issue_link(instance)
    assert await passwords.seat_of_link(instance.services, first) is None
    with pytest.raises(Unauthenticated):
        await instance.log_in()
    instance.advance(seconds=7 * 86_400 - 1)
    await passwords.reset_password(instance.services, second, NEW, CALLER)
    assert await passwords.seat_of_link(instance.services, second) is None
    third = issue_link(instance)
    instance.advance(seconds=7 * 86_400)
    assert await passwords.seat_of_link(instance.services, third) is None


def test_seat_of_single_sign_on_receives_no_link(instance: Instance) -> None:
    by_operator(operators.bind_identity, "https://login.example.org", "7")(instance)
    seat = replace_struct(instance.seat(ROSA), password_hash=None)
    with pytest.raises(OperatorError, match="single sign-on"):
        issue_link(instance, seat)


def test_no_link_is_issued_while_passwords_are_off(instance: Instance) -> None:
    with pytest.raises(OperatorError, match="Passwords are off"):
        issue_link(instance, password_login=False)


def test_disabled_seat_receives_no_link(instance: Instance) -> None:
    by_operator(operators.set_disabled, disabled=True)(instance)
    with pytest.raises(OperatorError, match="Enable the seat first"):
        issue_link(instance)


async def test_request_that_waits_in_the_outbox_ends_too(instance: Instance, services: Services) -> None:
    requested_at = instance.now[0]
    instance.advance(seconds=1)
    by_operator(operators.sign_out)(instance)
    instance.advance(seconds=1)
    seat = instance.seat(ROSA)
    token, reset = passwords.create_reset(seat, INVITED, requested_at, instance.now[0], services.random)
    instance.write(lambda stores: stores.password_resets.replace(reset))
    assert not await passwords.seat_of_link(services, token)
    assert instance.state.read(lambda stores: stores.seats.links_ended(ROSA, since=requested_at))
    assert not instance.state.read(lambda stores: stores.seats.links_ended(ROSA, since=instance.now[0]))


async def test_link_is_bound_to_its_address(instance: Instance, services: Services) -> None:
    token = link(instance)
    instance.advance(seconds=1)
    put_seat(email="Rosa@Example.org")(instance)
    assert await passwords.seat_of_link(services, token) is not None
    seat = Seat(ROSA, "other@example.org")
    instance.write(lambda stores: stores.directory.put_seats(seat))  # without end_credentials
    assert not await passwords.seat_of_link(services, token)


async def test_reset_request_keeps_the_invitation(instance: Instance, services: Services) -> None:
    invitation, reset = link(instance, INVITED), link(instance)
    instance.advance(hours=1)
    assert not await passwords.seat_of_link(services, reset)
    link(instance)
    instance.advance(days=6)
    assert await passwords.seat_of_link(services, invitation)


async def test_enrolment_by_an_operator_keeps_the_invitation(instance: Instance, services: Services) -> None:
    invitation = link(instance, INVITED)
    instance.advance(seconds=1)
    seat, now, ring = instance.seat(ROSA), instance.now[0], services.keyring.current()

    def enrol(stores: Stores) -> None:
        operators.begin_enrolment(stores, seat, now, keyring=ring, random=services.random)
        code = instance.code(_seed(stores, services))
        operators.confirm_enrolment(stores, seat, code, now, keyring=ring, random=services.random, actor="operator")

    instance.write(enrol)
    assert await passwords.seat_of_link(services, invitation)


async def test_change_of_case_keeps_sessions(instance: Instance, services: Services) -> None:
    started = await instance.log_in()
    put_seat(email="Rosa@example.org")(instance)
    await sessions.authenticate(services, started.token)


def _seed(stores: Stores, services: Services) -> bytes:
    sealed = stores.seats.pending_seed(ROSA)
    assert sealed is not None
    return totp.decrypt_seed(sealed, seat_id=ROSA, keyring=services.keyring.current())
