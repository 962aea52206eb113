"""Validation of the fields of accounts, seats and grants, the same for every input format.

Each format (a JSON document, rows of the platform's database) defines how a field is read. An invalid field is recorded
as a fault and replaced by an empty value, so that all faults are reported together.
"""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from typing import Final
from uuid import UUID

from daybreak.domain.email_address import is_email_address
from daybreak.domain.errors import OperatorError
from daybreak.domain.identity import (
    PHONE_NUMBER_TYPES,
    ROLES,
    Account,
    BillingState,
    Grant,
    Seat,
    folded_email,
)
from daybreak.domain.visible_text import HIDDEN_CHARACTERS, INVISIBLE_CHARACTERS
from daybreak.state.directory import Directory

MISSING: Final = object()
_UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
# Short codes with a country code have as few as three digits.
_E164 = re.compile(r"\+[1-9][0-9]{2,14}", re.ASCII)
_MAX_NAME_LENGTH = 200
_MAX_FAULTS_SHOWN = 50


class Fields(ABC):
    """The fields of one account, seat or grant. Each field is read once."""

    @abstractmethod
    def read(self, name: str) -> object:
        """Return the value of a field, MISSING when it is absent."""

    @abstractmethod
    def add_fault(self, name: str, detail: str) -> None:
        """Record a fault of a field."""

    def text(self, name: str, is_valid: Callable[[str], bool], expected: str) -> str:
        """Read a required text."""
        value = self.read(name)
        if isinstance(value, str) and "\0" not in value and is_valid(value):
            return value
        self._refuse(name, value, expected)
        return ""

    def personal_name(self, name: str) -> str:
        """Read a required name, without invisible characters. Those that reorder the text around it become a space."""
        found = self.text(
            name, lambda text: len(text) <= _MAX_NAME_LENGTH, f"text of at most {_MAX_NAME_LENGTH} characters"
        )
        if HIDDEN_CHARACTERS.search(found):
            return HIDDEN_CHARACTERS.sub(" ", INVISIBLE_CHARACTERS.sub("", found)).strip()
        return found

    def uuid(self, name: str) -> str:
        """Read a required UUID as lower-case text with dashes."""
        found = self.text(name, lambda text: _UUID.fullmatch(text) is not None, "a UUID")
        return str(UUID(found)) if found else ""

    def one_of(self, name: str, allowed: Sequence[str], default: str | None = None) -> str:
        """Read one of a few words; required when there is no default."""
        value = self.read(name)
        if value is MISSING and default is not None:
            return default
        if isinstance(value, str) and value in allowed:
            return value
        self._refuse(name, value, f"one of {', '.join(allowed)}")
        return allowed[0]

    def flag(self, name: str) -> bool:
        """Read true or false; false when absent."""
        value = self.read(name)
        if value is not MISSING and not isinstance(value, bool):
            self._refuse(name, value, "true or false")
        return value is True

    def count(self, name: str) -> int:
        """Read a whole number that is not negative; 0 when absent."""
        value = self.read(name)
        if value is MISSING:
            return 0
        count = _whole(value)
        if count is not None:
            return count
        self._refuse(name, value, "a whole number from 0")
        return 0

    def roles(self) -> tuple[str, ...]:
        """Read the roles of a grant; none when absent."""
        value = self.read("roles")
        roles = [] if value is MISSING else value
        if isinstance(roles, list) and all(role in ROLES for role in roles) and len(set(roles)) == len(roles):
            return tuple(roles)
        self._refuse("roles", value, f"a list of {', '.join(ROLES)}, each at most once")
        return ()

    def _refuse(self, name: str, value: object, expected: str) -> None:
        problem = f"is missing: it must be {expected}"
        # The value comes last: faults of rows leave it out.
        self.add_fault(name, problem if value is MISSING else f"must be {expected}, not {_quoted(value)}")


