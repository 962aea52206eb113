"""One table: who may do what on an account.

Every way in asks here, of facts read by one statement for this request: session tokens,
API tokens, and links that are out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from daybreak.domain.errors import Forbidden, RequestError, Unauthenticated
from daybreak.domain.identity import AccountStanding, Grant, Principal, Seat, Session, SessionStanding, TokenStanding

Action = Literal["enter", "download", "see_files", "read_audit", "manage_api_tokens"]
Kind = Literal["session", "api_token"]


@dataclass(frozen=True, slots=True)
class Requirement:
    """What an action needs beyond an active account that the seat has a grant on."""

    kinds: frozenset[Kind] = frozenset({"session", "api_token"})
    data_export: bool = False
    async_rest_api: bool = False
    api_tokens_enabled: bool = False


TABLE: dict[Action, Requirement] = {
    # To hold a token of the account at all.
    "enter": Requirement(),
    "download": Requirement(data_export=True),
    "see_files": Requirement(data_export=True),
    "read_audit": Requirement(),
    "manage_api_tokens": Requirement(
        kinds=frozenset({"session"}),
        data_export=True,
        async_rest_api=True,
        api_tokens_enabled=True,
    ),
}
# An API token needs these for anything, from the account and the seat that it is bound to.
API_TOKEN_REQUIREMENT = Requirement(data_export=True, async_rest_api=True, api_tokens_enabled=True)


def require(principal: Principal, action: Action, client_id: str) -> None:
    """Raises Forbidden unless the principal may do this on that account.

    Foreign and unknown accounts get the same `not_your_account`.
    """
    if client_id != principal.account.client_id:
        raise not_your_account()
    requirement = TABLE[action]
    if principal.kind not in requirement.kinds:
        raise Forbidden("Sign in as a person for this; an API token is not enough.", code="session_required")
    fault = account_fault(principal.account, principal.grant, principal.session, requirement)
    if fault is not None:
        raise fault


def session_fault(standing: SessionStanding | None, now: datetime) -> RequestError | None:
    """Why a session is not good for anything; None when it stands. Not asked: any account."""
    if standing is None or standing.session.ended_at is not None or standing.seat.disabled:
        return Unauthenticated("This session has ended. Sign in again.", code="session_ended")
    if standing.session.expires_at <= now:
        return Unauthenticated("This session has expired. Sign in again.", code="session_ended")
    if standing.session.awaiting_second_factor:
        return Forbidden("The second factor is still owed: send its code first.", code="second_factor_required")
    return None


def account_fault(
    account: AccountStanding | None,
    grant: Grant | None,
    session: Session | None,
    requirement: Requirement = TABLE["enter"],
) -> Forbidden | None:
    """Why the account is closed to a credential that is good by itself, for what has that requirement; None when it is
    open.

    An account that requires a second factor is closed to a session without one, however the
    session came to be."""
    if account is None or grant is None:
        return not_your_account()
    if not account.active:
        return Forbidden(
            "This account is not active. The operator of the service can say why, and open it again.",
            code="account_inactive",
        )
    if session is not None and account.second_factor_required and not has_second_factor(session):
        return Forbidden(
            "This account requires a second factor: sign in again with one.",
            code="second_factor_required",
        )
    return _permission_fault(account, grant, requirement)


def token_fault(standing: TokenStanding | None, now: datetime) -> RequestError | None:
    """Why an API token is not good; None when it, its seat, account and permissions stand."""
    if standing is None:
        return Unauthenticated("This token is not known.", code="invalid_token")
    token = standing.token
    if token.revoked_at is not None or standing.seat.disabled:
        return Unauthenticated("This token was revoked.", code="token_revoked")
    if token.expires_at is not None and token.expires_at <= now:
        return Unauthenticated("This token has expired.", code="token_expired")
    return account_fault(standing.account, standing.grant, None, API_TOKEN_REQUIREMENT)


def has_second_factor(session: Session) -> bool:
    """Whether the login showed more than a password."""
    return bool({"otp", "recovery"} & set(session.amr))


def second_factor_owed(seat: Seat, *, required: bool) -> bool:
    """A second factor is owed when the seat has one or an account in its reach requires one."""
    return seat.second_factor_enrolled or required


def not_your_account() -> Forbidden:
    """The one answer for foreign and unknown accounts."""
    return Forbidden("This credential gives no access to that account.", code="not_your_account")


def _permission_fault(account: AccountStanding, grant: Grant, requirement: Requirement) -> Forbidden | None:
    """What the seat or the account lacks for a requirement; None when nothing."""
    if requirement.api_tokens_enabled and not account.api_tokens_enabled:
        return Forbidden(
            "API tokens are not enabled for this account; the operator of the service can do it.",
            code="api_tokens_disabled",
        )
    if requirement.data_export and not grant.data_export:
        return Forbidden(
            "This seat has no Data Export access on the account; the operator can give it.",
            code="data_export_required",
        )
    if requirement.async_rest_api and not grant.async_rest_api:
        return Forbidden(
            "This seat is no Async REST API user on the account; the operator can make it one.",
            code="async_rest_api_required",
        )
    return None
