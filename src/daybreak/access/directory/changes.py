"""Differences between the state database and a directory, and how they are applied, also single ones by an operator.

An import adds and changes entries. A sync is complete: accounts that it does not list are deactivated, seats disabled
and grants removed; accounts and seats are never deleted. Sessions and API tokens that lose their permission are revoked
in the same transaction, with an audit event each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

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

ALWAYS_ALLOWED = 5
"""Removals of accounts, seats or grants that a sync may make, whatever their share."""


@dataclass(frozen=True, slots=True)
class DirectoryChanges:
    """Differences between the state database and a directory.

    `usage_changed_accounts` differ only in the number of messages sent this month.
    """

    added_accounts: tuple[Account, ...] = ()
    changed_accounts: tuple[Account, ...] = ()
    deactivated_accounts: tuple[Account, ...] = ()
    usage_changed_accounts: tuple[Account, ...] = ()
    added_seats: tuple[Seat, ...] = ()
    changed_seats: tuple[Seat, ...] = ()
    disabled_seats: tuple[Seat, ...] = ()
    added_grants: tuple[Grant, ...] = ()
    changed_grants: tuple[Grant, ...] = ()
    removed_grants: tuple[Grant, ...] = ()
    previous_grants: Mapping[tuple[str, str], Grant] = field(default_factory=dict, compare=False)
    """The present grant of each changed one, by seat_id and client_id."""
    emails: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Email of each seat whose grants change, by seat_id."""
    previous_accounts: Mapping[str, Account] = field(default_factory=dict, compare=False)
    """The present state of each changed or deactivated account, by client_id."""

    @property
    def is_empty(self) -> bool:
        """Whether there is no difference."""
        return not any(True for _ in self.lines())

    def lines(self) -> Iterator[str]:
        """Format one line per change; all message counts share one line."""
        for account in self.added_accounts:
            yield f"+ account {account.client_id} {account.name}"
        for account in self.changed_accounts:
            yield f"~ account {account.client_id} {account.name}"
        for account in self.deactivated_accounts:
            yield f"- account {account.client_id} {account.name} (deactivated)"
        if self.usage_changed_accounts:
            yield f"~ messages sent this month, of {format_count(len(self.usage_changed_accounts), 'account')}"
        for seat in self.added_seats:
            yield f"+ seat {seat.email}"
        for seat in self.changed_seats:
            yield f"~ seat {seat.email}"
        for seat in self.disabled_seats:
            yield f"- seat {seat.email} (disabled)"
        for sign, grants in (("+", self.added_grants), ("~", self.changed_grants), ("-", self.removed_grants)):
            for grant in grants:
                yield f"{sign} access of seat {grant.seat_id} to account {grant.client_id}"


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
    other_accounts = [a for a in wanted.accounts if accounts.get(a.client_id, a) != a]
    other_seats = [s for s in wanted.seats if s.seat_id in seats and _seat_differs(seats[s.seat_id], s)]
    deactivated = [a for a in other_accounts if accounts[a.client_id].active and not a.active]
    usage_changed = [a for a in other_accounts if _only_usage_differs(accounts[a.client_id], a)]
    disabled = [s for s in other_seats if s.disabled and not seats[s.seat_id].disabled]
    reported = {a.client_id for a in (*deactivated, *usage_changed)}
    disabled_ids = {s.seat_id for s in disabled}
    added_grants = tuple(g for g in wanted.grants if (g.seat_id, g.client_id) not in grants)
    changed_grants = tuple(g for g in wanted.grants if grants.get((g.seat_id, g.client_id), g) != g)
    removed_grants = tuple(
        grant
        for key, grant in grants.items()
        if key not in listed_grants and (complete or grant.seat_id in listed_seats)
    )
    concerned = {grant.seat_id for grant in (*added_grants, *changed_grants, *removed_grants)}
    return DirectoryChanges(
        added_accounts=tuple(a for a in wanted.accounts if a.client_id not in accounts),
        changed_accounts=tuple(a for a in other_accounts if a.client_id not in reported),
        deactivated_accounts=tuple(deactivated),
        usage_changed_accounts=tuple(usage_changed),
        added_seats=tuple(s for s in wanted.seats if s.seat_id not in seats),
        changed_seats=tuple(s for s in other_seats if s.seat_id not in disabled_ids),
        disabled_seats=tuple(disabled),
        added_grants=added_grants,
        changed_grants=changed_grants,
        removed_grants=removed_grants,
        previous_grants={(g.seat_id, g.client_id): grants[g.seat_id, g.client_id] for g in changed_grants},
        emails={s.seat_id: s.email for s in (*current.seats, *wanted.seats) if s.seat_id in concerned},
        previous_accounts={a.client_id: accounts[a.client_id] for a in other_accounts},
    )


