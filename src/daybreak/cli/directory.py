"""`daybreakd directory`: accounts, seats and grants."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from daybreak.access.directory.changes import DirectoryChanges
from daybreak.access.directory.document import import_document, write_directory
from daybreak.access.directory.fields import format_faults
from daybreak.bootstrap import directory_sync
from daybreak.cli.options import Config, Flag, read_state, settings_of, state_of
from daybreak.cli.output import one_line, print_note, print_text
from daybreak.domain.clock import now_utc
from daybreak.domain.display import format_count
from daybreak.domain.errors import OperatorError
from daybreak.domain.operator_file import MAX_DOCUMENT_BYTES, read_bounded

app = App(name="directory", help="Manage accounts, seats and grants.")
DryRun = Annotated[Flag, Parameter(name="--dry-run", help="Show the changes without applying them.")]


@app.command(name="import")
def import_(
    file: Annotated[Path, Parameter(help="The document; - for standard input.", allow_leading_hyphen=True)],
    *,
    dry_run: DryRun = False,
    config: Config = None,
) -> None:
    """Add and change the accounts and seats in a document. Others stay as they are. Importing twice changes nothing."""
    try:
        text = sys.stdin.read() if str(file) == "-" else read_bounded(file, MAX_DOCUMENT_BYTES)[0].decode()
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else fault
        raise OperatorError(f"{file} cannot be read: {reason}.") from fault
    text = text.removeprefix("\ufeff")
    try:
        settings = settings_of(config)
        breached = settings.access.breached_passwords
        with state_of(settings) as state:
            changes = import_document(state, text, now_utc(), dry_run=dry_run, breached_passwords=breached)
    except OperatorError as fault:
        if fault.code != "directory_faults":
            raise
        raise OperatorError(f"{file}: {fault.message}", code=fault.code) from fault
    _print_changes(changes, dry_run=dry_run)


@app.command
def export(*, config: Config = None) -> None:
    """Print the directory as a document for `import`, without passwords."""
    sys.stdout.write(write_directory(read_state(config, lambda stores: stores.directory.load())))


@app.command
def sync(
    *,
    dry_run: DryRun = False,
    accept_removals: Annotated[Flag, Parameter(help="Ignore the limit directory.max_removed_share.")] = False,
    config: Config = None,
) -> int:
    """Synchronize accounts and seats with the platform's database ([directory] in the configuration). Exit code 1 if
    rows were left out, which are then listed.
    """
    settings = settings_of(config)
    with state_of(settings) as state:
        syncing = directory_sync(settings, state)
        changes, faults = syncing.run(actor="operator", dry_run=dry_run, accept_removals=accept_removals)
    _print_changes(changes, dry_run=dry_run)
    if faults:
        print_note(f"Rows that were left out:\n{format_faults(faults)}")
    return 1 if faults else 0


def _print_changes(changes: DirectoryChanges, *, dry_run: bool) -> None:
    lines = list(changes.lines())
    for line in lines:
        print_text(one_line(line))
    applied = "not applied (--dry-run)" if dry_run else "applied"
    print_note(f"{format_count(len(lines), 'change')} {applied}." if lines else "Nothing to change.")
