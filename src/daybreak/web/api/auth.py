"""The authentication endpoints: login, second factor, contexts, logout."""

from dataclasses import dataclass
from types import NoneType
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from daybreak.access import enrolment, second_factor, sessions
from daybreak.access.login import SecondFactorPending, SessionStarted, login
from daybreak.access.services import Services
from daybreak.domain.identity import GrantedAccount
from daybreak.web.api import examples
from daybreak.web.api.examples import field, uuid
from daybreak.web.api.operation import (
    AUTHENTICATION,
    PENDING_LOGIN,
    SESSION,
    ApiRoute,
    BodyOperation,
    Operation,
    Parameter,
    ResponseType,
    bearer,
    pending_login_of,
    session_of,
    view_of,
)
from daybreak.web.request_state import caller_of


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


DEVICE_ID = Parameter(
    "X-Device-Id",
    "header",
    "`device_id` of an earlier login on this device. A known device has separate rate limits.",
    examples.DEVICE_ID,
)
_SESSION_RESULT = LoginResult(
    examples.SEAT_ID, examples.SESSION_JWT, client_id=examples.CLIENT_ID, device_id=examples.DEVICE_ID
)
LOG_IN = BodyOperation(
    operation_id="logIn",
    summary="Sign in",
    description="Returns a session token for the most recently used account. It is valid for {session_lifetime}. If a "
    "second factor is required, returns a token that is valid for {pending_login_lifetime} and only for the second "
    "factor, without `client_id` and `device_id`.",
    tag=AUTHENTICATION,
    parameters=(DEVICE_ID,),
    body=LoginRequest,
    response=ResponseType(
        "A session, or a login that waits for its second factor.",
        LoginResult,
        examples={
            "Session": _SESSION_RESULT,
            "Second factor required": LoginResult(examples.SEAT_ID, examples.PENDING_JWT),
        },
    ),
    problems=(
        "invalid_credentials",
        "no_active_account",
        "password_login_disabled",
        "rate_limited",
        "busy",
        "state_unavailable",
    ),
)
SEND_CODE = BodyOperation(
    operation_id="sendSecondFactor",
    summary="Send the second factor",
    description="Completes a login that waits for its second factor. A code works once.",
    tag=AUTHENTICATION,
    credential=PENDING_LOGIN,
    parameters=(DEVICE_ID,),
    body=CodeRequest,
    response=ResponseType("A session.", LoginResult, examples={"Session": _SESSION_RESULT}),
    problems=(
        "invalid_code",
        "second_factor_not_enrolled",
        "no_active_account",
        "rate_limited",
        "second_factor_unreadable",
    ),
)
LIST_CONTEXTS = Operation(
    operation_id="listContexts",
    summary="List accounts",
    description="Lists the active accounts that the session can switch to.",
    tag=AUTHENTICATION,
    credential=SESSION,
    response=ResponseType("The accounts.", ContextList),
)
SWITCH_CONTEXT = BodyOperation(
    operation_id="switchContext",
    summary="Switch to an account",
    description="Returns a session token for another account. Tokens for other accounts stay valid.",
    tag=AUTHENTICATION,
    credential=SESSION,
    body=ContextRequest,
    response=ResponseType("The token for the account.", SwitchResult),
    problems=("not_your_account", "account_inactive", "rate_limited"),
)
LOG_OUT = Operation(
    operation_id="logOut",
    summary="Log out",
    description="Ends the session. All its tokens and links stop working.",
    tag=AUTHENTICATION,
    credential=SESSION,
    response=ResponseType("The session has ended.", NoneType, status=204),
)
REAUTHENTICATE = BodyOperation(
    operation_id="reauthenticate",
    summary="Confirm the password",
    description="Allows changes to the second factor for {reauthentication_lifetime}. A login also allows them.",
    tag=AUTHENTICATION,
    credential=SESSION,
    body=PasswordRequest,
    response=ResponseType("The password is confirmed.", NoneType, status=204),
    problems=("invalid_credentials", "password_login_disabled", "rate_limited"),
)
BEGIN_ENROLMENT = Operation(
    operation_id="beginSecondFactor",
    summary="Set up a second factor",
    description="Returns a new key for an authenticator app. The current second factor stays valid until a code "
    "confirms the new one. Requires a password entered in the last {reauthentication_lifetime}.",
    tag=AUTHENTICATION,
    credential=SESSION,
    response=ResponseType("The key. It is not shown again.", EnrolmentResult),
    problems=("reauthentication_required",),
)
CONFIRM_ENROLMENT = BodyOperation(
    operation_id="confirmSecondFactor",
    summary="Confirm a second factor",
    description="Replaces the second factor with the new one, and ends the seat's other sessions. Requires a password "
    "entered in the last {reauthentication_lifetime}.",
    tag=AUTHENTICATION,
    credential=SESSION,
    body=CodeRequest,
    response=ResponseType("Recovery codes. They are not shown again.", RecoveryCodesResult),
    problems=("reauthentication_required", "invalid_code", "conflict", "rate_limited", "second_factor_unreadable"),
)


