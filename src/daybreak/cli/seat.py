"""`daybreakd seat`: passwords, second factors, sessions and roles of seats."""

import secrets
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Concatenate, ParamSpec, TypeVar

from cyclopts import App, Parameter

from daybreak.access import operators, passwords
from daybreak.bootstrap import read_keyring
from daybreak.cli.options import (
    AsJson,
    Config,
    Flag,
    prompt,
    read_line,
    read_secret,
    read_state,
    settings_of,
    state_of,
)
from daybreak.cli.output import fields_of, is_terminal, print_json, print_note, print_table, print_text
from daybreak.credentials.passwords import hash_password, new_password, weakness
from daybreak.domain.clock import now_utc
from daybreak.domain.display import format_count
from daybreak.domain.errors import OperatorError, WrongUse
from daybreak.domain.identity import Seat
from daybreak.settings.text_forms import InvalidValue, parse_issuer
from daybreak.state.stores import Stores

P = ParamSpec("P")
T = TypeVar("T")
app = App(name="seat", help="Manage passwords, second factors, sessions and roles of seats.")
Email = Annotated[str, Parameter(help="The seat's email address.")]
ACTOR = "operator"


@app.command(name="list")
def list_seats(*, json: AsJson = False, config: Config = None) -> None:
    """List seats by email with their state, password, second factor, operator role and single sign-on."""
    seats, bound = read_state(config, lambda stores: (stores.seats.list_all(), stores.identities.list_all()))
    identities = {seat.seat_id: [each for each in bound if each.seat_id == seat.seat_id] for seat in seats}
    if json:
        print_json(
            [
                {
                    **fields_of(seat, "seat_id", "email", "disabled", "operator"),
                    "password": seat.password_hash is not None,
                    "second_factor": seat.second_factor_enrolled,
                    "identities": [fields_of(each, "issuer", "subject") for each in identities[seat.seat_id]],
                }
                for seat in seats
            ]
        )
        return
    print_table(
        ("EMAIL", "STATE", "PASSWORD", "SECOND FACTOR", "OPERATOR", "SINGLE SIGN-ON", "SEAT"),
        [
            (
                seat.email,
                "disabled" if seat.disabled else "live",
                "set" if seat.password_hash is not None else "none",
                "on" if seat.second_factor_enrolled else "off",
                "yes" if seat.operator else "no",
                ", ".join(each.subject for each in identities[seat.seat_id]) or "-",
                seat.seat_id,
            )
            for seat in seats
        ],
    )


@app.command
def set_password(email: Email, *, config: Config = None) -> None:
    """Set a password, entered twice or read from standard input. Ends all sessions of the seat. For other persons, use
    `reset-password`: a password that is passed on does not expire.
    """
    _write(config, email, lambda _stores, _seat: None)  # an unknown seat is reported before the prompt
    password = _new_password()
    breached = settings_of(config).access.breached_passwords
    if (fault := weakness(password, email=email, breached=breached)) is not None:
        raise OperatorError(f"The password is too weak: {fault}", code="weak_password")
    hashed = hash_password(password)
    ended = _write(config, email, operators.set_password_hash, hashed, now_utc(), actor=ACTOR)
    print_text(f"The password of {email} is set. {format_count(ended, 'session')} ended.")


@app.command
def invite(email: Email, *, config: Config = None) -> None:
    """Mail a link that sets the first password of a seat. It works once, for 7 days. Needs mail.url."""
    if not passwords.is_available(settings_of(config)):
        raise OperatorError("This service sends no mail. Set mail.url, or use `daybreakd seat reset-password`.")
    _write(config, email, operators.invite, now_utc(), actor=ACTOR)
    print_text(f"The builder will send the invitation to {email}.")


@app.command
def reset_password(email: Email, *, config: Config = None) -> None:
    """Print a link that sets a password, to pass on. It works once, for 7 days. The present password, all sessions and
    earlier links of the seat end.
    """
    settings, random = settings_of(config), secrets.token_bytes
    issue = partial(operators.issue_link, settings=settings, random=random)
    token = _write(config, email, issue, hash_password(new_password(random)), now_utc(), actor=ACTOR)
    print_text(passwords.link_url(settings, token))


@app.command
def disable(email: Email, *, config: Config = None) -> None:
    """Disable a seat. Its sessions and API tokens end immediately."""
    _write(config, email, operators.set_disabled, now_utc(), disabled=True, actor=ACTOR)
    print_text(f"{email} is disabled.")
    if settings_of(config).directory.is_synced:
        print_text("The next sync of the directory enables it, unless the platform disables it too.")


@app.command
def enable(email: Email, *, config: Config = None) -> None:
    """Enable a disabled seat."""
    _write(config, email, operators.set_disabled, now_utc(), disabled=False, actor=ACTOR)
    print_text(f"{email} is enabled.")


