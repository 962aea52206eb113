"""Authorization of actions on an account: one table of requirements for every kind of credential.

Session tokens, API tokens and links are checked here on each request, against rows read by one statement. An
API token may name the networks that its requests must come from.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Interface, IPv6Network, ip_address, ip_interface, ip_network
from typing import Literal

from daybreak.domain.errors import FieldFault, Forbidden, InvalidRequest, NotFound, RequestError, Unauthenticated
from daybreak.domain.identity import (
    AccountStatus,
    Grant,
    Principal,
    ResolvedSession,
    ResolvedToken,
    SecondFactorPolicy,
    Session,
    is_id,
)
from daybreak.state.stores import State

Action = Literal["select", "download", "see_files", "read_audit", "manage_api_tokens", "manage_webhooks"]
CredentialKind = Literal["session", "api_token"]

MAX_NETWORKS = 50
_Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class Requirement:
    """Conditions of an action, in addition to an active account that the seat has a grant on."""

    kinds: frozenset[CredentialKind] = frozenset({"session", "api_token"})
    data_export: bool = False
    async_rest_api: bool = False
    api_tokens_enabled: bool = False
    manages_account: bool = False


REQUIREMENTS: dict[Action, Requirement] = {
    # Select the account as the context of a session or token.
    "select": Requirement(),
    "download": Requirement(data_export=True),
    "see_files": Requirement(data_export=True),
    "read_audit": Requirement(),
    "manage_api_tokens": Requirement(
        kinds=frozenset({"session"}), data_export=True, async_rest_api=True, api_tokens_enabled=True
    ),
    # Events contain numbers of rows.
    "manage_webhooks": Requirement(kinds=frozenset({"session"}), data_export=True, manages_account=True),
}
# Conditions of every action with an API token, on the account and seat that it belongs to.
API_TOKEN_REQUIREMENT = Requirement(data_export=True, async_rest_api=True, api_tokens_enabled=True)


def require(principal: Principal, action: Action, client_id: str) -> None:
    """Raise Forbidden unless the principal may perform the action on that account.

    Foreign and unknown accounts get the same `not_your_account`.
    """
    if client_id != principal.account.client_id:
        raise not_your_account()
    requirement = REQUIREMENTS[action]
    if principal.kind not in requirement.kinds:
        raise Forbidden("API tokens cannot do this. Sign in with email and password.", code="session_required")
    # The policy on second factors was applied when the principal was authenticated.
    fault = account_fault(principal.account, principal.grant, principal.session, "account", requirement)
    if fault is not None:
        raise fault


def require_own(principal: Principal, name: str, kind: str) -> str:
    """Return the `client_id` of a share or warehouse, which is named like it. `kind` is a word for the error.

    Raises the same NotFound for foreign and unknown ones, and Forbidden if the principal may not download its files.
    """
    client_id = principal.account.client_id
    if name.lower() != client_id:
        raise NotFound(f"There is no such {kind}, or this token does not give access to it.")
    require(principal, "download", client_id)
    return client_id


async def require_in_context(state: State, principal: Principal, action: Action, client_id: str) -> None:
    """Do the same as `require`, with separate errors for another account of the session's seat.

    Raises Forbidden: `wrong_context`, `account_inactive`, and the errors of `require`.
    """
    session = principal.session
    if session is not None and client_id != principal.account.client_id and is_id(client_id):
        other = await state.aread(lambda stores: stores.sessions.resolve(session.sid, client_id))
        if other is not None and other.grant is not None and other.account is not None:
            if not other.account.active:
                raise _account_inactive()
            raise Forbidden(
                "This token is for another of your accounts; switch with PUT /download/v2/auth/context.",
                code="wrong_context",
            )
    require(principal, action, client_id)


def readable_audit_seat(principal: Principal) -> str | None:
    """Return the seat whose audit events the principal may read on its account, None for every seat.

    Events contain email addresses, IP addresses and user agents of colleagues.
    """
    return None if principal.grant.manages_account else principal.seat.seat_id


def session_fault(resolved: ResolvedSession | None, now: datetime, *, dashboard_idle: timedelta) -> RequestError | None:
    """Return why a session is invalid, None if it is valid. Its account is not checked."""
    if resolved is None or resolved.session.ended_at is not None or resolved.seat.disabled:
        return Unauthenticated("This session has ended. Sign in again.", code="session_ended")
    if resolved.session.expires_at <= now:
        return Unauthenticated("This session has expired. Sign in again.", code="session_ended")
    if is_idle(resolved.session, now, dashboard_idle=dashboard_idle):
        return Unauthenticated("This session ended without activity. Sign in again.", code="session_ended")
    if resolved.session.awaiting_second_factor:
        return Forbidden("This login needs a second factor. Send its code first.", code="second_factor_required")
    return None


def is_idle(session: Session, now: datetime, *, dashboard_idle: timedelta) -> bool:
    """Whether a dashboard session has ended because it was not used. API sessions have no such limit."""
    return session.kind == "dashboard" and session.last_used_at + dashboard_idle <= now


def account_fault(
    account: AccountStatus | None,
    grant: Grant | None,
    session: Session | None,
    policy: SecondFactorPolicy,
    requirement: Requirement = REQUIREMENTS["select"],
) -> Forbidden | None:
    """Return why a valid credential may not use the account for an action with that requirement, None if it may.

    An account that requires a second factor refuses every session without one. With the policy "always", every account
    does.
    """
    if account is None or grant is None:
        return not_your_account()
    if not account.active:
        return _account_inactive()
    required = account.second_factor_required or policy == "always"
    if session is not None and required and not has_second_factor(session):
        return Forbidden(
            "This account requires a second factor. Sign in again with one.", code="second_factor_required"
        )
    return _permission_fault(account, grant, requirement)


def token_fault(resolved: ResolvedToken | None, now: datetime, address: str) -> RequestError | None:
    """Return why an API token is refused, None if the token, its seat, account and permissions are valid.

    `address` is that of the client, which the token may exclude.
    """
    if resolved is None:
        return Unauthenticated("Invalid token.", code="invalid_token")
    token = resolved.token
    if token.revoked_at is not None or resolved.seat.disabled:
        return Unauthenticated("This token was revoked.", code="token_revoked")
    if token.expires_at is not None and token.expires_at <= now:
        return Unauthenticated("This token has expired.", code="token_expired")
    if not allows(token.allowed_networks, address):
        used_from = address or "an unknown address"
        return Forbidden(
            f"This token cannot be used from {used_from}. Add the address to those that the token allows.",
            code="address_not_allowed",
        )
    return account_fault(resolved.account, resolved.grant, None, "account", API_TOKEN_REQUIREMENT)


# Authentication methods that count as a second factor: a code, a recovery code, a passkey, a trusted provider's own.
SECOND_FACTOR_METHODS = frozenset({"otp", "recovery", "pop", "mfa"})


def has_second_factor(session: Session) -> bool:
    """Whether the login used a second factor."""
    return bool(SECOND_FACTOR_METHODS & set(session.amr))


def not_your_account() -> Forbidden:
    """Return the same error for foreign and unknown accounts."""
    return Forbidden("This credential does not give access to that account.", code="not_your_account")


def _permission_fault(account: AccountStatus, grant: Grant, requirement: Requirement) -> Forbidden | None:
    """Return the error of a missing permission, None if the requirement is met."""
    if requirement.api_tokens_enabled and not account.api_tokens_enabled:
        return Forbidden(
            "API tokens are disabled for this account. Ask your operator to enable them.", code="api_tokens_disabled"
        )
    if requirement.data_export and not grant.data_export:
        return Forbidden(
            "You can't download this account's files. Ask your operator for Data Export.", code="data_export_required"
        )
    if requirement.async_rest_api and not grant.async_rest_api:
        return Forbidden(
            "You can't use API tokens on this account. Ask your operator to make you an Async REST API user.",
            code="async_rest_api_required",
        )
    if requirement.manages_account and not grant.manages_account:
        return Forbidden("Only owners and admins of this account can manage webhooks.", code="owner_or_admin_required")
    return None


def _account_inactive() -> Forbidden:
    return Forbidden("This account is inactive. Ask your operator to reactivate it.", code="account_inactive")


def parse_networks(texts: Iterable[str]) -> tuple[str, ...]:
    """Return networks in CIDR form, without repetitions, in the order of the texts. An address is a network of one.

    Raises InvalidRequest. Its message names the invalid texts, up to 50.
    """
    networks, remedies = dict[str, None](), []
    for text in texts:
        try:
            networks[str(_parsed(text))] = None
        except ValueError as error:
            remedies.append(str(error))
    if len(networks) > MAX_NETWORKS:
        remedies.append(f"Use up to {MAX_NETWORKS} addresses and networks.")
    if remedies:
        faults = tuple(FieldFault("/allowed_networks", remedy) for remedy in remedies[:MAX_NETWORKS])
        raise InvalidRequest(f"Invalid allowed addresses. {' '.join(fault.detail for fault in faults)}", faults=faults)
    return tuple(networks)


def allows(networks: Sequence[str], address: str) -> bool:
    """Return whether an address is in one of the networks. Without networks, every address is allowed.

    An unknown address, which is empty, is in no network.
    """
    if not networks:
        return True
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    return any(parsed in network for network in _networks(tuple(networks)))


@lru_cache(1024)  # each request of a token reads the same networks
def _networks(texts: tuple[str, ...]) -> tuple[_Network, ...]:
    return tuple(ip_network(text) for text in texts)


def _parsed(text: str) -> _Network:
    """Return the network. Raises ValueError with the remedy."""
    shown = text.strip()[:60]
    try:
        interface = ip_interface(text.strip())
    except ValueError:
        raise ValueError(f"{shown!r} is not an address or a network. Use one such as 203.0.113.0/24.") from None
    if isinstance(interface, IPv6Interface) and interface.ip.ipv4_mapped is not None:
        # Addresses of clients are compared in their IPv4 form.
        raise ValueError(f"{shown} contains an IPv4 address. Write it as IPv4.")
    if interface.ip != interface.network.network_address:
        raise ValueError(f"{shown} is an address within a network. Use {interface.network}.")
    return interface.network
