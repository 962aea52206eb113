"""Single changes to the directory by an operator: seats, grants and API tokens of accounts.

Each runs in the caller's transaction. They are applied and recorded like the changes of an import, so that sessions and
API tokens that lose their permission end in the same transaction. `actor` is the email of the operator.
"""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from daybreak.access.directory.changes import DirectoryChanges, apply_changes
from daybreak.domain.email_address import EMAIL_EXAMPLE, is_email_address
from daybreak.domain.errors import OperatorError
from daybreak.domain.identity import ROLES, Account, Grant, Seat
from daybreak.state.stores import Stores


def add_seat(stores: Stores, seat: Seat, now: datetime, *, actor: str) -> None:
    """Add a seat. Raises OperatorError if the email is invalid or has a seat already."""
    if not is_email_address(seat.email):
        raise OperatorError(f"Enter an email address such as {EMAIL_EXAMPLE}.")
    if stores.seats.by_email(seat.email) is not None:
        raise OperatorError(f"{seat.email} has a seat already.")
    apply_changes(stores, DirectoryChanges(added_seats=(seat,)), now, actor)


def put_grant(stores: Stores, seat: Seat, grant: Grant, now: datetime, *, actor: str) -> None:
    """Add a grant of a seat, or replace the present one. Raises OperatorError."""
    if not grant.roles or not set(grant.roles) <= set(ROLES):
        raise OperatorError(f"Choose a role: {', '.join(ROLES)}.")
    before = grant_of(stores, seat, grant.client_id)
    if before == grant:
        return
    emails = {seat.seat_id: seat.email}
    if before is None:
        changes = DirectoryChanges(added_grants=(grant,), emails=emails)
    else:
        previous = {(grant.seat_id, grant.client_id): before}
        changes = DirectoryChanges(changed_grants=(grant,), previous_grants=previous, emails=emails)
    apply_changes(stores, changes, now, actor)


def remove_grant(stores: Stores, seat: Seat, client_id: str, now: datetime, *, actor: str) -> bool:
    """Remove the grant of a seat on an account. Return False if there is none."""
    grant = grant_of(stores, seat, client_id)
    if grant is None:
        return False
    apply_changes(stores, DirectoryChanges(removed_grants=(grant,), emails={seat.seat_id: seat.email}), now, actor)
    return True


def set_api_tokens_enabled(stores: Stores, account: Account, now: datetime, *, enabled: bool, actor: str) -> None:
    """Allow or refuse API tokens on an account."""
    if account.api_tokens_enabled != enabled:
        changed = replace(account, api_tokens_enabled=enabled)
        previous = {account.client_id: account}
        apply_changes(stores, DirectoryChanges(changed_accounts=(changed,), previous_accounts=previous), now, actor)


def grant_of(stores: Stores, seat: Seat, client_id: str) -> Grant | None:
    """Return the present grant of a seat on an account, if any."""
    granted = stores.seats.granted_accounts(seat.seat_id)
    return next((each.grant for each in granted if each.account.client_id == client_id), None)
