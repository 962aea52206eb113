"""`daybreakd seat`: passwords, second factors and roles."""

import secrets
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from cyclopts import App, Parameter

from daybreak.cli.examples import examples_of
from daybreak.cli.options import AsJson, Config, settings_of
from daybreak.cli.output import is_terminal, note, say, say_json, say_table
from daybreak.domain.errors import OperatorError

if TYPE_CHECKING:
    from daybreak.domain.identity import Seat
    from daybreak.ports.state import Stores

T = TypeVar("T")
app = App(name="seat", help="Passwords, second factors and roles of seats.", help_epilogue=examples_of("seat"))
Email = Annotated[str, Parameter(help="The seat's email address.")]
ACTOR = "operator"


@app.command(name="list")
def list_seats(*, json: AsJson = False, config: Config = None) -> None:
    """List seats by email: whether each may sign in, has a password and a second factor, is an operator."""
    from daybreak.bootstrap import open_state

    with closing(open_state(settings_of(config))) as state:
        seats = state.read(lambda stores: stores.seats.list_all())
    if json:
        say_json(
            [
                {
                    "seat_id": seat.seat_id,
                    "email": seat.email,
                    "disabled": seat.disabled,
                    "password": seat.password_hash is not None,
                    "second_factor": seat.second_factor_enrolled,
                    "operator": seat.operator,
                }
                for seat in seats
            ]
        )
        return
    say_table(
        ("EMAIL", "STATE", "PASSWORD", "SECOND FACTOR", "OPERATOR", "SEAT"),
        [
            (
                seat.email,
                "disabled" if seat.disabled else "live",
                "set" if seat.password_hash is not None else "none",
                "on" if seat.second_factor_enrolled else "off",
                "yes" if seat.operator else "no",
                seat.seat_id,
            )
            for seat in seats
        ],
    )


@app.command
def set_password(email: Email, *, config: Config = None) -> None:
    """Set a password, typed twice or given on standard input. Ends all sessions of the seat."""
    from daybreak.access import operators
    from daybreak.credentials.passwords import hash_password, weakness

    _write(config, email, lambda _stores, _seat, _now: None)  # an unknown seat is said before anything is typed
    password = _new_password()
    if (fault := weakness(password, email=email)) is not None:
        raise OperatorError(f"The password is too weak: {fault}", code="weak_password")
    hashed = hash_password(password)
    ended = _write(
        config, email, lambda stores, seat, now: operators.set_password_hash(stores, seat, hashed, now, actor=ACTOR)
    )
    say(f"The password of {email} is set; {ended} sessions ended.")


@app.command
def disable(email: Email, *, config: Config = None) -> None:
    """Shut a seat out: its sessions and API tokens end at once."""
    from daybreak.access import operators

    _write(
        config, email, lambda stores, seat, now: operators.set_disabled(stores, seat, now, disabled=True, actor=ACTOR)
    )
    say(f"{email} is disabled.")


@app.command
def enable(email: Email, *, config: Config = None) -> None:
    """Let a disabled seat in again."""
    from daybreak.access import operators

    _write(
        config, email, lambda stores, seat, now: operators.set_disabled(stores, seat, now, disabled=False, actor=ACTOR)
    )
    say(f"{email} is enabled.")


@app.command
def enrol(email: Email, *, config: Config = None) -> None:
    """Set up a second factor together with the seat's owner: QR code, a code to confirm, ten recovery codes."""
    from daybreak.access import operators
    from daybreak.bootstrap import open_keyring

    keyring = open_keyring(settings_of(config)).current()
    enrolment = _write(
        config,
        email,
        lambda stores, seat, now: operators.begin_enrolment(
            stores, seat, now, keyring=keyring, random=secrets.token_bytes
        ),
    )
    if is_terminal():
        _draw_qr(enrolment.otpauth_uri)
    note(f"Scan the code, or type this key into the app: {enrolment.manual_key}")
    code = _asked("Code the app shows: ")
    codes = _write(
        config,
        email,
        lambda stores, seat, now: operators.confirm_enrolment(
            stores, seat, code, now, keyring=keyring, random=secrets.token_bytes, actor=ACTOR
        ),
    )
    note("Recovery codes, each good once; they are not shown again:")
    for each in codes:
        say(each)


@app.command
def reset_second_factor(email: Email, *, config: Config = None) -> None:
    """Take the second factor away from somebody who lost it. Ends all sessions of the seat."""
    from daybreak.access import operators

    ended = _write(
        config, email, lambda stores, seat, now: operators.reset_second_factor(stores, seat, now, actor=ACTOR)
    )
    say(f"{email} has no second factor any more; {ended} sessions ended.")


@app.command
def grant_operator(email: Email, *, config: Config = None) -> None:
    """Show the operator pages of the dashboard to a seat."""
    _set_operator(config, email, operator=True)
    say(f"{email} is an operator.")


@app.command
def revoke_operator(email: Email, *, config: Config = None) -> None:
    """Take the operator role away."""
    _set_operator(config, email, operator=False)
    say(f"{email} is no operator any more.")


def _set_operator(config: Path | None, email: str, *, operator: bool) -> None:
    from daybreak.access import operators

    _write(
        config,
        email,
        lambda stores, seat, now: operators.set_operator(stores, seat, now, operator=operator, actor=ACTOR),
    )


def _write(config: Path | None, email: str, work: "Callable[[Stores, Seat, datetime], T]") -> T:
    """Runs `work` on the seat of that email in one transaction. Raises OperatorError when there is none."""
    from daybreak.access.operators import seat_named
    from daybreak.bootstrap import now_utc, open_state

    with closing(open_state(settings_of(config))) as state:
        return state.write(lambda stores: work(stores, seat_named(stores, email), now_utc()))


def _new_password() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    from getpass import getpass

    password = getpass("New password: ")
    if password != getpass("Once more: "):
        raise OperatorError("The two differ: nothing was changed.")
    return password


def _asked(question: str) -> str:
    if sys.stdin.isatty():
        sys.stderr.write(question)
        sys.stderr.flush()
    return sys.stdin.readline().strip()


def _draw_qr(text: str) -> None:
    import segno

    segno.make(text, error="m").terminal(compact=True)
