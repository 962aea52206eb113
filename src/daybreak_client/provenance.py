"""The file `daybreak.json` in a folder of files: which account, snapshot and version they are, and their digests.

It contains no secret. Its purpose is to refuse to mix files of several accounts in one folder, and to document the
origin of the files for their readers.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from daybreak_client import wire
from daybreak_client.errors import WrongUse
from daybreak_client.folder import LockWait, errors_named, locked, read_regular, replace_private
from daybreak_client.proof.statement import SIGNATURE_NAME, STATEMENT_NAME
from daybreak_client.published import PublishedFile, PublishedSnapshot

FILE_NAME = "daybreak.json"


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origin of fetched files: a service and a snapshot of one of its accounts."""

    service: str
    published: PublishedSnapshot

    def check(self, folder: Path, *, force: bool) -> int | None:
        """Check that the files in a folder belong to the same account. Raises WrongUse unless `force`.

        Returns their version, None without files of the account.
        """
        stored = _load(folder)
        if stored is None:
            return None
        account, service, version = (stored.get(name) for name in ("client_id", "service", "version"))
        if (account, service) == (self.published.client_id, self.service):
            return version if isinstance(version, int) else None
        if not force:
            other = f"account {account}" if service == self.service else f"account {account} of {service}"
            raise WrongUse(
                f"{folder} contains files of {other}. Use another folder, or --force to replace these files."
            )
        return None

    def save(self, folder: Path, files: Iterable[PublishedFile]) -> None:
        """Record the origin of the files in a folder. Files of an older fetch keep their entries.

        Recorded files of another account are deleted, unless one of `files` has replaced them.
        """
        stored = _load(folder) or {}
        same = (stored.get("client_id"), stored.get("service")) == (self.published.client_id, self.service)
        older = stored.get("files", {})
        entries = {file.name: self._entry(file) for file in files}
        if same:
            entries = {name: entry for name, entry in older.items() if (folder / name).exists()} | entries
        else:
            for name in filter(wire.is_file_name, older.keys() - entries.keys()):
                (folder / name).unlink(missing_ok=True)
        value = {"service": self.service, **self.published.description(), "files": dict(sorted(entries.items()))}
        if value != stored:
            replace_private(folder / FILE_NAME, json.dumps(value, indent=2) + "\n")

    def _entry(self, file: PublishedFile) -> dict[str, object]:
        return {
            "snapshot_id": self.published.snapshot_id,
            "version": self.published.version,
            "rows": file.rows,
            "bytes": file.size_bytes,
            "sha256": file.sha256,
            "content_sha256": file.content_sha256,
        }


@dataclass(frozen=True, slots=True)
class Record:
    """What the record of a folder says: service and account, and versions of files by the digest of the file."""

    service: str = ""
    client_id: str = ""
    versions: Mapping[str, int] = field(default_factory=dict)


def record_of(folder: Path) -> Record:
    """Return what the record of a folder says, nothing without one. Raises WrongUse when it is damaged."""
    stored = _load(folder)
    if stored is None:
        return Record()
    try:
        versions = {wire.digest(each["sha256"]): wire.count(each["version"]) for each in stored["files"].values()}
        return Record(wire.text(stored["service"]), wire.uuid(stored["client_id"]), versions)
    except (ValueError, LookupError, TypeError, AttributeError):
        raise _damaged(folder) from None


def recorded_accounts(folder: Path, service: str) -> frozenset[str]:
    """Return the accounts of a service that have a folder with fetched files in a folder."""
    return frozenset(path.name for path in recorded_folders(folder) if _is_recorded(path, service))


def recorded_folders(folder: Path) -> tuple[Path, ...]:
    """Return the folders of accounts in a folder, by name."""
    if not folder.is_dir():
        return ()
    return tuple(path for path in sorted(folder.iterdir()) if wire.is_uuid(path.name) and not path.is_symlink())


def _is_recorded(folder: Path, service: str) -> bool:
    try:
        stored = _load(folder) or {}
    except (WrongUse, NotADirectoryError):
        return False
    return (stored.get("client_id"), stored.get("service")) == (folder.name, service)


def remove_account(folder: Path, lock_wait: LockWait) -> None:
    """Remove the fetched files from a folder, and the folder if it contains nothing else. Raises Busy."""
    with errors_named(folder), locked(folder, lock_wait):
        for name in filter(wire.is_file_name, (_load(folder) or {}).get("files", {})):
            (folder / name).unlink(missing_ok=True)
        for partial in folder.glob(".*.part"):
            partial.unlink()
        for name in (FILE_NAME, STATEMENT_NAME, SIGNATURE_NAME):
            (folder / name).unlink(missing_ok=True)
        with suppress(OSError):
            folder.rmdir()


def _load(folder: Path) -> dict[str, Any] | None:
    """Return the record of a folder, None without one. Raises WrongUse when it is damaged."""
    path = folder / FILE_NAME
    try:
        value = wire.json_value(read_regular(path, wire.MAX_JSON_BYTES))
    except FileNotFoundError:
        return None
    except ValueError:
        value = None
    if not isinstance(value, dict) or not isinstance(value.get("files", {}), dict):
        raise _damaged(folder)
    return value


def _damaged(folder: Path) -> WrongUse:
    return WrongUse(f"{folder / FILE_NAME} is damaged. Remove it and fetch again.")
