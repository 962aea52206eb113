"""Types of JSON bodies. Their field descriptions and examples are part of the API description."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from daybreak import __version__
from daybreak.access.sessions import Context
from daybreak.web.api import examples
from daybreak.web.api.examples import field, uuid
from daybreak.web.api.operation import view_of


class LoginRequest(msgspec.Struct, frozen=True):
    """Email and password."""

    email: Annotated[str, field("Email of the seat; case does not matter.", "maya@example.org")]
    password: Annotated[str, field("Password of the seat.", "quiet lantern over seven rivers")]


class CodeRequest(msgspec.Struct, frozen=True):
    """Code of the second factor."""

    totp: Annotated[str, field("Six digits from the authenticator app.", "492039")]


class PasswordRequest(msgspec.Struct, frozen=True):
    """Password, entered again."""

    password: Annotated[str, field("Password of the seat.", "quiet lantern over seven rivers")]


class ContextRequest(msgspec.Struct, frozen=True):
    """Account to switch to."""

    context: Annotated[str, uuid("`client_id` of the account.", examples.CLIENT_ID)]


class LoginResult(msgspec.Struct, frozen=True):
    """Session, or a login that waits for its second factor."""

    seat_id: Annotated[str, uuid("Seat that signed in.", examples.SEAT_ID)]
    token: Annotated[str, field("Bearer token for the next requests.", examples.SESSION_JWT)]
    client_id: Annotated[
        str | UnsetType, uuid("Account that the token is for. Missing until the second factor.", examples.CLIENT_ID)
    ] = UNSET
    device_id: Annotated[
        str | UnsetType,
        uuid(
            "Device of this login, for the `X-Device-Id` header. Missing until the second factor.", examples.DEVICE_ID
        ),
    ] = UNSET


class BillingStateView(msgspec.Struct, frozen=True):
    """Billing state of an account."""

    billing_provided: Annotated[bool, field("Whether the account has billing details.", example=True)]
    billing_required: Annotated[bool, field("Whether the account needs billing details.", example=True)]
    trial_length_days: Annotated[int, field("Length of the trial in days.", 14)]
    trial_started: Annotated[bool, field("Whether the trial has started.", example=True)]


class ContextView(msgspec.Struct, frozen=True):
    """Account that a session can switch to."""

    client_id: Annotated[str, uuid("Id of the account.", examples.CLIENT_ID)]
    current_context: Annotated[bool, field("Whether the token is for this account.", example=True)]
    first_name: Annotated[str, field("First name of the Leader.", "North")]
    last_name: Annotated[str, field("Last name of the Leader.", "Light")]
    phone_number: Annotated[str, field("Phone number in E.164 format.", "+12125550100")]
    phone_number_type: Annotated[str, field("`long_code`, `toll_free` or `short_code`.", "toll_free")]
    campaign_messages_monthly_threshold: Annotated[int, field("Campaign messages included each month.", 100000)]
    campaign_messages_monthly_used: Annotated[int, field("Campaign messages sent this month.", 8250)]
    roles: Annotated[tuple[str, ...], field("Roles of the seat: `owner`, `admin` or `analyst`.", ["owner"])]
    onboarding_billing_state: BillingStateView


class ContextList(msgspec.Struct, frozen=True):
    """Accounts that a session can switch to."""

    data: Annotated[tuple[ContextView, ...], Meta(description="Every active account, ordered by name.")]


class SwitchView(msgspec.Struct, frozen=True):
    """Selected account and its token."""

    id: Annotated[str, uuid("`client_id` of the account.", examples.CLIENT_ID)]
    seat_id: Annotated[str, uuid("Seat of the session.", examples.SEAT_ID)]
    token: Annotated[str, field("Bearer token for the account.", examples.SESSION_JWT)]


class SwitchResult(msgspec.Struct, frozen=True):
    """Token for another account."""

    data: SwitchView


class EnrolmentView(msgspec.Struct, frozen=True):
    """Key for an authenticator app."""

    manual_key: Annotated[str, field("Key in base32, to type in.", "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP")]
    otpauth_uri: Annotated[
        str,
        field(
            "Key URI, to open in an app.",
            "otpauth://totp/Daybreak:maya@example.org?secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP&issuer=Daybreak"
            "&algorithm=SHA1&digits=6&period=30",
        ),
    ]
    qr_svg: Annotated[str, field("QR code of the URI, as an SVG element.", "<svg>...</svg>")]


class EnrolmentResult(msgspec.Struct, frozen=True):
    """New key for an authenticator app."""

    data: EnrolmentView


class RecoveryCodesView(msgspec.Struct, frozen=True):
    """Recovery codes."""

    recovery_codes: Annotated[
        tuple[str, ...],
        field(
            "Ten codes. Each replaces the app for one login.",
            ["k7qd-m2xw-9fht-4c3p-8rvn-6jbz", "w8zn-5rja-t2ve-6mkd-yh4q-3gxs"],
        ),
    ]


class RecoveryCodesResult(msgspec.Struct, frozen=True):
    """New recovery codes."""

    data: RecoveryCodesView


class LinkView(msgspec.Struct, frozen=True):
    """Signed link and its file."""

    url: Annotated[str, field("Signed link, as in `Location`.", examples.LINK)]
    expires_at: Annotated[datetime, field("When the link stops working.", "2026-11-24T08:45:00Z")]
    snapshot_id: Annotated[str, uuid("Snapshot of the file.", examples.SNAPSHOT_ID)]
    version: Annotated[int, field("Version of the snapshot.", 48)]
    as_of: Annotated[datetime, field("Instant that the data describes.", examples.AS_OF)]
    published_at: Annotated[datetime, field("When the snapshot was published.", examples.PUBLISHED_AT)]
    resource: Annotated[str, field("Resource in the file.", "campaigns")]
    format: Annotated[str, field("Format of the file.", "csv")]
    rows: Annotated[int, field("Number of rows, without the header.", 1204)]
    bytes: Annotated[int, field("Size of the file.", 48213)]
    sha256: Annotated[str, field("SHA-256 of the file, in hexadecimal.", examples.SHA256)]


class LinkResult(msgspec.Struct, frozen=True):
    """Signed link to a file."""

    data: LinkView


class Health(msgspec.Struct, frozen=True):
    """State of the process."""

    status: Annotated[str, field("Always `ok`.", "ok")]
    version: Annotated[str, field("Version of Daybreak.", __version__)]


class ReadinessView(msgspec.Struct, frozen=True):
    """State of the service."""

    status: Annotated[str, field("`ready` or `not ready`.", "ready")]
    parts: Annotated[
        dict[str, str],
        field("State of the database and of the file store: `ok`, or a fault.", {"state": "ok", "files": "ok"}),
    ]
    failing_tasks: Annotated[
        tuple[str, ...],
        field("Background tasks that failed and are tried again, such as `mail`. Requests do not need them.", []),
    ] = ()

    @property
    def ready(self) -> bool:
        return self.status == "ready"


def context_view(context: Context) -> ContextView:
    account = context.granted.account
    return view_of(
        ContextView,
        account,
        current_context=context.current,
        roles=context.granted.grant.roles,
        onboarding_billing_state=view_of(BillingStateView, account.billing),
    )