@app.command
def sign_out(
    email: Annotated[str | None, Parameter(help="The seat's email address.")] = None,
    *,
    every: Annotated[Flag, Parameter(name="--all", help="Sign out every seat.")] = False,
    config: Config = None,
) -> None:
    """End all sessions of a seat and its links that set a password. Its API tokens stay valid."""
    if every == (email is not None):
        raise WrongUse("Specify the email of a seat, or --all.")
    if email is not None:
        ended = _write(config, email, operators.sign_out, now_utc(), actor=ACTOR)
        print_text(f"{email} is signed out. {format_count(ended, 'session')} ended.")
        return
    with state_of(config) as state:
        by_seat = state.write(lambda stores: operators.sign_out_all(stores, now_utc(), actor=ACTOR))
    sessions = sum(by_seat.values())
    print_text(f"{format_count(len(by_seat), 'seat')} signed out. {format_count(sessions, 'session')} ended.")


@app.command
def enrol(email: Email, *, config: Config = None) -> None:
    """Set up a second factor with the seat's owner: QR code, confirmation code, ten recovery codes."""
    settings = settings_of(config)
    enrolment = _write(
        config,
        email,
        lambda stores, seat: operators.begin_enrolment(
            stores, seat, now_utc(), keyring=read_keyring(settings, stores), random=secrets.token_bytes
        ),
    )
    if is_terminal():
        import segno

        segno.make(enrolment.otpauth_uri, error="m").terminal(compact=True)
    print_note(f"Scan the QR code, or enter this key in the app: {enrolment.manual_key}")
    code = prompt("Code from the app: ")
    codes = _write(
        config,
        email,
        lambda stores, seat: operators.confirm_enrolment(
            stores,
            seat,
            code,
            now_utc(),
            # Read again: a key may have been revoked in the meantime.
            keyring=read_keyring(settings, stores),
            random=secrets.token_bytes,
            actor=ACTOR,
        ),
    )
    print_note("Recovery codes. Each works once. You won't be able to see them again:")
    for each in codes:
        print_text(each)


@app.command
def reset_second_factor(email: Email, *, config: Config = None) -> None:
    """Remove a lost second factor, recovery codes, passkeys and the operator role. Ends all sessions of the seat."""
    ended = _write(config, email, operators.reset_second_factor, now_utc(), actor=ACTOR)
    print_text(f"The second factor of {email} is removed. {format_count(ended, 'session')} ended.")


@app.command
def bind(
    email: Email,
    subject: Annotated[str, Parameter(help="The user's subject at the provider: the claim `sub` of its ID tokens.")],
    *,
    issuer: Annotated[str, Parameter(help="Issuer of the provider. Default: oidc.issuer.")] = "",
    config: Config = None,
) -> None:
    """Bind a seat to a user of the single sign-on provider, and end its sessions. Only that user can then use it."""
    configured = settings_of(config).oidc.issuer
    issuer = _parse_issuer(issuer) or configured
    if not issuer:
        raise OperatorError("oidc.issuer is not set. Set it, or pass --issuer.")
    _write(config, email, operators.bind_identity, issuer, subject, now_utc(), actor=ACTOR)
    print_text(f"{email} is bound to {subject} at {issuer}.")
    if issuer != configured:
        print_note("This user can sign in when oidc.issuer is the same text.")


@app.command
def unbind(email: Email, *, config: Config = None) -> None:
    """Remove the binding of a seat to a user of the single sign-on provider. Ends all sessions of the seat."""
    removed, ended = _write(config, email, operators.unbind_identities, now_utc(), actor=ACTOR)
    print_text(f"{email} is unbound. {format_count(ended, 'session')} ended." if removed else f"{email} was not bound.")


@app.command
def grant_operator(email: Email, *, config: Config = None) -> None:
    """Grant a seat the operator pages of the dashboard. The seat must have a second factor."""
    required = settings_of(config).access.operator_second_factor
    _write(config, email, operators.grant_operator, now_utc(), second_factor=required, actor=ACTOR)
    print_text(f"{email} is an operator.")


@app.command
def revoke_operator(email: Email, *, config: Config = None) -> None:
    """Withdraw the operator role from a seat."""
    _write(config, email, operators.withdraw_operator, now_utc(), actor=ACTOR)
    print_text(f"{email} is no longer an operator.")


def _write(
    config: Path | None, email: str, work: Callable[Concatenate[Stores, Seat, P], T], *own: P.args, **more: P.kwargs
) -> T:
    """Run `work` on the seat of an email in one transaction. Raises OperatorError for an unknown email."""
    with state_of(config) as state:
        return state.write(lambda stores: work(stores, operators.find_seat(stores, email), *own, **more))


def _parse_issuer(text: str) -> str:
    """Parse the issuer of a provider, which may be empty. Raises WrongUse."""
    try:
        return parse_issuer(text)
    except InvalidValue as fault:
        raise WrongUse(f"--issuer: {fault}") from None
    except ValueError:
        raise WrongUse("--issuer: Use the https URL of the provider, such as https://login.example.org.") from None


def _new_password() -> str:
    if not sys.stdin.isatty():
        return read_line()
    password = read_secret("New password: ")
    if password != read_secret("Repeat password: "):
        raise OperatorError("The passwords differ. Nothing was changed.")
    return password
