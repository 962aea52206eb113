"""Accounts, seats and grants from rows of the platform's own database (`[directory]`).

The operator names one query each for accounts, seats and access. Their columns have the names of
the directory file's fields; a missing optional column takes the field's default. Every fault is
listed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from daybreak.domain.errors import OperatorError
from daybreak.domain.identity import (
    PHONE_NUMBER_TYPES,
    ROLES,
    Account,
    BillingState,
    Grant,
    Seat,
)
from daybreak.ports import Directory

Row = Mapping[str, object]
_MISSING = object()
_MOST_FAULTS_SHOWN = 20


def directory_from_rows(accounts: Sequence[Row], seats: Sequence[Row], access: Sequence[Row]) -> Directory:
    """Rows to one Directory value. Raises OperatorError with each fault: query, row, column.

    Columns: accounts `client_id, first_name, last_name, phone_number, phone_number_type` and
    optionally `status, campaign_messages_monthly_threshold, campaign_messages_monthly_used,
    api_tokens_enabled, second_factor_required, billing_provided, billing_required,
    trial_length_days, trial_started`; seats `seat_id, email`, optionally `disabled`; access
    `seat_id, client_id`, optionally `roles` (comma-separated), `data_export, async_rest_api`.
    """
    faults: list[str] = []
    read_accounts = [_account(_Reader(row, f"accounts row {n}", faults)) for n, row in enumerate(accounts, 1)]
    read_seats = [_seat(_Reader(row, f"seats row {n}", faults)) for n, row in enumerate(seats, 1)]
    read_grants = [_grant(_Reader(row, f"access row {n}", faults)) for n, row in enumerate(access, 1)]
    for what, keys in (
        ("accounts: client_id", [account.client_id for account in read_accounts]),
        ("seats: seat_id", [seat.seat_id for seat in read_seats]),
        ("seats: email", [seat.email.casefold() for seat in read_seats]),
        ("access: seat_id and client_id", [(g.seat_id, g.client_id) for g in read_grants]),
    ):
        if len(set(keys)) != len(keys):
            faults.append(f"{what} is not unique")
    known_accounts = {account.client_id for account in read_accounts}
    known_seats = {seat.seat_id for seat in read_seats}
    faults += [
        f"access names {grant.seat_id} on {grant.client_id}, which the other queries do not"
        for grant in read_grants
        if grant.client_id not in known_accounts or grant.seat_id not in known_seats
    ]
    if faults:
        shown = "".join(f"\n- {fault}" for fault in faults[:_MOST_FAULTS_SHOWN])
        raise OperatorError(
            f"The queries under [directory] gave {len(faults)} faults; nothing was changed:{shown}",
            code="directory_faults",
        )
    return Directory(tuple(read_accounts), tuple(read_seats), tuple(read_grants))


class _Reader:
    """One row; a fault is noted, and the field's empty value goes on in its place."""

    def __init__(self, row: Row, where: str, faults: list[str]) -> None:
        self._row = {name.lower(): value for name, value in row.items()}
        self._where = where
        self._faults = faults

    def _value(self, column: str, default: object) -> object:
        value = self._row.get(column, _MISSING)
        if value is _MISSING or value is None:
            if default is _MISSING:
                self._faults.append(f"{self._where}: {column} is missing or NULL")
            return default
        return value

    def text(self, column: str, default: object = _MISSING) -> str:
        value = self._value(column, default)
        return "" if value is _MISSING else str(value)

    def uuid(self, column: str) -> str:
        value = self._value(column, _MISSING)
        if value is _MISSING:
            return ""
        try:
            return str(UUID(str(value)))
        except ValueError:
            self._faults.append(f"{self._where}: {column} is not a UUID: {value!r}")
            return ""

    def flag(self, column: str) -> bool:
        value = self._value(column, False)
        if isinstance(value, bool):
            return value
        self._faults.append(f"{self._where}: {column} is not a boolean: {value!r}")
        return False

    def count(self, column: str) -> int:
        value = self._value(column, 0)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        self._faults.append(f"{self._where}: {column} is not a whole number from 0: {value!r}")
        return 0

    def one_of(self, column: str, allowed: Sequence[str], default: object = _MISSING) -> str:
        value = self.text(column, default)
        if value and value not in allowed:
            self._faults.append(f"{self._where}: {column} is {value!r}, not one of {', '.join(allowed)}")
        return value

    def checked(self, column: str, is_good: Callable[[str], bool], expected: str) -> str:
        value = self.text(column)
        if value and not is_good(value):
            self._faults.append(f"{self._where}: {column} is {value!r}, not {expected}")
        return value

    def roles(self) -> tuple[str, ...]:
        roles = tuple(r.strip() for r in self.text("roles", "").split(",") if r.strip())
        for role in roles:
            if role not in ROLES:
                self._faults.append(f"{self._where}: role {role!r} is not one of {', '.join(ROLES)}")
        return roles


def _account(row: _Reader) -> Account:
    return Account(
        client_id=row.uuid("client_id"),
        first_name=row.text("first_name"),
        last_name=row.text("last_name"),
        phone_number=row.checked("phone_number", _is_e164, "a number such as +15550100"),
        phone_number_type=row.one_of("phone_number_type", PHONE_NUMBER_TYPES),
        active=row.one_of("status", ("active", "inactive"), "active") == "active",
        campaign_messages_monthly_threshold=row.count("campaign_messages_monthly_threshold"),
        campaign_messages_monthly_used=row.count("campaign_messages_monthly_used"),
        api_tokens_enabled=row.flag("api_tokens_enabled"),
        second_factor_required=row.flag("second_factor_required"),
        billing=BillingState(
            billing_provided=row.flag("billing_provided"),
            billing_required=row.flag("billing_required"),
            trial_length_days=row.count("trial_length_days"),
            trial_started=row.flag("trial_started"),
        ),
    )


def _seat(row: _Reader) -> Seat:
    return Seat(
        seat_id=row.uuid("seat_id"),
        email=row.checked("email", lambda text: "@" in text[1:-1], "an email address"),
        disabled=row.flag("disabled"),
    )


def _grant(row: _Reader) -> Grant:
    return Grant(
        seat_id=row.uuid("seat_id"),
        client_id=row.uuid("client_id"),
        roles=row.roles(),
        data_export=row.flag("data_export"),
        async_rest_api=row.flag("async_rest_api"),
    )


def _is_e164(text: str) -> bool:
    return text.startswith("+") and text[1:].isascii() and text[1:].isdigit() and len(text) <= 16
