"""Who asks: seats, accounts, grants, sessions, API tokens, and the principal they become."""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime
from typing import Literal

import msgspec

ROLES = ("owner", "admin", "analyst")
PHONE_NUMBER_TYPES = ("long_code", "toll_free", "short_code")

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)

LONGEST_EMAIL = 254
"""Characters of an email (RFC 5321 §4.5.3.1)."""
LONGEST_TYPED_EMAIL = 2 * LONGEST_EMAIL
"""The same as a keyboard may send it, with the marks of letters by themselves."""


def is_id(text: str) -> bool:
    """Whether a text has the form of an id: a UUID in lower case. Anything else need not be looked
    up anywhere."""
    return _ID.fullmatch(text) is not None


def folded_email(email: str) -> str:
    """What emails are compared by: their letters, whatever the case and however a keyboard composes them."""
    letters = email.strip().casefold()
    # Composing takes time by the square of the length; what is longer than an email is nobody's.
    return unicodedata.normalize("NFC", letters) if len(letters) <= LONGEST_TYPED_EMAIL else letters


class BillingState(msgspec.Struct, frozen=True):
    """`onboarding_billing_state` of an account."""

    billing_provided: bool = False
    billing_required: bool = False
    trial_length_days: int = 0
    trial_started: bool = False


class AccountStanding(msgspec.Struct, frozen=True):
    """What decides whether an account is open, read anew with each request."""

    client_id: str
    active: bool = True
    api_tokens_enabled: bool = False
    second_factor_required: bool = False


class Account(msgspec.Struct, frozen=True):
    """A Leader as a customer. `client_id` is lower-case UUID text."""

    client_id: str
    first_name: str
    last_name: str
    phone_number: str
    phone_number_type: str
    active: bool = True
    campaign_messages_monthly_threshold: int = 0
    campaign_messages_monthly_used: int = 0
    api_tokens_enabled: bool = False
    second_factor_required: bool = False
    billing: BillingState = msgspec.field(default_factory=BillingState)

    @property
    def name(self) -> str:
        """First and last name, for people."""
        return f"{self.first_name} {self.last_name}".strip()

    @property
    def standing(self) -> AccountStanding:
        """What of it decides whether it is open."""
        return AccountStanding(self.client_id, self.active, self.api_tokens_enabled, self.second_factor_required)


class Grant(msgspec.Struct, frozen=True):
    """What one seat may do on one account."""

    seat_id: str
    client_id: str
    roles: tuple[str, ...] = ()
    data_export: bool = False
    async_rest_api: bool = False


class Seat(msgspec.Struct, frozen=True):
    """A person who signs in. `password_hash` is None until a password is set."""

    seat_id: str
    email: str
    password_hash: str | None = None
    disabled: bool = False
    operator: bool = False
    second_factor_enrolled: bool = False
    last_client_id: str | None = None


class Reach(msgspec.Struct, frozen=True):
    """One account in reach of a seat, with the seat's grant on it."""

    account: Account
    grant: Grant


class Landing(msgspec.Struct, frozen=True):
    """Where a login of a seat begins: on the active account used last, else on the first by name; and whether any
    active account in reach requires a second factor."""

    client_id: str
    second_factor_required: bool


class Device(msgspec.Struct, frozen=True):
    """Where a login came from."""

    device_id: str
    seat_id: str
    user_agent: str
    address: str
    first_seen_at: datetime
    last_seen_at: datetime


class Session(msgspec.Struct, frozen=True):
    """One login. `sid` is shared by every token derived from it. While `awaiting_second_factor`
    it opens nothing but the second-factor call, and `expires_at` is ten minutes away."""

    sid: str
    seat_id: str
    started_at: datetime
    expires_at: datetime
    amr: tuple[str, ...]
    awaiting_second_factor: bool = False
    device_id: str | None = None
    ended_at: datetime | None = None
    end_reason: str | None = None
    kind: Literal["api", "dashboard"] = "api"
    reauthenticated_at: datetime | None = None


class SessionStanding(msgspec.Struct, frozen=True):
    """All that one statement says about a session on one account: session, seat, account, grant.

    `account` and `grant` are None when the account is unknown or the seat has no grant on it.
    """

    session: Session
    seat: Seat
    account: AccountStanding | None
    grant: Grant | None


class ApiToken(msgspec.Struct, frozen=True):
    """A stored API token; the secret itself is never kept (SHA-256 hex `digest` at rest)."""

    token_id: str
    digest: str
    seat_id: str
    client_id: str
    name: str
    last_four: str
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None
    revoke_reason: str | None = None
    created_by_email: str = ""


class TokenStanding(msgspec.Struct, frozen=True):
    """All that one statement says about an API token: token, seat, account, grant (None = gone)."""

    token: ApiToken
    seat: Seat
    account: AccountStanding | None
    grant: Grant | None


class Principal(msgspec.Struct, frozen=True):
    """Whoever a good credential stands for, on the account the credential is bound to.

    `subject` is `session:<sid>` or `token:<token_id>`: what a signed link carries, so that the end
    of the credential ends its links.
    """

    kind: Literal["session", "api_token"]
    subject: str
    seat: Seat
    account: AccountStanding
    grant: Grant
    session: Session | None = None
    token: ApiToken | None = None


class Caller(msgspec.Struct, frozen=True):
    """Where a request comes from, for throttles and the audit trail."""

    address: str
    user_agent: str = ""
    request_id: str = ""
