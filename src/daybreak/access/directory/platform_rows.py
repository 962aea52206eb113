"""Accounts, seats and grants from rows of the platform's own database (`[directory]`).

The operator configures one query each for accounts, seats and access. Their columns are named like the fields of the
directory document; a column that is missing or NULL gets the field's default. Other columns are refused, because a
misspelled one would have no effect.
"""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import TypeVar
from uuid import UUID

from msgspec.structs import replace

from daybreak.access.directory.fields import MISSING, Fields, format_faults, read_account, read_grant, read_seat
from daybreak.domain.errors import OperatorError
from daybreak.domain.identity import Account, Grant, Seat, folded_email
from daybreak.state.directory import Directory, free_email

Row = Mapping[str, object]
T = TypeVar("T", Account, Seat, Grant)


def directory_from_rows(
    accounts: Sequence[Row], seats: Sequence[Row], access: Sequence[Row], current: Directory
) -> tuple[Directory, list[str]]:
    """Build a directory from query results. Return it with the faults, which name query, row, identifier and column.

    An account, seat or grant with a fault stays as it is in `current`, so that one bad row does not stop the others: a
    person who left must lose access. Platforms erase the fields of accounts and seats that are no longer active, so an
    inactive one is deactivated whatever its other fields are. Faults do not repeat values, because they are logged.
    Raises OperatorError when a query returns unknown columns.

    Columns: accounts `client_id, first_name, last_name, phone_number, phone_number_type` and optionally `status,
    campaign_messages_monthly_threshold, campaign_messages_monthly_used, api_tokens_enabled, second_factor_required,
    billing_provided, billing_required, trial_length_days, trial_started`; seats `seat_id, email`, optionally
    `disabled`; access `seat_id, client_id`, optionally `roles` (comma-separated), `data_export, async_rest_api`.
    """
    faults: list[str] = []
    known_accounts = {account.client_id: account for account in current.accounts}
    found_accounts = _valid(
        "accounts", accounts, _account, lambda account: account.client_id, _account_after, known_accounts, faults
    )
    known_seats = {seat.seat_id: seat for seat in current.seats}
    found_seats = _valid("seats", seats, read_seat, lambda seat: seat.seat_id, _seat_after, known_seats, faults)
    _resolve_emails(found_seats, known_seats, faults)
    known_grants = {_grant_key(grant): grant for grant in current.grants}
    found_grants = _valid("access", access, _grant, _grant_key, lambda _, known: known, known_grants, faults)
    for key in list(found_grants):
        seat_id, _, client_id = key.partition(" ")
        if seat_id not in found_seats or client_id not in found_accounts:
            missing = f"seat {seat_id}" if seat_id not in found_seats else f"account {client_id}"
            faults.append(f"access: a row names the {missing}, which is not listed")
            del found_grants[key]
    directory = Directory(tuple(found_accounts.values()), tuple(found_seats.values()), tuple(found_grants.values()))
    return directory, faults


def _valid(
    query: str,
    rows: Sequence[Row],
    read: "Callable[[_Row], T]",
    key_of: Callable[[T], str],
    after_fault: Callable[[T, T], T],
    current: Mapping[str, T],
    faults: list[str],
) -> dict[str, T]:
    """Return the entries by key. Repeated ones are those of `current`, or left out. So are invalid ones, after
    `after_fault`.
    """
    found: dict[str, T] = {}
    invalid: set[str] = set()
    repeated: set[str] = set()
    for number, row in enumerate(rows, 1):
        own: list[str] = []
        fields = _Row(row, own)
        value = read(fields)
        if number == 1:
            fields.refuse_unknown_columns(query)
        key = key_of(value).strip()
        if key in found or key in invalid:
            own.append("its identifier appears twice")
            repeated.add(key)
        if own:
            invalid.add(key)
            faults += (f"{query} row {number}{f' ({key})' if key else ''}: {fault}" for fault in own)
        found[key] = value
    for key in invalid:
        value = found.pop(key)
        if key in current:
            found[key] = current[key] if key in repeated else after_fault(value, current[key])
    return found


def _account_after(row: Account, current: Account) -> Account:
    return current if row.active else replace(current, active=False)


def _seat_after(row: Seat, current: Seat) -> Seat:
    return replace(current, disabled=True) if row.disabled else current


def _resolve_emails(seats: dict[str, Seat], current: Mapping[str, Seat], faults: list[str]) -> None:
    """Replace seats that share an address by their present state, and leave out new ones.

    A disabled seat leaves its address to the others, such as the next seat of the same person.
    """
    for ids in _with_shared_email(seats):
        for seat_id in ids:
            if seats[seat_id].disabled:
                seats[seat_id] = replace(seats[seat_id], email=free_email(seat_id))
    while shared := _with_shared_email(seats):
        for ids in shared:
            faults.append(f"seats: {', '.join(ids)} have the same email")
            for seat_id in ids:
                if seat_id in current and seats[seat_id] != current[seat_id]:
                    seats[seat_id] = current[seat_id]
                elif seat_id not in current:
                    del seats[seat_id]


def _with_shared_email(seats: Mapping[str, Seat]) -> list[list[str]]:
    """Return the ids of seats that have the same address, one list for each address."""
    owners: dict[str, list[str]] = {}
    for seat in seats.values():
        owners.setdefault(folded_email(seat.email), []).append(seat.seat_id)
    return [ids for ids in owners.values() if len(ids) > 1]


def _grant_key(grant: Grant) -> str:
    return f"{grant.seat_id} {grant.client_id}"


class _Row(Fields):
    """One row of a query, with case-insensitive column names."""

    def __init__(self, row: Row, faults: list[str]) -> None:
        self._row = {name.lower(): value for name, value in row.items()}
        self._faults = faults
        self._known: set[str] = set()

    def read(self, name: str) -> object:
        self._known.add(name)
        value = self._row.get(name)
        if value is None:
            return MISSING
        if isinstance(value, UUID):
            return str(value)
        if name == "roles" and isinstance(value, str):
            return [role.strip() for role in value.split(",") if role.strip()]
        return value

    def add_fault(self, name: str, detail: str) -> None:
        self._faults.append(f"{name} {detail.partition(', not ')[0]}")

    def refuse_unknown_columns(self, query: str) -> None:
        """Raise OperatorError when the row has columns that were not read."""
        absent = sorted(self._known - self._row.keys())
        faults = []
        for name in sorted(self._row.keys() - self._known):
            near = get_close_matches(name, absent, n=1, cutoff=0.5)
            faults.append(f"{name}: " + (f"did you mean {near[0]}?" if near else "leave it out."))
        if faults:
            raise OperatorError(
                f"The query directory.{query} returns columns that have no meaning. Nothing was changed.\n"
                + format_faults(faults),
                code="directory_faults",
            )


def _account(row: _Row) -> Account:
    # Rows have no nested objects: the columns of the billing state are in the same row.
    return read_account(row, row)


def _grant(row: _Row) -> Grant:
    return read_grant(row, row.uuid("seat_id"))
