"""The directory as one JSON document: accounts, seats and what each seat may do, as `directory import` reads it.

`{"accounts": [{"client_id", "first_name", "last_name", "phone_number", "phone_number_type", "status",
"campaign_messages_monthly_threshold", "campaign_messages_monthly_used", "api_tokens_enabled",
"second_factor_required", "onboarding_billing_state": {"billing_provided", "billing_required",
"trial_length_days", "trial_started"}}], "seats": [{"seat_id", "email", "password", "disabled",
"access": [{"client_id", "roles", "data_export", "async_rest_api"}]}]}`

Names, phone number and its type, emails and ids must be given; the rest has defaults. Passwords are only ever read.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from daybreak.access.directory_fields import MISSING, Fields, read_account, read_grant, read_seat, whole
from daybreak.credentials.passwords import weakness
from daybreak.domain.errors import OperatorError
from daybreak.domain.identity import Account, Grant, Seat
from daybreak.ports.access_stores import Directory


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
    accounts: list[Account] = []
    passwords: dict[str, str] = {}
    seats: list[Seat] = []
    grants: list[Grant] = []
    for each in root.objects("accounts"):
        billing = each.object("onboarding_billing_state")
        accounts.append(read_account(each, billing))
        billing.no_others()
        each.no_others()
    for each in root.objects("seats"):
        seat = read_seat(each)
        seats.append(seat)
        password = each.password(seat.email)
        if password is not None:
            passwords[seat.seat_id] = password
        for access in each.objects("access", default=True):
            grants.append(read_grant(access, seat.seat_id))
            access.no_others()
        each.no_others()
    root.no_others()
    return DirectoryFile(whole(accounts, seats, grants, faults), passwords)


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


class _Object(Fields):
    """One JSON object at a position of the document."""

    def __init__(self, value: object, position: str, faults: list[str]) -> None:
        self._position = position
        self._faults = faults
        self._left: dict[str, object] = {}
        if isinstance(value, dict):
            self._left = dict(value)
        else:
            self.fault("", "must be an object")

    def take(self, name: str) -> object:
        return self._left.pop(name, MISSING)

    def fault(self, name: str, what: str) -> None:
        self._faults.append(f"{self._position}{'.' if name else ''}{name}: {what}")

    def password(self, email: str) -> str | None:
        """The plain password of a seat, None when none is given. No fault quotes it."""
        value = self.take("password")
        if value is MISSING or value is None:
            return None
        fault = weakness(value, email=email) if isinstance(value, str) else "must be text"
        if fault is not None:
            self.fault("password", fault)
        return str(value)

    def objects(self, name: str, *, default: bool = False) -> Iterator["_Object"]:
        """The objects of a list, which may be left out if there is a default: none."""
        value = self._left.pop(name, [] if default else None)
        if not isinstance(value, list):
            self.fault(name, "must be a list")
            return
        for number, each in enumerate(value):
            yield _Object(each, f"{self._position}.{name}[{number}]", self._faults)

    def object(self, name: str) -> "_Object":
        """The object in a field; an empty one when it is not given."""
        return _Object(self._left.pop(name, {}), f"{self._position}.{name}", self._faults)

    def no_others(self) -> None:
        """Notes every field that was not taken."""
        for name in self._left:
            self.fault(name, "is not a field of this form")


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        repeated = next(name for name, _ in pairs if sum(other == name for other, _ in pairs) > 1)
        raise ValueError(f"the field {repeated} is there twice in one object")
    return found
