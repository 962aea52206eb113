"""What an account, a seat and a grant must be, field by field, whatever form they come in.

The forms (a JSON document, rows of the platform's database) say how a field is taken; the rules stand here alone.
A fault is noted with its place and the field's empty value goes on instead, so that all faults are listed at once.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Final
from uuid import UUID

from daybreak.domain.errors import OperatorError
from daybreak.domain.identity import (
    LONGEST_EMAIL,
    PHONE_NUMBER_TYPES,
    ROLES,
    Account,
    BillingState,
    Grant,
    Seat,
    folded_email,
)
from daybreak.ports.access_stores import Directory

MISSING: Final = object()
_UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
# A short code with its country is shorter than other numbers.
_E164 = re.compile(r"\+[1-9][0-9]{2,14}", re.ASCII)
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_LONGEST_NAME = 200
_MOST_FAULTS_SHOWN = 50


class Fields(ABC):
    """The fields of one account, seat or grant, each taken once."""

    @abstractmethod
    def take(self, name: str) -> object:
        """The value of a field; MISSING when it is not given."""

    @abstractmethod
    def fault(self, name: str, what: str) -> None:
        """Notes what is wrong with a field."""

    def text(self, name: str, is_good: Callable[[str], bool], expected: str) -> str:
        """A text that must be given."""
        value = self.take(name)
        if value is MISSING:
            self.fault(name, f"is missing: it must be {expected}")
        elif isinstance(value, str) and "\0" not in value and is_good(value):
            return value
        else:
            self.fault(name, f"must be {expected}, not {_shown(value)}")
        return ""

    def uuid(self, name: str) -> str:
        """An id that must be given, as lower-case text with its dashes."""
        found = self.text(name, lambda text: _UUID.fullmatch(text) is not None, "a UUID")
        return str(UUID(found)) if found else ""

    def one_of(self, name: str, allowed: Sequence[str], default: str | None = None) -> str:
        """One of a few words; it must be given when there is no default."""
        value = self.take(name)
        if value is MISSING and default is not None:
            return default
        if isinstance(value, str) and value in allowed:
            return value
        said = "is missing: it must be" if value is MISSING else f"is {_shown(value)}, not"
        self.fault(name, f"{said} one of {', '.join(allowed)}")
        return allowed[0]

    def flag(self, name: str) -> bool:
        """True or false; false when it is not given."""
        value = self.take(name)
        if value is not MISSING and not isinstance(value, bool):
            self.fault(name, f"must be true or false, not {_shown(value)}")
        return value is True

    def count(self, name: str) -> int:
        """A whole number from 0; 0 when it is not given."""
        value = self.take(name)
        if value is MISSING:
            return 0
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53:
            return value
        self.fault(name, f"must be a whole number from 0, not {_shown(value)}")
        return 0

    def roles(self) -> tuple[str, ...]:
        """The roles of a grant, none when they are not given."""
        value = self.take("roles")
        given = [] if value is MISSING else value
        if isinstance(given, list) and all(role in ROLES for role in given) and len(set(given)) == len(given):
            return tuple(given)
        self.fault("roles", f"must be a list of {', '.join(ROLES)}, each at most once, not {_shown(value)}")
        return ()


def read_account(row: Fields, billing: Fields) -> Account:
    """An account; `billing` holds the fields of its `onboarding_billing_state`."""
    return Account(
        client_id=row.uuid("client_id"),
        first_name=row.text("first_name", _is_name, f"text of at most {_LONGEST_NAME} characters"),
        last_name=row.text("last_name", _is_name, f"text of at most {_LONGEST_NAME} characters"),
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
    """A seat, without its password."""
    return Seat(
        seat_id=row.uuid("seat_id"),
        email=row.text("email", _is_email, "an email address"),
        disabled=row.flag("disabled"),
    )


def read_grant(row: Fields, seat_id: str) -> Grant:
    """What that seat may do on one account."""
    return Grant(
        seat_id=seat_id,
        client_id=row.uuid("client_id"),
        roles=row.roles(),
        data_export=row.flag("data_export"),
        async_rest_api=row.flag("async_rest_api"),
    )


def whole(accounts: Sequence[Account], seats: Sequence[Seat], grants: Sequence[Grant], faults: list[str]) -> Directory:
    """All of it as one directory, whose parts must agree with each other.

    Raises OperatorError(directory_faults) that lists the faults found so far and those of the whole.
    """
    faults += _repeated("accounts: client_id", [account.client_id for account in accounts])
    faults += _repeated("seats: seat_id", [seat.seat_id for seat in seats])
    faults += _repeated("seats: email", [folded_email(seat.email) for seat in seats])
    faults += _repeated("access: seat_id and client_id", [f"{g.seat_id} {g.client_id}" for g in grants if g.client_id])
    client_ids, seat_ids = {account.client_id for account in accounts}, {seat.seat_id for seat in seats}
    for grant in grants:
        if grant.client_id and grant.client_id not in client_ids:
            faults.append(f"access of seat {grant.seat_id} names the account {grant.client_id}, which is not listed")
        if grant.seat_id and grant.seat_id not in seat_ids:
            faults.append(f"access to account {grant.client_id} names the seat {grant.seat_id}, which is not listed")
    if faults:
        shown = "\n".join(f"  {fault}" for fault in faults[:_MOST_FAULTS_SHOWN])
        more = f"\n  and {len(faults) - _MOST_FAULTS_SHOWN} more" if len(faults) > _MOST_FAULTS_SHOWN else ""
        raise OperatorError(f"The directory has faults; nothing was changed:\n{shown}{more}", code="directory_faults")
    return Directory(tuple(accounts), tuple(seats), tuple(grants))


def _repeated(what: str, keys: Sequence[str]) -> Iterator[str]:
    seen: set[str] = set()
    for key in keys:
        if key and key in seen:
            yield f"{what} {key} is there twice"
        seen.add(key)


def _is_name(text: str) -> bool:
    return len(text) <= _LONGEST_NAME


def _is_email(text: str) -> bool:
    return _EMAIL.fullmatch(text) is not None and len(text) <= LONGEST_EMAIL


def _shown(value: object) -> str:
    """A value as a fault quotes it: on one line, and not at length."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