def _check_emails(current: Directory, wanted: Directory) -> None:
    """Raise OperatorError when a listed seat has the email of a seat that is not listed."""
    listed = {seat.seat_id for seat in wanted.seats}
    owners = {folded_email(seat.email): seat.seat_id for seat in current.seats if seat.seat_id not in listed}
    for seat in wanted.seats:
        owner = owners.get(folded_email(seat.email))
        if owner is not None:
            raise OperatorError(
                f"Seat {seat.seat_id} cannot have the email {seat.email}, which belongs to seat {owner}. Nothing was "
                "changed. List both seats in the document.",
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
    for kind, removed, total in (
        ("accounts", len(changes.deactivated_accounts), active_accounts),
        ("seats", len(changes.disabled_seats), enabled_seats),
        ("grants", len(changes.removed_grants), len(current.grants)),
    ):
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
    directory, events = stores.directory, _EventList(now, actor)
    directory.put_accounts(*changes.usage_changed_accounts)
    for action, accounts in (
        ("account.added", changes.added_accounts),
        ("account.changed", changes.changed_accounts),
        ("account.deactivated", changes.deactivated_accounts),
    ):
        directory.put_accounts(*accounts)
        for account in accounts:
            events.add_account(action, changes.previous_accounts.get(account.client_id), account)
    # Addresses can move between seats: first those that move are free, then each seat gets its new one.
    directory.release_emails(*changes.changed_seats, *changes.disabled_seats)
    for action, seats in (
        ("seat.added", changes.added_seats),
        ("seat.changed", changes.changed_seats),
        ("seat.disabled", changes.disabled_seats),
    ):
        ended = [(seat, _end_reason(stores.seats.by_id(seat.seat_id), seat)) for seat in seats]
        directory.put_seats(*seats)
        for seat, reason in ended:
            if reason is not None:
                end_credentials(stores, seat.seat_id, reason, now)
        for seat in seats:
            events.add(action, seat_id=seat.seat_id, seat=seat.email)
    grants = (*changes.added_grants, *changes.changed_grants)
    directory.put_grants(*grants)
    without_tokens = [grant for grant in grants if not grant.allows_tokens]
    stores.api_tokens.revoke_for_grants(without_tokens, now, "grant.changed")
    for grant in grants:
        before = changes.previous_grants.get((grant.seat_id, grant.client_id))
        events.add_grant("grant.changed", changes.emails, before, grant)
    stores.api_tokens.revoke_for_grants(changes.removed_grants, now, "grant.removed")
    directory.remove_grants(*changes.removed_grants)
    for grant in changes.removed_grants:
        events.add_grant("grant.removed", changes.emails, grant, None)
    if changes.changed_grants or changes.removed_grants:
        stop_ownerless_webhooks(stores, now)
    stores.audit.append_all(events.events)


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


def _only_usage_differs(known: Account, wanted: Account) -> bool:
    """Whether only the number of messages sent this month differs, as it does daily for most accounts."""
    return replace(known, campaign_messages_monthly_used=wanted.campaign_messages_monthly_used) == wanted


def _seat_differs(known: Seat, wanted: Seat) -> bool:
    """Return whether a field of the directory differs. A missing password keeps the current one.

    The operator role, the second factor and the last account are not part of a directory.
    """
    return (
        known.email != wanted.email
        or known.disabled != wanted.disabled
        or (wanted.password_hash is not None and known.password_hash != wanted.password_hash)
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


_USAGE = ("campaign_messages_monthly_used",)


class _EventList:
    """Audit events of one import or sync."""

    def __init__(self, now: datetime, actor: str) -> None:
        self._now = now
        self._actor = actor
        self.events: list[AuditEvent] = []

    def add(self, action: str, *, seat_id: str | None = None, client_id: str | None = None, **details: object) -> None:
        self.events.append(
            AuditEvent(
                at=self._now,
                action=action,
                result="ok",
                actor=self._actor,
                seat_id=seat_id,
                client_id=client_id,
                details=details,
            )
        )

    def add_account(self, action: str, before: Account | None, after: Account) -> None:
        """Add the event of an account that was added or changed, with the settings that differ."""
        if before is None:
            self.add(action, client_id=after.client_id)
            return
        old, new = to_builtins(before), to_builtins(after)
        names = [name for name in new if old[name] != new[name] and name not in _USAGE]
        self.add(
            action,
            client_id=after.client_id,
            before={name: old[name] for name in names},
            after={name: new[name] for name in names},
        )

    def add_grant(self, action: str, emails: Mapping[str, str], before: Grant | None, after: Grant | None) -> None:
        """Add the event of a grant that was added, changed or removed, with the email of its seat."""
        grant = after or before
        assert grant is not None
        self.add(
            action,
            seat_id=grant.seat_id,
            client_id=grant.client_id,
            seat=emails[grant.seat_id],
            before=_permissions(before),
            after=_permissions(after),
        )


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
