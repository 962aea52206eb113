"""Identity: seats, accounts, grants, sessions, API tokens, and the principal of a request."""

import hashlib
import re
import unicodedata
from datetime import datetime
from typing import Literal

import msgspec

from daybreak.domain.email_address import MAX_EMAIL_INPUT_LENGTH
from daybreak.domain.visible_text import is_visible

ROLES = ("owner", "admin", "analyst")
_MANAGING_ROLES = frozenset({"owner", "admin"})
PHONE_NUMBER_TYPES = ("long_code", "toll_free", "short_code")

ServeGzipAs = Literal["file", "encoding"]
"""How a gzip file is sent: as the file, or as its text with `Content-Encoding: gzip`."""
SecondFactorPolicy = Literal["account", "always"]
"""Whether a session needs a second factor on accounts that require one, or on every account."""

ID_PATTERN = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
"""Pattern of an id: a UUID in lower case."""
_ID = re.compile(ID_PATTERN)


MAX_SUBJECT_LENGTH = 255


def is_id(text: str) -> bool:
    """Return whether a text has the form of an id: a UUID in lower case. Other texts need no lookup."""
    return _ID.fullmatch(text) is not None


def is_subject(text: str) -> bool:
    """Return whether a text can be the id of a user at a provider of single sign-on (OpenID Connect Core 1.0 §2)."""
    return 0 < len(text) <= MAX_SUBJECT_LENGTH and text.isprintable()


def folded_email(email: str) -> str:
    """Return an email in the form used for comparison: case-folded and in Unicode form NFC."""
    folded = email.strip().casefold()
    # Normalization takes quadratic time, and no seat has a longer email.
    return unicodedata.normalize("NFC", folded) if len(folded) <= MAX_EMAIL_INPUT_LENGTH else folded


class BillingState(msgspec.Struct, frozen=True):
    """`onboarding_billing_state` of an account."""

    billing_provided: bool = False
    billing_required: bool = False
    trial_length_days: int = 0
    trial_started: bool = False


class AccountStatus(msgspec.Struct, frozen=True):
    """The flags that control access to an account, read on every request."""

    client_id: str
    active: bool = True
    api_tokens_enabled: bool = False
    second_factor_required: bool = False


class Account(msgspec.Struct, frozen=True):
    """A Leader as a customer of the platform. `client_id` is lower-case UUID text."""

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
        """First and last name, or the phone number if no character of the name is visible."""
        return self._visible_name or self.phone_number

    @property
    def sort_key(self) -> tuple[bool, str, str]:
        """Key that sorts accounts by name, those without a name last."""
        return not self._visible_name, self.name.casefold(), self.client_id

    @property
    def _visible_name(self) -> str:
        name = f"{self.first_name} {self.last_name}".strip()
        return name if is_visible(name) else ""

    @property
    def status(self) -> AccountStatus:
        """The flags that control access to the account."""
        return AccountStatus(self.client_id, self.active, self.api_tokens_enabled, self.second_factor_required)


class Grant(msgspec.Struct, frozen=True):
    """The permissions of one seat on one account."""

    seat_id: str
    client_id: str
    roles: tuple[str, ...] = ()
    data_export: bool = False
    async_rest_api: bool = False

    @property
    def manages_account(self) -> bool:
        """Whether the seat is an owner or admin: it manages all API tokens and reads the whole audit trail."""
        return not _MANAGING_ROLES.isdisjoint(self.roles)

    @property
    def manages_webhooks(self) -> bool:
        """Whether the seat may manage the webhooks of the account, whose events contain numbers of rows."""
        return self.manages_account and self.data_export

    @property
    def allows_tokens(self) -> bool:
        """Whether the seat may have API tokens on the account."""
        return self.data_export and self.async_rest_api

    def exceeds(self, other: "Grant") -> bool:
        """Return whether the seat would lose something with the other permissions."""
        return (
            self.data_export > other.data_export
            or self.async_rest_api > other.async_rest_api
            or self.manages_account > other.manages_account
        )


