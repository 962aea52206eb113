"""Differences between the state database and a directory, and how they are applied, also single ones by an operator.

An import adds and changes entries. A sync is complete: accounts that it does not list are deactivated, seats disabled
and grants removed; accounts and seats are never deleted. Sessions and API tokens that lose their permission are revoked
in the same transaction, with an audit event each.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Generic, Literal, TypeVar

from msgspec import to_builtins
from msgspec.structs import replace

from daybreak.access.directory.fields import format_faults
from daybreak.access.end_credentials import EndReason, end_credentials, stop_ownerless_webhooks
from daybreak.domain.audit import AuditEvent
from daybreak.domain.display import format_count
from daybreak.domain.email_address import EMAIL_EXAMPLE, is_email_address
from daybreak.domain.errors import OperatorError
from daybreak.domain.identity import ROLES, Account, Grant, Seat, folded_email
from daybreak.state.directory import Directory, free_email
from daybreak.state.stores import Stores

T = TypeVar("T", Account, Seat, Grant)
_SIGNS = {"added": "+", "changed": "~", "removed": "-"}
_ACCOUNT_ACTIONS = {"added": "account.added", "changed": "account.changed", "removed": "account.deactivated"}
_SEAT_ACTIONS = {"added": "seat.added", "changed": "seat.changed", "removed": "seat.disabled"}
_KINDS = ("added", "changed", "removed", "counted")
ALWAYS_ALLOWED = 5
"""Removals of accounts, seats or grants that a sync may make, whatever their share."""


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """A change of one account, seat or grant. `before` is its present state, None for an added one.

    Removed accounts are deactivated, and removed seats disabled. Of `counted` accounts, only the number of messages
    sent this month differs.
    """

    kind: Literal["added", "changed", "removed", "counted"]
    entry: T
    before: T | None = None


@dataclass(frozen=True, slots=True)
class DirectoryChanges:
    """Differences between the state database and a directory: added entries first, then changed and removed ones.

    `emails` contains the email of each seat whose grants change, by seat_id.
    """

    accounts: Sequence[Change[Account]] = ()
    seats: Sequence[Change[Seat]] = ()
    grants: Sequence[Change[Grant]] = ()
    emails: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there is no difference."""
        return not (self.accounts or self.seats or self.grants)

    def lines(self) -> Iterator[str]:
        """Format one line per change; all message counts share one line."""
        for account in self.accounts:
            if account.kind != "counted":
                end = " (deactivated)" if account.kind == "removed" else ""
                yield f"{_SIGNS[account.kind]} account {account.entry.client_id} {account.entry.name}{end}"
        counted = sum(account.kind == "counted" for account in self.accounts)
        if counted:
            yield f"~ messages sent this month, of {format_count(counted, 'account')}"
        for seat in self.seats:
            yield f"{_SIGNS[seat.kind]} seat {seat.entry.email}{' (disabled)' if seat.kind == 'removed' else ''}"
        for grant in self.grants:
            yield f"{_SIGNS[grant.kind]} access of seat {grant.entry.seat_id} to account {grant.entry.client_id}"


def compare_directories(current: Directory, wanted: Directory, *, complete: bool) -> DirectoryChanges:
    """Return the changes that turn `current` into `wanted`.

    With `complete`, entries that `wanted` does not list are deactivated, disabled or removed. Otherwise only the
    accounts and seats that it lists change; the grants of a listed seat become those listed.
    """
    if complete:
        wanted = _with_missing_deactivated(current, wanted)
    else:
        _check_emails(current, wanted)
    accounts = {account.client_id: account for account in current.accounts}
    seats = {seat.seat_id: seat for seat in current.seats}
    grants = {(grant.seat_id, grant.client_id): grant for grant in current.grants}
    listed_seats = {seat.seat_id for seat in wanted.seats}
    listed_grants = {(grant.seat_id, grant.client_id) for grant in wanted.grants}
    removed_grants = [
        grant
        for key, grant in grants.items()
        if key not in listed_grants and (complete or grant.seat_id in listed_seats)
    ]
    grant_changes = [
        *(_grant_change(grants.get((grant.seat_id, grant.client_id)), grant) for grant in wanted.grants),
        *(Change("removed", grant, grant) for grant in removed_grants),
    ]
    changed_grants = _sorted(grant_changes)
    concerned = {change.entry.seat_id for change in changed_grants}
    return DirectoryChanges(
        _sorted(_account_change(accounts.get(account.client_id), account) for account in wanted.accounts),
        _sorted(_seat_change(seats.get(seat.seat_id), seat) for seat in wanted.seats),
        changed_grants,
        {seat.seat_id: seat.email for seat in (*current.seats, *wanted.seats) if seat.seat_id in concerned},
    )


