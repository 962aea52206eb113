"""The directory as one JSON document, and its import: accounts, seats and their grants.

`{"accounts": [{"client_id", "first_name", "last_name", "phone_number", "phone_number_type", "status",
"campaign_messages_monthly_threshold", "campaign_messages_monthly_used", "api_tokens_enabled",
"second_factor_required", "onboarding_billing_state": {"billing_provided", "billing_required",
"trial_length_days", "trial_started"}}], "seats": [{"seat_id", "email", "password", "disabled",
"access": [{"client_id", "roles", "data_export", "async_rest_api"}]}]}`

Names, phone number and its type, emails and ids are required; other fields have defaults. Passwords are read and never
written.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from msgspec.structs import asdict, replace

from daybreak.access.directory.changes import DirectoryChanges, apply_changes, compare_directories
from daybreak.access.directory.fields import MISSING, Fields, build_directory, read_account, read_grant, read_seat
from daybreak.credentials.passwords import hash_password, verify, weakness
from daybreak.credentials.strict_json import unique_members
from daybreak.domain.errors import OperatorError
from daybreak.domain.identity import Account, Grant, Seat
from daybreak.state.directory import Directory
from daybreak.state.stores import State


@dataclass(frozen=True, slots=True)
class DirectoryDocument:
    """The contents of a document. `passwords` maps the seat_id of each seat that has one to its plain password."""

    directory: Directory
    passwords: Mapping[str, str]


def read_directory(
    text: str | bytes, breached_passwords: Path | None = None, known_accounts: Collection[str] = ()
) -> DirectoryDocument:
    """Read and validate a document. Raises OperatorError that lists every fault with its position.

    Accounts named in the access of a seat must be in the document or be known. `breached_passwords` is the setting.
    """
    faults: list[str] = []
    try:
        document = json.loads(text, object_pairs_hook=unique_members)
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
        billing.reject_unknown_fields()
        each.reject_unknown_fields()
    for each in root.objects("seats"):
        seat = read_seat(each)
        seats.append(seat)
        password = each.password(seat.email, breached_passwords)
        if password is not None:
            passwords[seat.seat_id] = password
        for access in each.objects("access", default=True):
            grants.append(read_grant(access, seat.seat_id))
            access.reject_unknown_fields()
        each.reject_unknown_fields()
    root.reject_unknown_fields()
    return DirectoryDocument(build_directory(accounts, seats, grants, faults, known_accounts), passwords)


def write_directory(directory: Directory) -> str:
    """Format a directory as a document, without passwords. Importing it again changes nothing."""
    access: dict[str, list[Grant]] = {}
    for grant in directory.grants:
        access.setdefault(grant.seat_id, []).append(grant)
    document = {
        "accounts": [_account_json(a) for a in sorted(directory.accounts, key=lambda a: a.client_id)],
        "seats": [
            {
                "seat_id": seat.seat_id,
                "email": seat.email,
                "disabled": seat.disabled,
                "access": [
                    {name: value for name, value in asdict(grant).items() if name != "seat_id"}
                    for grant in sorted(access.get(seat.seat_id, []), key=lambda g: g.client_id)
                ],
            }
            for seat in sorted(directory.seats, key=lambda s: s.email)
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _account_json(account: Account) -> dict[str, object]:
    renamed = {
        "active": ("status", "active" if account.active else "inactive"),
        "billing": ("onboarding_billing_state", asdict(account.billing)),
    }
    return dict(renamed.get(name, (name, value)) for name, value in asdict(account).items())


class _Object(Fields):
    """One JSON object of the document."""

    def __init__(self, value: object, position: str, faults: list[str]) -> None:
        self._position = position
        self._faults = faults
        self._unread: dict[str, object] = {}
        if isinstance(value, dict):
            self._unread = dict(value)
        else:
            self.add_fault("", "must be an object")

    def read(self, name: str) -> object:
        return self._unread.pop(name, MISSING)

    def add_fault(self, name: str, detail: str) -> None:
        self._faults.append(f"{self._position}{'.' if name else ''}{name}: {detail}")

    def password(self, email: str, breached: Path | None) -> str | None:
        """Read the plain password of a seat, None when absent. Faults do not contain it."""
        value = self.read("password")
        if value is MISSING or value is None:
            return None
        fault = weakness(value, email=email, breached=breached) if isinstance(value, str) else "must be text"
        if fault is not None:
            self.add_fault("password", fault)
        return str(value)

    def objects(self, name: str, *, default: bool = False) -> Iterator["_Object"]:
        """Read a list of objects; with `default`, an absent list is empty."""
        value = self._unread.pop(name, [] if default else None)
        if not isinstance(value, list):
            self.add_fault(name, "must be a list")
            return
        for number, each in enumerate(value):
            yield _Object(each, f"{self._position}.{name}[{number}]", self._faults)

    def object(self, name: str) -> "_Object":
        """Read an object, empty when absent."""
        return _Object(self._unread.pop(name, {}), f"{self._position}.{name}", self._faults)

    def reject_unknown_fields(self) -> None:
        """Record a fault for every field that was not read."""
        for name in self._unread:
            self.add_fault(name, "is not a known field")


def import_document(
    state: State, text: str | bytes, now: datetime, *, dry_run: bool = False, breached_passwords: Path | None = None
) -> DirectoryChanges:
    """Apply the differences in one transaction and return them. Raises OperatorError that lists every fault."""
    # Hashed and compared before the write transaction: a hundred passwords take seconds, and a writer blocks logins.
    current = state.read(lambda stores: stores.directory.load())
    document = read_directory(text, breached_passwords, {account.client_id for account in current.accounts})
    changes = compare_directories(current, _with_password_hashes(document, current), complete=False)
    if not dry_run and not changes.is_empty:
        state.write(lambda stores: apply_changes(stores, changes, now, "operator"))
    return changes


def _with_password_hashes(document: DirectoryDocument, current: Directory) -> Directory:
    """Hash the document's passwords; a password that has not changed keeps its hash."""
    known = {seat.seat_id: seat.password_hash for seat in current.seats}

    def with_hash(seat: Seat) -> Seat:
        password, before = document.passwords.get(seat.seat_id), known.get(seat.seat_id)
        if password is None:
            return seat
        unchanged = before is not None and verify(before, password)
        return replace(seat, password_hash=before if unchanged else hash_password(password))

    directory = document.directory
    return Directory(directory.accounts, tuple(map(with_hash, directory.seats)), directory.grants)
