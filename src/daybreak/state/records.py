"""Conversion of rows to domain values. Each function takes a row of the column list in its docstring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from daybreak.domain.identity import (
    Account,
    ApiToken,
    BillingState,
    Device,
    Grant,
    Passkey,
    Seat,
    SeatIdentity,
    Session,
)
from daybreak.state.columns import instant_of, instant_or_none, strings_of
from daybreak.state.schema import (
    accounts,
    api_tokens,
    devices,
    grants,
    passkeys,
    seat_identities,
    seats,
    sessions,
)

ACCOUNT_COLUMNS = tuple(accounts.columns)
GRANT_COLUMNS = tuple(grants.columns)
SEAT_COLUMNS = (
    seats.c.seat_id,
    seats.c.email,
    seats.c.password_hash,
    seats.c.disabled,
    seats.c.operator,
    seats.c.sealed_seed.is_not(None).label("second_factor_enrolled"),
    seats.c.last_client_id,
)
SESSION_COLUMNS = tuple(column for column in sessions.columns if column.name != "passkey_challenge")
IDENTITY_COLUMNS = tuple(seat_identities.columns)
DEVICE_COLUMNS = tuple(devices.columns)
PASSKEY_COLUMNS = tuple(passkeys.columns)
TOKEN_COLUMNS = tuple(api_tokens.columns)


def account_of(row: Sequence[Any]) -> Account:
    """Return the account of a row of ACCOUNT_COLUMNS."""
    (client_id, first, last, phone, phone_type, active, threshold, used, tokens, factor, *billing) = row
    provided, required, days, started = billing
    return Account(
        client_id,
        first,
        last,
        phone,
        phone_type,
        bool(active),
        threshold,
        used,
        bool(tokens),
        bool(factor),
        BillingState(bool(provided), bool(required), days, bool(started)),
    )


def grant_of(row: Sequence[Any]) -> Grant:
    """Return the grant of a row of GRANT_COLUMNS."""
    seat_id, client_id, roles, data_export, async_rest_api = row
    return Grant(seat_id, client_id, strings_of(roles), bool(data_export), bool(async_rest_api))


def seat_of(row: Sequence[Any]) -> Seat:
    """Return the seat of a row of SEAT_COLUMNS."""
    seat_id, email, password_hash, disabled, operator, enrolled, last_client_id = row
    return Seat(seat_id, email, password_hash, bool(disabled), bool(operator), bool(enrolled), last_client_id)


def identity_of(row: Sequence[Any]) -> SeatIdentity:
    """Return the user of a row of IDENTITY_COLUMNS."""
    issuer, subject, seat_id, bound_at = row
    return SeatIdentity(issuer, subject, seat_id, instant_of(bound_at))


def session_of(row: Sequence[Any]) -> Session:
    """Return the session of a row of SESSION_COLUMNS."""
    sid, seat_id, started, expires, amr, awaiting, device_id, ended, reason, kind, reauthenticated, seen = row
    return Session(
        sid=sid,
        seat_id=seat_id,
        started_at=instant_of(started),
        expires_at=instant_of(expires),
        amr=strings_of(amr),
        awaiting_second_factor=bool(awaiting),
        device_id=device_id,
        ended_at=instant_or_none(ended),
        end_reason=reason,
        kind=kind,
        reauthenticated_at=instant_or_none(reauthenticated),
        last_seen_at=instant_or_none(seen),
    )


def device_of(row: Sequence[Any]) -> Device:
    """Return the device of a row of DEVICE_COLUMNS."""
    device_id, seat_id, user_agent, address, first_seen, last_seen = row
    return Device(device_id, seat_id, user_agent, address, instant_of(first_seen), instant_of(last_seen))


def passkey_of(row: Sequence[Any]) -> Passkey:
    """Return the passkey of a row of PASSKEY_COLUMNS."""
    credential_id, seat_id, public_key, sign_count, name, created, used = row
    return Passkey(credential_id, seat_id, public_key, sign_count, name, instant_of(created), instant_or_none(used))


def token_of(row: Sequence[Any]) -> ApiToken:
    """Return the API token of a row of TOKEN_COLUMNS."""
    token_id, digest, seat_id, client_id, name, last_four, *rest = row
    created, expires, used, revoked, reason, email, serve_gzip_as, allowed_networks = rest
    return ApiToken(
        token_id=token_id,
        digest=digest,
        seat_id=seat_id,
        client_id=client_id,
        name=name,
        last_four=last_four,
        created_at=instant_of(created),
        expires_at=instant_or_none(expires),
        last_used_at=instant_or_none(used),
        revoked_at=instant_or_none(revoked),
        revoke_reason=reason,
        created_by_email=email,
        serve_gzip_as=serve_gzip_as,
        allowed_networks=() if allowed_networks is None else strings_of(allowed_networks),
    )