def _account_change(before: Account | None, account: Account) -> Change[Account] | None:
    if before is None:
        return Change("added", account)
    if before == account:
        return None
    if before.active and not account.active:
        return Change("removed", account, before)
    # The number of messages sent this month differs daily for most accounts.
    counted = replace(before, campaign_messages_monthly_used=account.campaign_messages_monthly_used)
    return Change("counted" if counted == account else "changed", account, before)


def _seat_change(before: Seat | None, seat: Seat) -> Change[Seat] | None:
    """Return the change of a seat, None if no field of the directory differs. A missing password keeps the current one.

    The operator role, the second factor and the last account are not part of a directory.
    """
    if before is None:
        return Change("added", seat)
    if seat.disabled and not before.disabled:
        return Change("removed", seat, before)
    has_new_password = seat.password_hash is not None and seat.password_hash != before.password_hash
    is_changed = before.email != seat.email or before.disabled != seat.disabled or has_new_password
    return Change("changed", seat, before) if is_changed else None


def _grant_change(before: Grant | None, grant: Grant) -> Change[Grant] | None:
    return None if before == grant else Change("added" if before is None else "changed", grant, before)


def _sorted(changes: Iterable[Change[T] | None]) -> list[Change[T]]:
    found = [change for change in changes if change is not None]
    return sorted(found, key=lambda change: _KINDS.index(change.kind))


def _check_emails(current: Directory, wanted: Directory) -> None:
    """Raise OperatorError when a listed seat has the email of a seat that is not listed."""
    listed = {seat.seat_id for seat in wanted.seats}
    owners = {folded_email(seat.email): seat.seat_id for seat in current.seats if seat.seat_id not in listed}
    for seat in wanted.seats:
        owner = owners.get(folded_email(seat.email))
        if owner is not None:
            raise OperatorError(
                f"Seat {seat.seat_id} cannot have the email of seat {owner}. Nothing was changed. List both seats.",
                code="directory_faults",
            )


def check_removals(
    changes: DirectoryChanges, current: Directory, max_removed_share: float, faults: Sequence[str] = ()
) -> None:
    """Raise OperatorError when more than the configured share of accounts, seats or grants would be removed. `faults`
    are those of rows that were left out, which may be the reason.

    A broken query that returns half of the accounts must not lock out the other half. A few removals are always
    allowed, but never of the last ones: a tenth of nine seats is less than one.
    """
    active_accounts = sum(account.active for account in current.accounts)
    enabled_seats = sum(not seat.disabled for seat in current.seats)
    for kind, found, total in (
        ("accounts", changes.accounts, active_accounts),
        ("seats", changes.seats, enabled_seats),
        ("grants", changes.grants, len(current.grants)),
    ):
        removed = sum(change.kind == "removed" for change in found)
        if removed > max_removed_share * total and (removed > ALWAYS_ALLOWED or removed == total):
            raise OperatorError(
                f"The sync would remove {removed} of {total} {kind}, more than the share of {max_removed_share:g} that "
                "directory.max_removed_share allows. Nothing was changed. Check the queries under [directory]. If the "
                "change is intended, run `daybreakd directory sync --accept-removals`."
                + (f"\nRows that were left out:\n{format_faults(faults)}" if faults else ""),
                code="directory_sync_refused",
            )


def apply_changes(stores: Stores, changes: DirectoryChanges, now: datetime, actor: str) -> None:
    """Write the changes in the caller's transaction and revoke sessions and tokens that lost their permission.

    Every change is recorded in the audit trail, except message counts. `actor` is `operator` or `service`.
    """
    directory = stores.directory
    directory.put_accounts(*(change.entry for change in changes.accounts))
    # Addresses can move between seats: first those that move are free, then each seat gets its new one.
    directory.release_emails(*(change.entry for change in changes.seats if change.kind != "added"))
    seats = [change.entry for change in changes.seats]
    reasons = [_end_reason(stores.seats.by_id(seat.seat_id), seat) for seat in seats]
    directory.put_seats(*seats)
    for seat, reason in zip(seats, reasons, strict=True):
        if reason is not None:
            end_credentials(stores, seat.seat_id, reason, now)
    grants = [change.entry for change in changes.grants if change.kind != "removed"]
    removed = [change.entry for change in changes.grants if change.kind == "removed"]
    directory.put_grants(*grants)
    without_tokens = [grant for grant in grants if not grant.allows_tokens]
    stores.api_tokens.revoke_for_grants(without_tokens, now, "grant.changed")
    stores.api_tokens.revoke_for_grants(removed, now, "grant.removed")
    directory.remove_grants(*removed)
    if any(change.kind != "added" for change in changes.grants):
        stop_ownerless_webhooks(stores, now)
    stores.audit.append_all(_events(changes, now, actor))


