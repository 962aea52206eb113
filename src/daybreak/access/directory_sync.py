"""Bringing accounts, seats and grants in line with a list of them: an import or a whole sync.

An import adds and changes. A sync is told the whole truth: what it does not name is deactivated
(accounts), disabled (seats) or taken away (grants), never deleted. What loses its right loses its
sessions and API tokens in the same transaction, with an audit event each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from daybreak.domain.audit import AuditEvent
from daybreak.domain.errors import OperatorError
from daybreak.domain.identity import Account, Grant, Seat
from daybreak.ports.access_stores import Directory
from daybreak.ports.state import Stores


@dataclass(frozen=True, slots=True)
class DirectoryChanges:
    """The difference between the state database and a list. Empty tuples when there is none.

    `counted_accounts` differ in the messages they have sent this month and in nothing else.
    """

    added_accounts: tuple[Account, ...] = ()
    changed_accounts: tuple[Account, ...] = ()
    deactivated_accounts: tuple[Account, ...] = ()
    counted_accounts: tuple[Account, ...] = ()
    added_seats: tuple[Seat, ...] = ()
    changed_seats: tuple[Seat, ...] = ()
    disabled_seats: tuple[Seat, ...] = ()
    added_grants: tuple[Grant, ...] = ()
    changed_grants: tuple[Grant, ...] = ()
    removed_grants: tuple[Grant, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True when the state database says the same already."""
        return not any(True for _ in self.lines())

    def lines(self) -> Iterator[str]:
        """One line for each change, for `--dry-run`; all counts of messages are one."""
        for account in self.added_accounts:
            yield f"+ account {account.client_id} {account.name}"
        for account in self.changed_accounts:
            yield f"~ account {account.client_id} {account.name}"
        for account in self.deactivated_accounts:
            yield f"- account {account.client_id} {account.name} (deactivated)"
        if self.counted_accounts:
            yield f"~ messages sent this month, of {len(self.counted_accounts)} accounts"
        for seat in self.added_seats:
            yield f"+ seat {seat.email}"
        for seat in self.changed_seats:
            yield f"~ seat {seat.email}"
        for seat in self.disabled_seats:
            yield f"- seat {seat.email} (disabled)"
        for sign, grants in (
            ("+", self.added_grants),
            ("~", self.changed_grants),
            ("-", self.removed_grants),
        ):
            for grant in grants:
                yield f"{sign} access of seat {grant.seat_id} to account {grant.client_id}"


def directory_changes(current: Directory, wanted: Directory, *, whole: bool) -> DirectoryChanges:
    """What must change so that the state database says what `wanted` says.

    `whole`: `wanted` is all there is, so what it leaves out is taken away. Otherwise only what it
    names is touched, and the grants of a seat that it names are those it lists.
    """
    if whole:
        wanted = _with_the_rest_off(current, wanted)
    accounts = {account.client_id: account for account in current.accounts}
    seats = {seat.seat_id: seat for seat in current.seats}
    grants = {(grant.seat_id, grant.client_id): grant for grant in current.grants}
    named_seats = {seat.seat_id for seat in wanted.seats}
    named_grants = {(grant.seat_id, grant.client_id) for grant in wanted.grants}
    other_accounts = [a for a in wanted.accounts if accounts.get(a.client_id, a) != a]
    other_seats = [s for s in wanted.seats if s.seat_id in seats and _seat_differs(seats[s.seat_id], s)]
    deactivated = [a for a in other_accounts if accounts[a.client_id].active and not a.active]
    counted = [a for a in other_accounts if _counts_apart(accounts[a.client_id], a)]
    disabled = [s for s in other_seats if s.disabled and not seats[s.seat_id].disabled]
    apart = {a.client_id for a in (*deactivated, *counted)}
    disabled_ids = {s.seat_id for s in disabled}
    return DirectoryChanges(
        added_accounts=tuple(a for a in wanted.accounts if a.client_id not in accounts),
        changed_accounts=tuple(a for a in other_accounts if a.client_id not in apart),
        deactivated_accounts=tuple(deactivated),
        counted_accounts=tuple(counted),
        added_seats=tuple(s for s in wanted.seats if s.seat_id not in seats),
        changed_seats=tuple(s for s in other_seats if s.seat_id not in disabled_ids),
        disabled_seats=tuple(disabled),
        added_grants=tuple(g for g in wanted.grants if (g.seat_id, g.client_id) not in grants),
        changed_grants=tuple(g for g in wanted.grants if grants.get((g.seat_id, g.client_id), g) != g),
        removed_grants=tuple(
            grant
            for key, grant in grants.items()
            if key not in named_grants and (whole or grant.seat_id in named_seats)
        ),
    )


