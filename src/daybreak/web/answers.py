"""JSON answers, and the shapes that the authentication endpoints take and give."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec
from msgspec import UNSET, UnsetType
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from daybreak.access.sessions import Context


class LoginRequest(msgspec.Struct, frozen=True):
    """What POST login takes."""

    email: str
    password: str


class CodeRequest(msgspec.Struct, frozen=True):
    """What the second factor's call takes: six digits."""

    totp: str


class PasswordRequest(msgspec.Struct, frozen=True):
    """What asking for the password again takes."""

    password: str


class ContextRequest(msgspec.Struct, frozen=True):
    """What PUT context takes: a client_id of the context list."""

    context: str


class LoginResult(msgspec.Struct, frozen=True):
    """What a login gives; client_id and device_id are left out while a second factor is owed."""

    seat_id: str
    token: str
    client_id: str | UnsetType = UNSET
    device_id: str | UnsetType = UNSET


class BillingStateView(msgspec.Struct, frozen=True):
    """`onboarding_billing_state` of a context."""

    billing_provided: bool
    billing_required: bool
    trial_length_days: int
    trial_started: bool


class ContextView(msgspec.Struct, frozen=True):
    """One account in the context list."""

    client_id: str
    current_context: bool
    first_name: str
    last_name: str
    phone_number: str
    phone_number_type: str
    campaign_messages_monthly_threshold: int
    campaign_messages_monthly_used: int
    roles: tuple[str, ...]
    onboarding_billing_state: BillingStateView


class ContextList(msgspec.Struct, frozen=True):
    """What GET context gives."""

    data: tuple[ContextView, ...]


class SwitchView(msgspec.Struct, frozen=True):
    """The chosen context and its token."""

    id: str
    seat_id: str
    token: str


class SwitchResult(msgspec.Struct, frozen=True):
    """What PUT context gives."""

    data: SwitchView


class EnrolmentView(msgspec.Struct, frozen=True):
    """What sets up an authenticator app; shown once."""

    manual_key: str
    otpauth_uri: str
    qr_svg: str


class EnrolmentResult(msgspec.Struct, frozen=True):
    """What beginning an enrolment gives."""

    data: EnrolmentView


class RecoveryCodesView(msgspec.Struct, frozen=True):
    """Ten codes for the day the app is lost; shown once."""

    recovery_codes: tuple[str, ...]


class RecoveryCodesResult(msgspec.Struct, frozen=True):
    """What confirming an enrolment gives."""

    data: RecoveryCodesView


class LinkView(msgspec.Struct, frozen=True):
    """A signed link and the file behind it."""

    url: str
    expires_at: datetime
    snapshot_id: str
    as_of: datetime
    published_at: datetime
    resource: str
    format: str
    rows: int
    bytes: int
    sha256: str


class LinkResult(msgspec.Struct, frozen=True):
    """What a download request gives beside its redirect."""

    data: LinkView


class Health(msgspec.Struct, frozen=True):
    """What GET /healthz gives."""

    status: str
    version: str


class ReadinessView(msgspec.Struct, frozen=True):
    """What GET /readyz gives: each part with `ok` or what is wrong."""

    status: str
    parts: dict[str, str]


def context_view(context: Context) -> ContextView:
    """A context as the list shows it."""
    account = context.reach.account
    return ContextView(
        client_id=account.client_id,
        current_context=context.current,
        first_name=account.first_name,
        last_name=account.last_name,
        phone_number=account.phone_number,
        phone_number_type=account.phone_number_type,
        campaign_messages_monthly_threshold=account.campaign_messages_monthly_threshold,
        campaign_messages_monthly_used=account.campaign_messages_monthly_used,
        roles=context.reach.grant.roles,
        onboarding_billing_state=BillingStateView(
            billing_provided=account.billing.billing_provided,
            billing_required=account.billing.billing_required,
            trial_length_days=account.billing.trial_length_days,
            trial_started=account.billing.trial_started,
        ),
    )


Headers = list[tuple[bytes, bytes]]


class Answer(Response):
    """A body in one piece, with headers as they go over the wire, their names in lower case; the length is added.

    The framework makes the same of texts, letter by letter, at five times the cost.
    """

    def __init__(self, content: bytes, headers: Headers, status: int = 200) -> None:
        self.status_code = status
        self.body = content
        self.raw_headers = [*headers, (b"content-length", b"%d" % len(content))]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Sends it; there is nothing to be done afterwards."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body})


def json_answer(value: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Any msgspec value as an answer of `application/json`."""
    wire = [(b"content-type", b"application/json")]
    for name, text in (headers or {}).items():
        wire.append((name.lower().encode("latin-1"), text.encode("latin-1")))
    return Answer(msgspec.json.encode(value), wire, status)