def _with_missing_deactivated(current: Directory, wanted: Directory) -> Directory:
    """Add the accounts and seats that `wanted` does not list, deactivated and disabled.

    A disabled seat whose address another seat has now gets an unused address (RFC 2606, section 2).
    """
    client_ids = {account.client_id for account in wanted.accounts}
    seat_ids = {seat.seat_id for seat in wanted.seats}
    taken = {folded_email(seat.email) for seat in wanted.seats}

    def disabled(seat: Seat) -> Seat:
        email = free_email(seat.seat_id) if folded_email(seat.email) in taken else seat.email
        return replace(seat, disabled=True, email=email)

    return Directory(
        (*wanted.accounts, *(replace(a, active=False) for a in current.accounts if a.client_id not in client_ids)),
        (*wanted.seats, *(disabled(seat) for seat in current.seats if seat.seat_id not in seat_ids)),
        wanted.grants,
    )


def _end_reason(before: Seat | None, after: Seat) -> EndReason | None:
    """Return why the credentials of a changed seat end, None if they do not. An email may change its case."""
    if before is None:
        return None
    if after.disabled:
        return EndReason.SEAT_DISABLED
    if before.email.lower() != after.email.lower():
        return EndReason.EMAIL_CHANGED
    is_new_password = after.password_hash is not None and after.password_hash != before.password_hash
    return EndReason.PASSWORD_CHANGED if is_new_password else None


def _events(changes: DirectoryChanges, now: datetime, actor: str) -> list[AuditEvent]:
    """Return the audit events of changes. Those of accounts have the settings that differ."""
    event = partial(AuditEvent, now, result="ok", actor=actor)
    events: list[AuditEvent] = []
    for account in changes.accounts:
        if account.kind != "counted":
            action, details = _ACCOUNT_ACTIONS[account.kind], _differences(account.before, account.entry)
            events.append(event(action, client_id=account.entry.client_id, details=details))
    events += (
        event(_SEAT_ACTIONS[seat.kind], seat_id=seat.entry.seat_id, details={"seat": seat.entry.email})
        for seat in changes.seats
    )
    for change in changes.grants:
        grant, is_removed = change.entry, change.kind == "removed"
        details = {
            "seat": changes.emails[grant.seat_id],
            "before": _permissions(change.before),
            "after": _permissions(None if is_removed else grant),
        }
        action = "grant.removed" if is_removed else "grant.changed"
        events.append(event(action, seat_id=grant.seat_id, client_id=grant.client_id, details=details))
    return events


def _differences(before: Account | None, account: Account) -> dict[str, object]:
    """Return the settings of a changed account that differ, except the number of messages sent this month."""
    if before is None:
        return {}
    old, new = to_builtins(before), to_builtins(account)
    names = [name for name in new if old[name] != new[name] and name != "campaign_messages_monthly_used"]
    return {"before": {name: old[name] for name in names}, "after": {name: new[name] for name in names}}


def _permissions(grant: Grant | None) -> dict[str, object] | None:
    if grant is None:
        return None
    return {"roles": list(grant.roles), "data_export": grant.data_export, "async_rest_api": grant.async_rest_api}


def add_seat(stores: Stores, seat: Seat, now: datetime, *, actor: str) -> None:
    """Add a seat. Raises OperatorError if the email is invalid or has a seat already."""
    if not is_email_address(seat.email):
        raise OperatorError(f"Enter an email address such as {EMAIL_EXAMPLE}.")
    if stores.seats.by_email(seat.email) is not None:
        raise OperatorError(f"{seat.email} has a seat already.")
    apply_changes(stores, DirectoryChanges(seats=[Change("added", seat)]), now, actor)


def put_grant(stores: Stores, seat: Seat, grant: Grant, now: datetime, *, actor: str) -> None:
    """Add a grant of a seat, or replace the present one. Raises OperatorError."""
    if not grant.roles or not set(grant.roles) <= set(ROLES):
        raise OperatorError(f"Choose a role: {', '.join(ROLES)}.")
    change = _grant_change(grant_of(stores, seat, grant.client_id), grant)
    if change is not None:
        changes = DirectoryChanges(grants=[change], emails={seat.seat_id: seat.email})
        apply_changes(stores, changes, now, actor)


def remove_grant(stores: Stores, seat: Seat, client_id: str, now: datetime, *, actor: str) -> bool:
    """Remove the grant of a seat on an account. Return False if there is none."""
    grant = grant_of(stores, seat, client_id)
    if grant is None:
        return False
    changes = DirectoryChanges(grants=[Change("removed", grant, grant)], emails={seat.seat_id: seat.email})
    apply_changes(stores, changes, now, actor)
    return True


def set_api_tokens_enabled(stores: Stores, account: Account, now: datetime, *, enabled: bool, actor: str) -> None:
    """Allow or refuse API tokens on an account."""
    if account.api_tokens_enabled != enabled:
        change = Change("changed", replace(account, api_tokens_enabled=enabled), account)
        apply_changes(stores, DirectoryChanges(accounts=[change]), now, actor)


def grant_of(stores: Stores, seat: Seat, client_id: str) -> Grant | None:
    """Return the present grant of a seat on an account, if any."""
    granted = stores.seats.granted_account(seat.seat_id, client_id)
    return None if granted is None else granted.grant
