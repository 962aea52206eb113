"""Accounts, seats and grants from rows of the platform's own database (`[directory]`).

The operator configures one query each for accounts, seats and access. Their columns are named like the fields of the
directory document; a column that is missing or NULL gets the field's default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from daybreak.access.directory.fields import MISSING, Fields, build_directory, read_account, read_grant, read_seat
from daybreak.domain.identity import Account, Grant
from daybreak.state.directory import Directory

Row = Mapping[str, object]


def directory_from_rows(accounts: Sequence[Row], seats: Sequence[Row], access: Sequence[Row]) -> Directory:
    """Build a directory from query results. Raises OperatorError that lists each fault: query, row, column.

    Columns: accounts `client_id, first_name, last_name, phone_number, phone_number_type` and optionally `status,
    campaign_messages_monthly_threshold, campaign_messages_monthly_used, api_tokens_enabled, second_factor_required,
    billing_provided, billing_required, trial_length_days, trial_started`; seats `seat_id, email`, optionally
    `disabled`; access `seat_id, client_id`, optionally `roles` (comma-separated), `data_export, async_rest_api`.
    """
    faults: list[str] = []
    return build_directory(
        [_account(_Row(row, f"accounts row {n}", faults)) for n, row in enumerate(accounts, 1)],
        [read_seat(_Row(row, f"seats row {n}", faults)) for n, row in enumerate(seats, 1)],
        [_grant(_Row(row, f"access row {n}", faults)) for n, row in enumerate(access, 1)],
        faults,
    )


class _Row(Fields):
    """One row of a query, with case-insensitive column names."""

    def __init__(self, row: Row, position: str, faults: list[str]) -> None:
        self._row = {name.lower(): value for name, value in row.items()}
        self._position = position
        self._faults = faults

    def read(self, name: str) -> object:
        value = self._row.get(name)
        if value is None:
            return MISSING
        if isinstance(value, UUID):
            return str(value)
        if name == "roles" and isinstance(value, str):
            return [role.strip() for role in value.split(",") if role.strip()]
        return value

    def add_fault(self, name: str, detail: str) -> None:
        self._faults.append(f"{self._position}: {name} {detail}")


def _account(row: _Row) -> Account:
    # Rows have no nested objects: the columns of the billing state are in the same row.
    return read_account(row, row)


def _grant(row: _Row) -> Grant:
    return read_grant(row, row.uuid("seat_id"))