def _whole(value: object) -> int | None:
    """Return a number from 0 to 2^53 without a fraction, None for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    # From a NUMERIC column, such as the sum of integers. NaN cannot be compared.
    if isinstance(value, Decimal) and not value.is_finite():
        return None
    return int(value) if 0 <= value < 2**53 and value == int(value) else None


def read_account(row: Fields, billing: Fields) -> Account:
    """Read an account. `billing` holds the fields of its `onboarding_billing_state`."""
    return Account(
        client_id=row.uuid("client_id"),
        first_name=row.personal_name("first_name"),
        last_name=row.personal_name("last_name"),
        phone_number=row.text(
            "phone_number", lambda text: _E164.fullmatch(text) is not None, "a number such as +15550100000"
        ),
        phone_number_type=row.one_of("phone_number_type", PHONE_NUMBER_TYPES),
        active=row.one_of("status", ("active", "inactive"), "active") == "active",
        campaign_messages_monthly_threshold=row.count("campaign_messages_monthly_threshold"),
        campaign_messages_monthly_used=row.count("campaign_messages_monthly_used"),
        api_tokens_enabled=row.flag("api_tokens_enabled"),
        second_factor_required=row.flag("second_factor_required"),
        billing=BillingState(
            billing_provided=billing.flag("billing_provided"),
            billing_required=billing.flag("billing_required"),
            trial_length_days=billing.count("trial_length_days"),
            trial_started=billing.flag("trial_started"),
        ),
    )


def read_seat(row: Fields) -> Seat:
    """Read a seat, without its password."""
    return Seat(
        seat_id=row.uuid("seat_id"),
        email=row.text("email", is_email_address, "an email address"),
        disabled=row.flag("disabled"),
    )


def read_grant(row: Fields, seat_id: str) -> Grant:
    """Read the permissions of that seat on one account."""
    return Grant(
        seat_id=seat_id,
        client_id=row.uuid("client_id"),
        roles=row.roles(),
        data_export=row.flag("data_export"),
        async_rest_api=row.flag("async_rest_api"),
    )


def build_directory(
    accounts: Sequence[Account],
    seats: Sequence[Seat],
    grants: Sequence[Grant],
    faults: list[str],
    known_accounts: Collection[str] = (),
) -> Directory:
    """Build a directory and check that its ids are unique and its grants refer to listed seats and to accounts that are
    listed or known.

    Raises OperatorError(directory_faults) that lists `faults` and those found here.
    """
    faults += _repeated("accounts: client_id", [account.client_id for account in accounts])
    faults += _repeated("seats: seat_id", [seat.seat_id for seat in seats])
    faults += _repeated("seats: email", [folded_email(seat.email) for seat in seats])
    faults += _repeated("access: seat_id and client_id", [f"{g.seat_id} {g.client_id}" for g in grants if g.client_id])
    client_ids = {*known_accounts, *(account.client_id for account in accounts)}
    seat_ids = {seat.seat_id for seat in seats}
    for grant in grants:
        if grant.client_id and grant.client_id not in client_ids:
            faults.append(f"access of seat {grant.seat_id} names the account {grant.client_id}, which does not exist")
        if grant.seat_id and grant.seat_id not in seat_ids:
            faults.append(f"access to account {grant.client_id} names the seat {grant.seat_id}, which is not listed")
    if faults:
        raise OperatorError(
            f"The directory is invalid. Nothing was changed.\n{format_faults(faults)}", code="directory_faults"
        )
    return Directory(tuple(accounts), tuple(seats), tuple(grants))


def format_faults(faults: Sequence[str]) -> str:
    """Format the first faults, one a line, and the number of the others."""
    more = [f"and {len(faults) - _MAX_FAULTS_SHOWN} more"] if len(faults) > _MAX_FAULTS_SHOWN else []
    return "\n".join(f"  {line}" for line in (*faults[:_MAX_FAULTS_SHOWN], *more))


def _repeated(label: str, keys: Sequence[str]) -> list[str]:
    return [f"{label} {key} appears twice" for key, number in Counter(keys).items() if key and number > 1]


def _quoted(value: object) -> str:
    """Quote a value on one line, cut to 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
