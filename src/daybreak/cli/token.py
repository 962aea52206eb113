"""`daybreakd token`: API tokens."""

import os
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from daybreak.access import api_tokens, operators
from daybreak.access.authorization import parse_networks
from daybreak.cli.options import AsJson, Config, Flag, parse_client_id, parse_expiry, read_state, state_of
from daybreak.cli.output import fields_of, format_instant, print_json, print_note, print_table, print_text
from daybreak.domain.clock import now_utc
from daybreak.domain.errors import OperatorError, WrongUse
from daybreak.domain.identity import ApiToken, GrantedAccount, Seat
from daybreak.domain.operator_file import MAX_DOCUMENT_BYTES, read_bounded
from daybreak.state.stores import State

AllowedNetworks = Annotated[
    tuple[str, ...],
    Parameter(
        negative="",
        help="Address or network in CIDR form, such as 203.0.113.0/24, that its requests must come from. Repeat it for "
        "more. Default: any address.",
    ),
]
app = App(name="token", help="Manage API tokens.")


@app.command
def create(
    *,
    seat: Annotated[str, Parameter(help="Email of the seat that the token belongs to.")],
    account: Annotated[str, Parameter(help="client_id of the account that it gives access to.")],
    name: Annotated[str, Parameter(help="Name of the token.")] = "created by the operator",
    expires: Annotated[str | None, Parameter(help="Lifetime, such as 90d. Default: no expiry.")] = None,
    serve_gzip_as: Annotated[
        Literal["file", "encoding"] | None,
        Parameter(
            help='How its links send gzip files: "encoding" sends the text, compressed in transfer, to a program that '
            "does not decompress files. Default: files.serve_gzip_as."
        ),
    ] = None,
    allow: AllowedNetworks = (),
    config: Config = None,
) -> None:
    """Create an API token and print it. It cannot be shown again."""
    now = now_utc()
    expires_at = parse_expiry(expires, "--expires", now) if expires is not None else None
    networks = parse_networks(allow)
    with state_of(config) as state:
        owner = state.read(lambda stores: operators.find_seat(stores, seat))
        granted = state.read(lambda stores: stores.seats.granted_account(owner.seat_id, account.lower()))
        if granted is None:
            raise OperatorError(f"{seat} has no access to the account {account}. See `daybreakd directory export`.")
        _require_usable(granted, owner)
        options = api_tokens.TokenOptions(name, expires_at, serve_gzip_as, networks)
        created = api_tokens.new_token(owner, granted.account.client_id, options, now=now, random=os.urandom)
        state.write(lambda stores: operators.add_token(stores, created.token, now, actor="operator"))
    print_note(f"{created.token.token_id} for {granted.account.name}. You won't be able to see the token again:")
    print_text(created.secret)


@app.command
def change(
    token_id: Annotated[str, Parameter(help="Id of the token, as in `token list`.")],
    *,
    name: Annotated[str | None, Parameter(help="New name.")] = None,
    allow: AllowedNetworks = (),
    allow_any: Annotated[Flag, Parameter(help="Allow requests from every address.")] = False,
    config: Config = None,
) -> None:
    """Rename a token, or replace the addresses that its requests must come from. Its secret stays valid."""
    if (allow and allow_any) or not (allow or allow_any or name is not None):
        raise WrongUse("Specify --name, and either --allow or --allow-any.")
    networks = parse_networks(allow)
    with state_of(config) as state:
        token = _find(state, token_id)
        state.write(
            lambda stores: operators.change_token(
                stores,
                token,
                now_utc(),
                name=token.name if name is None else name,
                allowed_networks=networks if allow or allow_any else token.allowed_networks,
                actor="operator",
            )
        )
    print_text(f"{token_id} is changed.")