def auth_routes(services: Services) -> list[ApiRoute]:
    """Return the routes below /download/v2/auth."""
    endpoints = _AuthEndpoints(services)
    return [
        ApiRoute("/download/v2/auth/login", endpoints.log_in, LOG_IN, methods=["POST"]),
        ApiRoute("/download/v2/auth/login/callback/mfa", endpoints.second_factor, SEND_CODE, methods=["POST"]),
        ApiRoute("/download/v2/auth/context", endpoints.contexts, LIST_CONTEXTS),
        ApiRoute("/download/v2/auth/context", endpoints.switch, SWITCH_CONTEXT, methods=["PUT"]),
        ApiRoute("/download/v2/auth/logout", endpoints.log_out, LOG_OUT, methods=["DELETE"]),
        ApiRoute("/download/v2/auth/reauthenticate", endpoints.reauthenticate, REAUTHENTICATE, methods=["POST"]),
        ApiRoute("/download/v2/auth/second-factor", endpoints.begin_enrolment, BEGIN_ENROLMENT, methods=["POST"]),
        ApiRoute(
            "/download/v2/auth/second-factor/confirm", endpoints.confirm_enrolment, CONFIRM_ENROLMENT, methods=["POST"]
        ),
    ]


@dataclass(frozen=True, slots=True)
class _AuthEndpoints:
    services: Services

    async def log_in(self, request: Request) -> Response:
        sent = await LOG_IN.read(request)
        outcome = await login(
            self.services,
            email=sent.email,
            password=sent.password,
            caller=caller_of(request),
            device_id=_device_id(request),
        )
        return LOG_IN.response.create(_login_result(outcome))

    async def second_factor(self, request: Request) -> Response:
        # An invalid token is refused before the body is read.
        await pending_login_of(request, self.services)
        sent = await SEND_CODE.read(request)
        outcome = await second_factor.complete_login(
            self.services, bearer(request), sent.totp, caller_of(request), device_id=_device_id(request)
        )
        return SEND_CODE.response.create(_login_result(outcome))

    async def contexts(self, request: Request) -> Response:
        session = await session_of(request, self.services)
        found = await sessions.contexts(self.services, session)

        def response() -> Response:
            views = tuple(_context_view(each, session.client_id) for each in found)
            return LIST_CONTEXTS.response.create(ContextList(views))

        return await self.services.run_without_blocking(session.seat.seat_id, len(found), response)

    async def switch(self, request: Request) -> Response:
        session = await session_of(request, self.services)
        sent = await SWITCH_CONTEXT.read(request)
        client_id = sent.context.lower()
        token = await sessions.switch(self.services, session, client_id, caller_of(request))
        return SWITCH_CONTEXT.response.create(SwitchResult(SwitchView(client_id, session.seat.seat_id, token)))

    async def log_out(self, request: Request) -> Response:
        session = await session_of(request, self.services)
        await sessions.logout(self.services, session, caller_of(request))
        return LOG_OUT.response.create(None)

    async def reauthenticate(self, request: Request) -> Response:
        session = await session_of(request, self.services)
        sent = await REAUTHENTICATE.read(request)
        await sessions.reauthenticate(self.services, session, sent.password, caller_of(request))
        return REAUTHENTICATE.response.create(None)

    async def begin_enrolment(self, request: Request) -> Response:
        session = await session_of(request, self.services)
        begun = await enrolment.begin(self.services, session)
        return BEGIN_ENROLMENT.response.create(EnrolmentResult(view_of(EnrolmentView, begun)))

    async def confirm_enrolment(self, request: Request) -> Response:
        session = await session_of(request, self.services)
        sent = await CONFIRM_ENROLMENT.read(request)
        enrolled = await enrolment.confirm(self.services, session, sent.totp, caller_of(request))
        return CONFIRM_ENROLMENT.response.create(RecoveryCodesResult(RecoveryCodesView(enrolled.recovery_codes)))


def _context_view(granted: GrantedAccount, current_id: str) -> ContextView:
    account = granted.account
    return view_of(
        ContextView,
        account,
        current_context=account.client_id == current_id,
        roles=granted.grant.roles,
        onboarding_billing_state=view_of(BillingStateView, account.billing),
    )


def _login_result(outcome: SessionStarted | SecondFactorPending) -> LoginResult:
    if isinstance(outcome, SecondFactorPending):
        return LoginResult(seat_id=outcome.session.seat_id, token=outcome.token)
    return view_of(LoginResult, outcome, seat_id=outcome.session.seat_id)


def _device_id(request: Request) -> str | None:
    return (DEVICE_ID.read(request) or "").strip().lower() or None
