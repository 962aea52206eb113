"""The directory as one JSON document: accounts, seats and what each seat may do, as `directory import` reads it.

`{"accounts": [{"client_id", "first_name", "last_name", "phone_number", "phone_number_type", "status",
"campaign_messages_monthly_threshold", "campaign_messages_monthly_used", "api_tokens_enabled",
"second_factor_required", "onboarding_billing_state": {"billing_provided", "billing_required",
"trial_length_days", "trial_started"}}], "seats": [{"seat_id", "email", "password", "disabled",
"access": [{"client_id", "roles", "data_export", "async_rest_api"}]}]}`

Names, phone number and its type, emails and ids must be given; the rest has defaults. Passwords are only ever read.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from daybreak.credentials.passwords import weakness
from daybreak.domain.errors import OperatorError
from daybreak.domain.identity import PHONE_NUMBER_TYPES, ROLES, Account, BillingState, Grant, Seat
from daybreak.ports import Directory

_E164 = re.compile(r"\+[1-9][0-9]{6,14}")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_MOST_FAULTS_SHOWN = 50


@dataclass(frozen=True, slots=True)
class DirectoryFile:
    """What a document says. `passwords` are plain, by seat_id, for those seats that were given one."""

    directory: Directory
    passwords: Mapping[str, str]


def read_directory(text: str | bytes) -> DirectoryFile:
    """Reads and checks a document. Raises OperatorError that lists every fault with its position in the document.

    An account that a seat's access names must be in the document too, so that it can be read by itself.
    """
    faults: list[str] = []
    try:
        document = json.loads(text, object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError) as fault:
        raise OperatorError(f"The directory is not JSON: {fault}.", code="directory_faults") from None
    root = _Object(document, "$", faults)
    accounts = [_account(each) for each in root.objects("accounts")]
    passwords: dict[str, str] = {}
    seats: list[Seat] = []
    grants: list[Grant] = []
    for each in root.objects("seats"):
        seat = _seat(each, passwords)
        seats.append(seat)
        grants += [_grant(access, seat.seat_id) for access in each.objects("access", default=True)]
        each.no_others()
    root.no_others()
    faults += _repeated("accounts", "client_id", [account.client_id for account in accounts])
    faults += _repeated("seats", "seat_id", [seat.seat_id for seat in seats])
    faults += _repeated("seats", "email", [seat.email.casefold() for seat in seats])
    faults += _repeated("seats[].access", "seat_id and client_id", [f"{g.seat_id} {g.client_id}" for g in grants])
    known = {account.client_id for account in accounts}
    faults += [
        f"seat {grant.seat_id}: access names the account {grant.client_id}, which the document does not list"
        for grant in grants
        if grant.client_id and grant.client_id not in known
    ]
    if faults:
        shown = "\n".join(f"  {fault}" for fault in faults[:_MOST_FAULTS_SHOWN])
        more = f"\n  and {len(faults) - _MOST_FAULTS_SHOWN} more" if len(faults) > _MOST_FAULTS_SHOWN else ""
        raise OperatorError(f"The directory has faults; nothing was changed:\n{shown}{more}", code="directory_faults")
    return DirectoryFile(Directory(tuple(accounts), tuple(seats), tuple(grants)), passwords)


def write_directory(directory: Directory) -> str:
    """The document for a directory, without passwords: reading it again changes nothing."""
    access: dict[str, list[Grant]] = {}
    for grant in directory.grants:
        access.setdefault(grant.seat_id, []).append(grant)
    document = {
        "accounts": [_account_form(a) for a in sorted(directory.accounts, key=lambda a: a.client_id)],
        "seats": [
            {
                "seat_id": seat.seat_id,
                "email": seat.email,
                "disabled": seat.disabled,
                "access": [
                    {
                        "client_id": grant.client_id,
                        "roles": list(grant.roles),
                        "data_export": grant.data_export,
                        "async_rest_api": grant.async_rest_api,
                    }
                    for grant in sorted(access.get(seat.seat_id, []), key=lambda g: g.client_id)
                ],
            }
            for seat in sorted(directory.seats, key=lambda s: s.email)
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _account_form(account: Account) -> dict[str, object]:
    return {
        "client_id": account.client_id,
        "first_name": account.first_name,
        "last_name": account.last_name,
        "phone_number": account.phone_number,
        "phone_number_type": account.phone_number_type,
        "status": "active" if account.active else "inactive",
        "campaign_messages_monthly_threshold": account.campaign_messages_monthly_threshold,
        "campaign_messages_monthly_used": account.campaign_messages_monthly_used,
        "api_tokens_enabled": account.api_tokens_enabled,
        "second_factor_required": account.second_factor_required,
        "onboarding_billing_state": {
            "billing_provided": account.billing.billing_provided,
            "billing_required": account.billing.billing_required,
            "trial_length_days": account.billing.trial_length_days,
            "trial_started": account.billing.trial_started,
        },
    }


class _Object:
    """One JSON object at a position; faults are noted and an empty value goes on in their place."""

    def __init__(self, value: object, position: str, faults: list[str]) -> None:
        self._position = position
        self._faults = faults
        self._left: dict[str, object] = {}
        if isinstance(value, dict):
            self._left = dict(value)
        else:
            self.fault("", "must be an object")

    def fault(self, name: str, text: str) -> None:
        self._faults.append(f"{self._position}{'.' if name else ''}{name}: {text}")

    def text(self, name: str, is_good: Callable[[str], bool], expected: str) -> str:
        value = self._left.pop(name, None)
        if value is None:
            self.fault(name, f"is missing: {expected}")
            return ""
        if not isinstance(value, str) or "\0" in value or not is_good(value):
            self.fault(name, f"must be {expected}")
            return ""
        return value

    def optional_text(self, name: str) -> str | None:
        value = self._left.pop(name, None)
        if value is not None and not isinstance(value, str):
            self.fault(name, "must be text")
            return None
        return value

    def one_of(self, name: str, allowed: tuple[str, ...], default: str | None = None) -> str:
        if default is not None and name not in self._left:
            return default
        return self.text(name, allowed.__contains__, "one of " + ", ".join(allowed))

    def uuid(self, name: str) -> str:
        return self.text(name, _is_uuid, "a UUID").lower()

    def flag(self, name: str) -> bool:
        value = self._left.pop(name, False)
        if not isinstance(value, bool):
            self.fault(name, "must be true or false")
        return value is True

    def count(self, name: str) -> int:
        value = self._left.pop(name, 0)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
            self.fault(name, "must be a whole number from 0")
            return 0
        return value

    def roles(self) -> tuple[str, ...]:
        value = self._left.pop("roles", [])
        if not isinstance(value, list) or any(role not in ROLES for role in value) or len(set(value)) != len(value):
            self.fault("roles", "must be a list of " + ", ".join(ROLES) + ", each at most once")
            return ()
        return tuple(value)

    def objects(self, name: str, *, default: bool = False) -> Iterator["_Object"]:
        value = self._left.pop(name, [] if default else None)
        if not isinstance(value, list):
            self.fault(name, "must be a list")
            return
        for number, each in enumerate(value):
            yield _Object(each, f"{self._position}.{name}[{number}]", self._faults)

    def object(self, name: str) -> "_Object":
        return _Object(self._left.pop(name, {}), f"{self._position}.{name}", self._faults)

    def no_others(self) -> None:
        for name in self._left:
            self.fault(name, "is not a field of this form")


def _account(row: _Object) -> Account:
    billing = row.object("onboarding_billing_state")
    account = Account(
        client_id=row.uuid("client_id"),
        first_name=row.text("first_name", lambda text: len(text) <= 200, "text of at most 200 characters"),
        last_name=row.text("last_name", lambda text: len(text) <= 200, "text of at most 200 characters"),
        phone_number=row.text("phone_number", _is_e164, "a number such as +15550100000"),
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
    billing.no_others()
    row.no_others()
    return account


def _seat(row: _Object, passwords: dict[str, str]) -> Seat:
    seat_id = row.uuid("seat_id")
    email = row.text("email", lambda text: _EMAIL.fullmatch(text) is not None and len(text) <= 254, "an email address")
    password = row.optional_text("password")
    if password is not None:
        fault = weakness(password, email=email)
        if fault is not None:
            row.fault("password", fault)
        passwords[seat_id] = password
    return Seat(seat_id=seat_id, email=email, disabled=row.flag("disabled"))


def _grant(row: _Object, seat_id: str) -> Grant:
    grant = Grant(
        seat_id=seat_id,
        client_id=row.uuid("client_id"),
        roles=row.roles(),
        data_export=row.flag("data_export"),
        async_rest_api=row.flag("async_rest_api"),
    )
    row.no_others()
    return grant


def _repeated(where: str, what: str, keys: list[str]) -> Iterator[str]:
    seen: set[str] = set()
    for key in keys:
        if key and key in seen:
            yield f"$.{where}: {what} {key} is there twice"
        seen.add(key)


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        repeated = next(name for name, _ in pairs if sum(other == name for other, _ in pairs) > 1)
        raise ValueError(f"the field {repeated} is there twice in one object")
    return found


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def _is_e164(text: str) -> bool:
    return _E164.fullmatch(text) is not None