@app.command(name="list")
def list_(
    *,
    seat: Annotated[str | None, Parameter(help="Only tokens of this seat (email).")] = None,
    account: Annotated[str | None, Parameter(help="Only tokens on this account (client_id).")] = None,
    expiring: Annotated[
        str | None, Parameter(help="Only live tokens that expire within this time, such as 14d, soonest first.")
    ] = None,
    config: Config = None,
    json: AsJson = False,
) -> None:
    """List API tokens, newest first. Secrets are not stored and cannot be shown."""
    now = now_utc()
    until = parse_expiry(expiring, "--expiring", now) if expiring is not None else None
    client_id = parse_client_id(account, "--account") if account is not None else None
    tokens = read_state(
        config,
        lambda stores: stores.api_tokens.list_for(
            client_id=client_id, seat_id=operators.find_seat(stores, seat).seat_id if seat is not None else None
        ),
    )
    if until is not None:
        tokens = [each for each in tokens if each.expires_at is not None and each.expires_at <= until]
        tokens = sorted((each for each in tokens if each.state_at(now) == "live"), key=attrgetter("expires_at"))
    if json:
        print_json([_as_json(token, now) for token in tokens])
        return
    print_table(
        ("TOKEN", "NAME", "STATE", "SEAT", "ACCOUNT", "LAST FOUR", "CREATED (UTC)", "LAST USED (UTC)", "EXPIRES (UTC)"),
        [_row(token, now) for token in tokens],
    )


@app.command
def revoke(
    token_id: Annotated[str | None, Parameter(help="Id of the token, as in `token list`.")] = None,
    *,
    leaked: Annotated[
        Path | None, Parameter(help="Revoke every token found in this file, such as a scanner's report.")
    ] = None,
    reason: Annotated[
        str | None, Parameter(help="Reason for the audit trail. Default: revoked by the operator, or found in public.")
    ] = None,
    config: Config = None,
) -> None:
    """Revoke a token, or all leaked ones. Links issued with it stop working."""
    if (token_id is None) == (leaked is None):
        raise WrongUse("Specify the id of a token, or --leaked FILE.")
    with state_of(config) as state:
        if leaked is not None:
            try:
                report = read_bounded(leaked, MAX_DOCUMENT_BYTES)[0].decode("utf-8", "replace")
            except OSError as fault:
                raise OperatorError(f"{leaked} cannot be read: {fault.strerror}.") from fault
            revoked = state.write(
                lambda stores: operators.revoke_leaked_tokens(
                    stores, report, now_utc(), actor="operator", reason=reason or "found in public"
                )
            )
            for each in revoked:
                print_text(f"{each.token_id} {each.created_by_email} {each.client_id} {each.name}")
            print_note(f"Revoked {len(revoked)} live tokens.")
            return
        token = _find(state, str(token_id))
        was_live = state.write(
            lambda stores: operators.revoke_token(
                stores, token, now_utc(), actor="operator", reason=reason or "revoked by the operator"
            )
        )
    print_text(f"{token_id} is revoked." if was_live else f"{token_id} was already revoked.")


def _find(state: State, token_id: str) -> ApiToken:
    resolved = state.read(lambda stores: stores.api_tokens.resolve_by_id(token_id.lower()))
    if resolved is None:
        raise OperatorError(f"Unknown token {token_id}. See `daybreakd token list`.")
    return resolved.token


def _require_usable(granted: GrantedAccount, owner: Seat) -> None:
    """Raise OperatorError, with every reason, if a token of the seat on the account would be refused."""
    missing = [
        text
        for text, satisfied in (
            ("the account is inactive", granted.account.active),
            ("API tokens are disabled for the account (api_tokens_enabled)", granted.account.api_tokens_enabled),
            ("the seat lacks data_export on it", granted.grant.data_export),
            ("the seat lacks async_rest_api on it", granted.grant.async_rest_api),
            ("the seat is disabled", not owner.disabled),
        )
        if not satisfied
    ]
    if missing:
        raise OperatorError(f"The token would not work: {'; '.join(missing)}.")


def _as_json(token: ApiToken, now: datetime) -> dict[str, object]:
    names = (
        "token_id", "name", "client_id", "last_four", "created_at", "last_used_at", "expires_at", "revoked_at",
        "revoke_reason", "serve_gzip_as", "allowed_networks",
    )  # fmt: skip
    return {**fields_of(token, *names), "state": token.state_at(now), "created_by": token.created_by_email}


def _row(token: ApiToken, now: datetime) -> tuple[object, ...]:
    return (
        token.token_id,
        token.name,
        token.state_at(now),
        token.created_by_email,
        token.client_id,
        token.last_four,
        format_instant(token.created_at),
        format_instant(token.last_used_at),
        format_instant(token.expires_at),
    )
