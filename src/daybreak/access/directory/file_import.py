"""Import of a directory document into the state database."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from daybreak.access.directory.changes import DirectoryChanges, apply_changes, compare_directories
from daybreak.access.directory.document import DirectoryDocument, read_directory
from daybreak.credentials import passwords
from daybreak.domain.identity import Seat
from daybreak.state.directory import Directory
from daybreak.state.stores import State


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
        unchanged = before is not None and passwords.verify(before, password)
        return replace(seat, password_hash=before if unchanged else passwords.hash_password(password))

    directory = document.directory
    return Directory(directory.accounts, tuple(map(with_hash, directory.seats)), directory.grants)