def require_modest(changes: DirectoryChanges, current: Directory, max_removed_share: float) -> None:
    """Raises OperatorError when a sync would take away more than the configured share.

    A broken query that answers with half of the accounts must not shut out the other half.
    """
    active_accounts = sum(account.active for account in current.accounts)
    working_seats = sum(not seat.disabled for seat in current.seats)
    for what, removed, total in (
        ("accounts", len(changes.deactivated_accounts), active_accounts),
        ("seats", len(changes.disabled_seats), working_seats),
        ("grants", len(changes.removed_grants), len(current.grants)),
    ):
        if total and removed / total > max_removed_share:
            raise OperatorError(
                f"The sync would take away {removed} of {total} {what}, more than the share of "
                f"{max_removed_share:g} that directory.max_removed_share allows. Nothing was "
                "changed. Check the queries under [directory]; if the change is meant, run "
                "`daybreakd directory sync --accept-removals`.",
                code="directory_sync_refused",
            )


def apply_changes(stores: Stores, changes: DirectoryChanges, now: datetime, actor: str) -> None:
    """Writes the changes within the caller's transaction, ends what lost its right, and tells
    the audit trail of each but of messages counted. `actor` is `operator` or `service`.
    """
    directory, events = stores.directory, _Events(now, actor)
    directory.put_accounts(*changes.counted_accounts)
    for action, accounts in (
        ("account.added", changes.added_accounts),
        ("account.changed", changes.changed_accounts),
        ("account.deactivated", changes.deactivated_accounts),
    ):
        directory.put_accounts(*accounts)
        for account in accounts:
            events.tell(action, client_id=account.client_id)
    for action, seats in (
        ("seat.added", changes.added_seats),
        ("seat.changed", changes.changed_seats),
        ("seat.disabled", changes.disabled_seats),
    ):
        directory.put_seats(*seats)
        for seat in seats:
            if seat.disabled or (action == "seat.changed" and seat.password_hash is not None):
                stores.sessions.end_all(seat.seat_id, now, action)
            events.tell(action, seat_id=seat.seat_id)
    given = (*changes.added_grants, *changes.changed_grants)
    directory.put_grants(*given)
    without_tokens = [grant for grant in given if not (grant.data_export and grant.async_rest_api)]
    stores.api_tokens.revoke_for_grants(without_tokens, now, "grant.changed")
    for grant in given:
        events.tell(
            "grant.changed",
            seat_id=grant.seat_id,
            client_id=grant.client_id,
            roles=list(grant.roles),
            data_export=grant.data_export,
            async_rest_api=grant.async_rest_api,
        )
    stores.api_tokens.revoke_for_grants(changes.removed_grants, now, "grant.removed")
    directory.remove_grants(*changes.removed_grants)
    for grant in changes.removed_grants:
        events.tell("grant.removed", seat_id=grant.seat_id, client_id=grant.client_id)
    stores.audit.append_all(events.told)


def _with_the_rest_off(current: Directory, wanted: Directory) -> Directory:
    """What is wanted, and all accounts and seats that it leaves out, switched off."""
    client_ids = {account.client_id for account in wanted.accounts}
    seat_ids = {seat.seat_id for seat in wanted.seats}
    return Directory(
        (*wanted.accounts, *(replace(a, active=False) for a in current.accounts if a.client_id not in client_ids)),
        (*wanted.seats, *(replace(s, disabled=True) for s in current.seats if s.seat_id not in seat_ids)),
        wanted.grants,
    )


def _counts_apart(known: Account, wanted: Account) -> bool:
    """Whether only the messages sent this month differ: with most accounts they do every day."""
    return replace(known, campaign_messages_monthly_used=wanted.campaign_messages_monthly_used) == wanted


def _seat_differs(known: Seat, wanted: Seat) -> bool:
    """A list never holds the operator role, the second factor or the last account of a seat; a
    missing password leaves the one that is there.
    """
    return (
        known.email != wanted.email
        or known.disabled != wanted.disabled
        or (wanted.password_hash is not None and known.password_hash != wanted.password_hash)
    )


class _Events:
    """What the audit trail is told of one import or sync."""

    def __init__(self, now: datetime, actor: str) -> None:
        self._now = now
        self._actor = actor
        self.told: list[AuditEvent] = []

    def tell(self, action: str, *, seat_id: str | None = None, client_id: str | None = None, **details: object) -> None:
        self.told.append(
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
