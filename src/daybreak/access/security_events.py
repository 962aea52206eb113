"""Events about the security of a seat, for the outbox."""

from datetime import datetime
from typing import Literal

from daybreak.domain.events import Event, EventType, new_event
from daybreak.domain.identity import ApiToken, Seat

FactorChange = Literal[
    "authenticator_enrolled", "recovery_codes_replaced", "passkey_added", "passkey_removed", "reset_by_operator"
]
PasswordChange = Literal["changed", "set_by_operator", "reset_by_mail"]


def password_changed(seat: Seat, now: datetime, change: PasswordChange, *, address: str = "") -> Event:
    """Create the event of a new password. `address` is that of the client, empty for an operator."""
    return _event(EventType.PASSWORD_CHANGED, seat, now, change, address)


def second_factor_changed(seat: Seat, now: datetime, change: FactorChange, *, address: str = "") -> Event:
    """Create the event of a changed second factor. `address` is that of the client, empty for an operator."""
    return _event(EventType.SECOND_FACTOR_CHANGED, seat, now, change, address)


def token_leaked(token: ApiToken, now: datetime) -> Event:
    """Create the event of a token that was found in public and revoked."""
    return new_event(EventType.TOKEN_LEAKED, token.token_id, now, _token(token), seat_id=token.seat_id)


def token_expiring(token: ApiToken, expires_at: datetime, days: int, now: datetime) -> Event:
    """Create the event of a token that expires within that many days."""
    data = {**_token(token), "expires_at": expires_at.isoformat().replace("+00:00", "Z"), "days": days}
    return new_event(EventType.TOKEN_EXPIRING, f"{token.token_id}\n{days}", now, data, seat_id=token.seat_id)


def token_idle(token: ApiToken, last_used_at: datetime, now: datetime) -> Event:
    """Create the event of a token that was used daily, and then not for three days."""
    last_used = last_used_at.isoformat().replace("+00:00", "Z")
    data = {**_token(token), "last_used_at": last_used}
    return new_event(EventType.TOKEN_IDLE, f"{token.token_id}\n{last_used}", now, data, seat_id=token.seat_id)


def _token(token: ApiToken) -> dict[str, object]:
    return {"token_id": token.token_id, "client_id": token.client_id, "name": token.name, "last_four": token.last_four}


def _event(type_: EventType, seat: Seat, now: datetime, change: str, address: str) -> Event:
    key = f"{seat.seat_id}\n{now.isoformat()}\n{change}"
    data = {"seat_id": seat.seat_id, "email": seat.email, "change": change, "address": address}
    return new_event(type_, key, now, data, seat_id=seat.seat_id)
