"""`daybreakd directory`: accounts, seats and what seats may do."""

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from daybreak.cli.examples import examples_of
from daybreak.cli.options import Config, settings_of
from daybreak.cli.output import note, one_line, say
from daybreak.domain.errors import OperatorError

if TYPE_CHECKING:
    from daybreak.access.directory_sync import DirectoryChanges
    from daybreak.domain.identity import Seat
    from daybreak.ports.access_stores import Directory
    from daybreak.settings import Settings

app = App(name="directory", help="Accounts, seats and what seats may do.", help_epilogue=examples_of("directory"))
DryRun = Annotated[bool, Parameter(name="--dry-run", negative="", help="Show the difference and change nothing.")]


@app.command(name="import")
def import_(
    file: Annotated[Path, Parameter(help="The document; - for standard input.", allow_leading_hyphen=True)],
    *,
    dry_run: DryRun = False,
    config: Config = None,
) -> None:
    """Add and change what the document names; what it does not name stays. Doing it twice changes nothing."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else fault
        raise OperatorError(f"{file} cannot be read: {reason}.") from fault
    text = text.removeprefix("\ufeff")
    try:
        changes = import_directory(settings_of(config), text, dry_run=dry_run)
    except OperatorError as fault:
        if fault.code != "directory_faults":
            raise
        raise OperatorError(f"{file}: {fault.message}", code=fault.code) from fault
    _say_changes(changes, dry_run=dry_run)


@app.command
def export(*, config: Config = None) -> None:
    """Print the directory as `import` reads it, without passwords."""
    from daybreak.access.directory_file import write_directory
    from daybreak.bootstrap import open_state

    with closing(open_state(settings_of(config))) as state:
        sys.stdout.write(write_directory(state.read(lambda stores: stores.directory.load())))


@app.command
def sync(
    *,
    dry_run: DryRun = False,
    accept_removals: Annotated[
        bool, Parameter(negative="", help="Take away as much as the source says, whatever directory.max_removed_share.")
    ] = False,
    config: Config = None,
) -> None:
    """Bring accounts and seats in line with the platform's own database ([directory] in the configuration)."""
    from daybreak.bootstrap import open_state, sync_directory

    settings = settings_of(config)
    with closing(open_state(settings)) as state:
        changes = sync_directory(settings, state, dry_run=dry_run, accept_removals=accept_removals, actor="operator")
    _say_changes(changes, dry_run=dry_run)


def import_directory(settings: "Settings", text: str, *, dry_run: bool = False) -> "DirectoryChanges":
    """Reads a document and writes what differs, in one transaction. Raises OperatorError with every fault."""
    from msgspec.structs import replace

    from daybreak.access.directory_file import read_directory
    from daybreak.access.directory_sync import apply_changes, directory_changes
    from daybreak.bootstrap import now_utc, open_state
    from daybreak.credentials import passwords
    from daybreak.ports.access_stores import Directory

    read = read_directory(text)

    def hashed(current: "Directory") -> "Directory":
        known = {seat.seat_id: seat.password_hash for seat in current.seats}

        def with_hash(seat: "Seat") -> "Seat":
            password, before = read.passwords.get(seat.seat_id), known.get(seat.seat_id)
            if password is None:
                return seat
            same = before is not None and passwords.verify(before, password)
            return replace(seat, password_hash=before if same else passwords.hash_password(password))

        return Directory(read.directory.accounts, tuple(map(with_hash, read.directory.seats)), read.directory.grants)

    with closing(open_state(settings)) as state:
        current = state.read(lambda stores: stores.directory.load())
        # Hashed and compared before the transaction: a hundred passwords take seconds, and a writer holds up everybody.
        changes = directory_changes(current, hashed(current), whole=False)
        if not dry_run and not changes.is_empty:
            state.write(lambda stores: apply_changes(stores, changes, now_utc(), "operator"))
        return changes


def _say_changes(changes: "DirectoryChanges", *, dry_run: bool) -> None:
    count = 0
    for line in changes.lines():
        say(one_line(line))
        count += 1
    if count:
        note(f"{count} {'change' if count == 1 else 'changes'} {'would be made' if dry_run else 'made'}.")
    else:
        note("Nothing to change.")
