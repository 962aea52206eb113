"""`daybreakd token`: API tokens."""

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from daybreak.cli.examples import examples_of
from daybreak.cli.options import AsJson, Config, account_id, ahead, settings_of
from daybreak.cli.output import note, say, say_json, say_table, shown_instant
from daybreak.domain.errors import OperatorError

if TYPE_CHECKING:
    from datetime import datetime

    from daybreak.domain.identity import ApiToken

app = App(name="token", help="API tokens.", help_epilogue=examples_of("token"))


@app.command
def create(
    *,
    seat: Annotated[str, Parameter(help="Email of the seat the token is bound to.")],
    account: Annotated[str, Parameter(help="client_id of the account it opens.")],
    name: Annotated[str, Parameter(help="What it is for.")] = "made by the operator",
    expires: Annotated[str | None, Parameter(help="When it ends, such as 90d; else never.")] = None,
    config: Config = None,
) -> None:
    """Make an API token and print it: it is shown this once."""
    from daybreak.access import api_tokens
    from daybreak.access.operators import seat_named
    from daybreak.bootstrap import now_utc, open_state

    settings = settings_of(config)
    now = now_utc()
    expires_at = ahead(expires, "--expires", now) if expires is not None else None
    with closing(open_state(settings)) as state:
        owner = state.read(lambda stores: seat_named(stores, seat))
        reach = {each.account.client_id: each for each in state.read(lambda stores: stores.seats.reach(owner.seat_id))}
        found = reach.get(account.lower())
        if found is None:
            raise OperatorError(f"{seat} has no access to the account {account}: see `daybreakd directory export`.")
        missing = [
            text
            for text, there in (
                ("the account is not active", found.account.active),
                ("API tokens are not enabled for the account (api_tokens_enabled)", found.account.api_tokens_enabled),
                ("the seat lacks data_export on it", found.grant.data_export),
                ("the seat lacks async_rest_api on it", found.grant.async_rest_api),
                ("the seat is disabled", not owner.disabled),
            )
            if not there
        ]
        if missing:
            raise OperatorError(f"A token would open nothing: {'; '.join(missing)}.")
        minted = api_tokens.mint(
            owner, found.account.client_id, now=now, random=os.urandom, name=name, expires_at=expires_at
        )
        state.write(lambda stores: api_tokens.add_by_operator(stores, minted.token, now, actor="operator"))
    note(f"{minted.token.token_id} for {found.account.name}; keep it now, it is not shown again:")
    say(minted.secret)


@app.command(name="list")
def list_(
    *,
    seat: Annotated[str | None, Parameter(help="Only those of this seat (email).")] = None,
    account: Annotated[str | None, Parameter(help="Only those of this account (client_id).")] = None,
    config: Config = None,
    json: AsJson = False,
) -> None:
    """List API tokens, newest first. The tokens themselves are not kept and cannot be shown."""
    from daybreak.access.operators import seat_named
    from daybreak.bootstrap import now_utc, open_state

    client_id = account_id(account, "--account") if account is not None else None
    with closing(open_state(settings_of(config))) as state:
        tokens = state.read(
            lambda stores: stores.api_tokens.list_for(
                client_id=client_id,
                seat_id=seat_named(stores, seat).seat_id if seat is not None else None,
            )
        )
    now = now_utc()
    if json:
        say_json([_as_json(token, now) for token in tokens])
        return
    say_table(
        ("TOKEN", "NAME", "STATE", "SEAT", "ACCOUNT", "LAST FOUR", "CREATED (UTC)", "LAST USED (UTC)", "EXPIRES (UTC)"),
        [_row(token, now) for token in tokens],
    )


@app.command
def revoke(
    token_id: Annotated[str | None, Parameter(help="The token's id, as `token list` shows it.")] = None,
    *,
    leaked: Annotated[
        Path | None, Parameter(help="Revoke every token whose text stands in this file (a scan report).")
    ] = None,
    reason: Annotated[str, Parameter(help="Why, for the audit trail.")] = "revoked by the operator",
    config: Config = None,
) -> None:
    """Revoke a token, or all that have leaked. Links made with it end with it."""
    from daybreak.access import api_tokens
    from daybreak.bootstrap import now_utc, open_state

    if (token_id is None) == (leaked is None):
        raise OperatorError("Give the id of a token, or --leaked FILE.", code="wrong_use")
    with closing(open_state(settings_of(config))) as state:
        if leaked is not None:
            try:
                report = leaked.read_text("utf-8", "replace")
            except OSError as fault:
                raise OperatorError(f"{leaked} cannot be read: {fault.strerror}.") from fault
            revoked = state.write(lambda stores: api_tokens.revoke_leaked(stores, report, now_utc(), actor="operator"))
            for each in revoked:
                say(f"{each.token_id} {each.created_by_email} {each.client_id} {each.name}")
            note(f"{len(revoked)} live tokens stood in it and are revoked.")
            return
        standing = state.read(lambda stores: stores.api_tokens.standing_by_id(token_id.lower() if token_id else ""))
        if standing is None:
            raise OperatorError(f"There is no token {token_id}: see `daybreakd token list`.")
        was_live = state.write(
            lambda stores: api_tokens.revoke_by_operator(
                stores, standing.token, now_utc(), actor="operator", reason=reason
            )
        )
    say(f"{token_id} is revoked." if was_live else f"{token_id} was revoked before.")


def _state_of(token: "ApiToken", now: "datetime") -> str:
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if token.expires_at is not None and token.expires_at <= now else "live"


def _as_json(token: "ApiToken", now: "datetime") -> dict[str, object]:
    return {
        "token_id": token.token_id,
        "name": token.name,
        "state": _state_of(token, now),
        "created_by": token.created_by_email,
        "client_id": token.client_id,
        "last_four": token.last_four,
        "created_at": token.created_at,
        "last_used_at": token.last_used_at,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
        "revoke_reason": token.revoke_reason,
    }


def _row(token: "ApiToken", now: "datetime") -> tuple[object, ...]:
    return (
        token.token_id,
        token.name,
        _state_of(token, now),
        token.created_by_email,
        token.client_id,
        token.last_four,
        shown_instant(token.created_at),
        shown_instant(token.last_used_at),
        shown_instant(token.expires_at),
    )
