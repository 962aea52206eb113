"""What a profile has seen of each service: trust file, revoked keys, and the statements of each account.

Without this memory, an older version that is still valid, or a second statement of one version, would look right.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from daybreak_client import wire
from daybreak_client.errors import NotProved, WrongUse
from daybreak_client.folder import LockWait, locked, replace_private
from daybreak_client.proof.statement import Edition, Statement
from daybreak_client.proof.trust import Trust, parse_trust

T = TypeVar("T")

_LOCK_SECONDS = 60.0
_MAX_STATEMENTS = 100
_SERVICE_FILE = "service.json"


@dataclass(frozen=True, slots=True)
class SeenAccount:
    """The latest edition of an account, when it expires, and the digests of statements by edition."""

    edition: Edition
    expires_at: datetime
    statements: Mapping[Edition, str]

    def check(self, statement: Statement, *, archived: bool) -> None:
        """Check that a statement does not contradict what was seen, and is not older unless `archived`."""
        edition, digest = statement.edition, self.statements.get(statement.edition)
        if digest not in {None, statement.sha256}:
            raise NotProved(f"There are two statements of {edition}. Ask the operator of the service for the reason.")
        known = self.statements.get(statement.previous) if statement.previous else None
        if known not in {None, statement.previous_sha256}:
            raise NotProved(
                f"The statement of {edition} follows another statement of {statement.previous} than the one that was "
                "seen. Ask the operator of the service for the reason."
            )
        latest = max((each for each in self.statements if each.version == edition.version), default=edition)
        if edition < latest:
            raise NotProved(f"Revision {edition.revision} of version {edition.version} was replaced by {latest}.")
        if edition < self.edition and not archived:
            raise NotProved(
                f"These files are {edition}. This profile has seen {self.edition}. Fetch again. If the service returns "
                "older files, it was restored from a backup: ask its operator. To check an archive, use "
                "`daybreak verify --at` with a time at which it was current."
            )


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a service, which answers at `addresses`. `revoked` are keys in the format of OpenSSH.

    `signature` is that of the trust file, empty for the first one.
    """

    trust: Trust
    addresses: frozenset[str] = frozenset()
    revoked: frozenset[str] = frozenset()
    signature: bytes = b""


class Memory:
    """The files of a folder: for each service a folder, with a file for the service and one for each account."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def service_folder(self, service: str) -> Path:
        return self._folder / service.lower().replace(":", "_")

    def of_service(self, service: str) -> Seen | None:
        """Return what was seen of a service, None for a new one. Raises WrongUse for a damaged file."""
        return _load(self.service_folder(service) / _SERVICE_FILE, _parse_service)

    def of_address(self, address: str) -> Seen | None:
        """Return what was seen of the service at an address, None for a new address. Raises WrongUse, OSError.

        A folder that cannot be read is not an empty one: without memory, nothing would be verified.
        """
        try:
            folders = sorted(each for each in self._folder.iterdir() if each.is_dir())
        except FileNotFoundError:
            return None
        for folder in folders:
            found = _load(folder / _SERVICE_FILE, _parse_service)
            if found is not None and address in found.addresses:
                return found
        return None

    def of_account(self, service: str, client_id: str) -> SeenAccount | None:
        """Return what was seen of an account, None for a new one. Raises WrongUse for a damaged file."""
        return _load(self.service_folder(service) / f"{client_id}.json", _parse_account)

    def update_service(self, service: str, change: Callable[[Seen | None], Seen]) -> Seen:
        """Change what was seen of a service, while no other process does. Raises what `change` raises, and Busy."""
        folder = self.service_folder(service)
        with locked(folder, LockWait(_LOCK_SECONDS)):
            before = self.of_service(service)
            after = change(before)
            if after != before:
                _save(folder / _SERVICE_FILE, _service_json(after))
        return after

    def check(self, statement: Statement, *, archived: bool) -> None:
        """Check a statement against those of its account, and remember it unless `archived`. Raises NotProved, Busy."""
        folder = self.service_folder(statement.service)
        with locked(folder, LockWait(_LOCK_SECONDS)):
            before = self.of_account(statement.service, statement.client_id)
            if before is not None:
                before.check(statement, archived=archived)
            if archived:
                return
            found = {**(before.statements if before else {}), statement.edition: statement.sha256}
            latest = {edition: found[edition] for edition in sorted(found)[-_MAX_STATEMENTS:]}
            after = SeenAccount(statement.edition, statement.expires_at, latest)
            if after != before:
                _save(folder / f"{statement.client_id}.json", _account_json(after))


def _load(path: Path, parse: Callable[[Any], T]) -> T | None:
    try:
        return parse(wire.json_value(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (ValueError, LookupError, TypeError, AttributeError, NotProved):
        raise WrongUse(
            f"{path} is damaged. It contains what was seen of a service, to detect older files. Remove it to start "
            "over."
        ) from None


def _save(path: Path, value: object) -> None:
    replace_private(path, json.dumps(value, indent=2) + "\n")


def _service_json(seen: Seen) -> dict[str, object]:
    return {
        "service": seen.trust.service,
        "addresses": sorted(seen.addresses),
        "trust": seen.trust.text,
        "trust_signature": seen.signature.decode(),
        "revoked": sorted(seen.revoked),
    }


def _parse_service(value: Any) -> Seen:
    return Seen(
        trust=parse_trust(value["trust"].encode()),
        addresses=frozenset(value["addresses"]),
        revoked=frozenset(value["revoked"]),
        signature=value["trust_signature"].encode(),
    )


def _account_json(account: SeenAccount) -> dict[str, object]:
    return {
        "expires_at": account.expires_at.isoformat(),
        "statements": {f"{each.version}.{each.revision}": sha256 for each, sha256 in account.statements.items()},
    }


def _parse_account(value: Any) -> SeenAccount:
    statements = {Edition(*map(int, name.split("."))): wire.digest(each) for name, each in value["statements"].items()}
    return SeenAccount(max(statements), wire.instant(value["expires_at"]), statements)
