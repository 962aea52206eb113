"""Sample accounts, seats, grants and audit events.

Constants name the accounts and seats that tests sign in with.
"""

import base64
import os
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from daybreak.access import throttle
from daybreak.credentials import passwords, totp
from daybreak.credentials.keyring import Keyring
from daybreak.domain.audit import AuditEvent
from daybreak.domain.identity import Account, Grant, Seat
from daybreak.settings import AccessSettings
from daybreak.state.nodes import Node
from daybreak.state.stores import State, Stores

PASSWORD = "seven lanterns over the harbour"
SEED = bytes(range(1, 21))
RECOVERY_CODE = "aaaa-bbbb-cccc"
# HTML, template syntax and a text-direction character, as a user could enter them.
HOSTILE = "<img src=x onerror=alert(1)>\"'&amp;{{7*7}}</script>\u202etxet"
AGENCY_ACCOUNTS = 120
USER_AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36"


def id_of(name: str) -> str:
    """Return the id of a sample account or of the seat with that email."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"sample:{name}"))


NORTHLIGHT, KITA, ODD, CLOSED, VAULT, VIEWER, UNKNOWN, LONG = (
    id_of(name) for name in ("northlight", "kita", "odd", "closed", "vault", "viewer", "unknown", "long")
)
AGENCY_IDS = tuple(id_of(f"agency {number}") for number in range(AGENCY_ACCOUNTS))
EMAILS = tuple(
    f"{name}@example.org"
    for name in (
        "maya", "analyst", "careful", "newcomer", "operator", "agency", "changer", "enroller",
        "a.long.name." * 5 + "given.by.a.machine", "keeper",
    )
)  # fmt: skip
OWNER, ANALYST, CAREFUL, NEWCOMER, OPERATOR, AGENCY, CHANGER, ENROLLER, LONG_EMAIL, KEEPER = EMAILS
# Seats with a second factor.
ENROLLED = (CAREFUL, KEEPER)


def write_directory(state: State, ring: Keyring, now: datetime) -> None:
    """Write accounts, seats, grants, nodes and audit events."""
    password_hash = passwords.hash_password(PASSWORD)
    seats = {email: Seat(id_of(email), email, password_hash) for email in EMAILS}

    def write(stores: Stores) -> None:
        for account in _accounts():
            stores.directory.put_accounts(account)
        for seat in seats.values():
            stores.directory.put_seats(seat)
        for grant in _grants():
            stores.directory.put_grants(grant)
        stores.seats.set_operator(id_of(OPERATOR), operator=True)
        for email in ENROLLED:
            _enrol(stores, ring, id_of(email), now)
        for hours, (host, roles) in enumerate((("north-1", ("web", "builder")), ("north-2", ("web",)))):
            started_at = now - timedelta(days=3, hours=hours)
            stores.nodes.record_heartbeat(Node(id_of(host), host, "1.0.0", started_at, now, roles))
        for event in _past_events(seats[OWNER], now):
            stores.audit.append(event)

    state.write(write)


def reset_seat(state: State, ring: Keyring, email: str, now: datetime) -> None:
    """Restore a seat to its initial state: password, second factor, no sessions, no throttle counts."""
    password_hash, seat_id = passwords.hash_password(PASSWORD), id_of(email)

    def write(stores: Stores) -> None:
        stores.sessions.end_all(seat_id, now, "the test")
        # A reset keeps the last used code. Enrol again, so that a test can use the current code.
        stores.seats.reset_second_factor(seat_id)
        _enrol(stores, ring, seat_id, now)
        if email not in ENROLLED:
            stores.seats.reset_second_factor(seat_id)
        for rule in throttle.second_factor_rules(AccessSettings(), seat_id=seat_id):
            stores.throttle.clear(rule.key)
        stores.seats.set_password_hash(seat_id, password_hash)

    state.write(write)


def seed_of(manual_key: str) -> bytes:
    """Return the seed of a key as the setup page shows it."""
    text = manual_key.replace(" ", "").upper()
    return base64.b32decode(text + "=" * (-len(text) % 8))


def _accounts() -> Iterator[Account]:
    yield _account(NORTHLIGHT, "Northlight Theatre", 100)
    yield _account(KITA, "Kita Café 北カフェ", 101)
    yield _account(ODD, f"Odd {HOSTILE}", 102)
    yield _account(CLOSED, "Old Harbour Cinema", 103, active=False)
    yield _account(VAULT, "Vault Credit Union", 104, second_factor_required=True)
    yield _account(VIEWER, "Riverside Museum", 105)
    yield _account(UNKNOWN, "Brand New Bakery", 106)
    yield _account(LONG, f"Mr. {'Extraordinarily' * 9}", 107)
    for number, client_id in enumerate(AGENCY_IDS):
        yield _account(client_id, f"Agency Client {number:03d}", 1000 + number)


def _account(client_id: str, name: str, number: int, **options: Any) -> Account:
    first, _, last = name.partition(" ")
    return Account(client_id, first, last, f"+1212555{number:04d}", "toll_free", api_tokens_enabled=True, **options)


def _grants() -> Iterator[Grant]:
    for client_id in (NORTHLIGHT, KITA, ODD, CLOSED, UNKNOWN):
        yield _grant(OWNER, client_id)
    yield _grant(OWNER, VIEWER, "analyst", data_export=False, async_rest_api=False)
    yield _grant(ANALYST, NORTHLIGHT, "analyst", async_rest_api=False)
    yield _grant(CAREFUL, VAULT)
    yield _grant(CAREFUL, NORTHLIGHT, "admin")
    yield _grant(NEWCOMER, VAULT, "analyst")
    yield _grant(OPERATOR, NORTHLIGHT, "admin")
    yield _grant(CHANGER, KITA)
    yield _grant(ENROLLER, KITA)
    yield _grant(LONG_EMAIL, LONG)
    yield _grant(KEEPER, KITA)
    for client_id in AGENCY_IDS:
        yield _grant(AGENCY, client_id, "admin")


def _grant(
    email: str, client_id: str, role: str = "owner", *, data_export: bool = True, async_rest_api: bool = True
) -> Grant:
    return Grant(id_of(email), client_id, (role,), data_export, async_rest_api)


def _enrol(stores: Stores, ring: Keyring, seat_id: str, now: datetime) -> None:
    """Enrol a seat with SEED, no code used, and one recovery code."""
    sealed = totp.encrypt_seed(SEED, seat_id=seat_id, keyring=ring, random=os.urandom)
    stores.seats.begin_second_factor(seat_id, sealed, now)
    stores.seats.confirm_second_factor(seat_id, 1, [totp.recovery_digest(RECOVERY_CODE, seat_id=seat_id)], now)


def _past_events(seat: Seat, now: datetime) -> Iterator[AuditEvent]:
    for number in range(130):
        action = ("login", "link.issued", "file.fetched", "context.switched")[number % 4]
        yield AuditEvent(
            at=now - timedelta(hours=3 * (130 - number)),
            action=action,
            result="invalid_credentials" if number % 24 == 8 else "ok",
            actor=seat.email,
            seat_id=seat.seat_id,
            client_id=NORTHLIGHT,
            subject="token:nightly" if number % 3 else "session:browser",
            address="203.0.113.7" if number % 5 else "198.51.100.23",
            user_agent=USER_AGENT if number % 3 else "curl/8.14.1",
            details={"file": "members.csv.gz"} if action in ("link.issued", "file.fetched") else {},
        )