class Seat(msgspec.Struct, frozen=True):
    """A user of the service. `password_hash` is None until a password is set.

    `time_zone` and `number_format` are those of pages and mails, None for the default.
    """

    seat_id: str
    email: str
    password_hash: str | None = None
    disabled: bool = False
    operator: bool = False
    second_factor_enrolled: bool = False
    last_client_id: str | None = None
    time_zone: str | None = None
    number_format: str | None = None


class GrantedAccount(msgspec.Struct, frozen=True):
    """An account together with a seat's grant on it."""

    account: Account
    grant: Grant


class InitialAccount(msgspec.Struct, frozen=True):
    """The account on which a login starts: the active one used last, else the first active one by name.

    `second_factor_required`: any active account of the seat requires a second factor.
    """

    client_id: str
    second_factor_required: bool


class SeatIdentity(msgspec.Struct, frozen=True):
    """A user of a single sign-on provider, bound to the seat that it signs in."""

    issuer: str
    subject: str
    seat_id: str
    bound_at: datetime


class Device(msgspec.Struct, frozen=True):
    """A device on which a seat has signed in."""

    device_id: str
    seat_id: str
    user_agent: str
    address: str
    first_seen_at: datetime
    last_seen_at: datetime


class Session(msgspec.Struct, frozen=True):
    """One login. All its tokens share the `sid`.

    While `awaiting_second_factor`, only the second-factor call accepts it, and it expires after ten minutes.
    """

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
    last_seen_at: datetime | None = None

    @property
    def last_used_at(self) -> datetime:
        """The last recorded activity; the start of a session without any."""
        return self.last_seen_at or self.started_at


class Passkey(msgspec.Struct, frozen=True):
    """A passkey of a seat. `credential_id` and `public_key` (COSE, RFC 9052 §7) are base64url text without padding.

    `sign_count` is the highest signature counter received; it stays 0 for authenticators without a counter.
    """

    credential_id: str
    seat_id: str
    public_key: str
    sign_count: int
    name: str
    created_at: datetime
    last_used_at: datetime | None = None

    @property
    def reference(self) -> str:
        """Short name of the passkey in URLs: the start of the SHA-256 of its credential id, as hex."""
        return hashlib.sha256(self.credential_id.encode()).hexdigest()[:32]


class ResolvedSession(msgspec.Struct, frozen=True):
    """A session with its seat, one account and the grant on it, read by one statement.

    `account` and `grant` are None when the account is unknown or the seat has no grant on it. `revoked_keys` is the
    number of keys that were revoked.
    """

    session: Session
    seat: Seat
    account: AccountStatus | None
    grant: Grant | None
    revoked_keys: int = 0


class ApiToken(msgspec.Struct, frozen=True):
    """A stored API token. `digest` is the SHA-256 of its secret in hex; the secret is not stored.

    `serve_gzip_as` is how links of the token send gzip files, None for the setting `files.serve_gzip_as`.
    `allowed_networks` are the networks that its requests must come from, in CIDR form; empty for any address.
    """

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
    serve_gzip_as: ServeGzipAs | None = None
    allowed_networks: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """The token in links and audit events."""
        return f"token:{self.token_id}"

    def state_at(self, now: datetime) -> Literal["live", "expired", "revoked"]:
        """Return the state at an instant. A live token may still be refused, for example with its account."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "live"


class ResolvedToken(msgspec.Struct, frozen=True):
    """An API token with its seat, account and grant (None when removed), read by one statement."""

    token: ApiToken
    seat: Seat
    account: AccountStatus | None
    grant: Grant | None
    revoked_keys: int = 0


class Principal(msgspec.Struct, frozen=True):
    """The seat that a valid credential identifies, on the account of the credential.

    `subject` is `session:<sid>` or `token:<token_id>`. Signed links carry it, so that they end with the credential.
    """

    kind: Literal["session", "api_token"]
    subject: str
    seat: Seat
    account: AccountStatus
    grant: Grant
    session: Session | None = None
    token: ApiToken | None = None


class Caller(msgspec.Struct, frozen=True):
    """The client of a request, for throttles and the audit trail."""

    address: str
    user_agent: str = ""
    request_id: str = ""
