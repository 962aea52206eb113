"""`daybreak sync`: keep a database in step."""

import sys
from dataclasses import asdict, dataclass
from typing import Annotated

from cyclopts import Parameter

from daybreak_client.command.every_account import LeftOver, run_for_accounts
from daybreak_client.command.options import Accounts, Flag, Mode
from daybreak_client.command.output import (
    download_progress,
    format_count,
    format_size,
    is_terminal,
    print_note,
    print_nothing,
    print_table,
)
from daybreak_client.command.proof import Proof
from daybreak_client.database_sync import (
    UNCHANGED,
    Callbacks,
    ResourceResult,
    SyncResult,
    remove_account,
    synced_accounts,
)
from daybreak_client.database_sync import sync as sync_account
from daybreak_client.database_sync.plan import DELTA
from daybreak_client.database_sync.targets import has_password, place_of
from daybreak_client.errors import Damaged
from daybreak_client.service import AccountFiles

_COLUMNS = ("resource", "action", "rows", "inserted", "deleted", "download", "verified")
_NUMBERS = frozenset({"rows", "inserted", "deleted", "download"})


def sync(
    target: Annotated[str, Parameter(help="Database: duckdb:///exports.duckdb or postgresql://user@host/database.")],
    *,
    schema: Annotated[
        str | None, Parameter(help="Schema of the tables. Default: main in DuckDB, daybreak in PostgreSQL.")
    ] = None,
    accounts: Accounts = Accounts(),
    verify: Annotated[
        Flag, Parameter(help="Export the tables again and compare their digests with the published files.")
    ] = False,
    full: Annotated[Flag, Parameter(help="Load all rows again instead of changes.")] = False,
    proof: Proof = Proof(),
    mode: Mode = Mode(),
) -> int:
    """Bring the nine tables of a database to the published version, and print what changed.

    The first run loads the tables; later runs transfer only changed and deleted
    rows. All tables change in one transaction: an error leaves them unchanged. Run
    it as often as you like: without a new version it costs one request.

    Several accounts share the tables; LEADER_ID separates them. The version of
    each is in _daybreak_sync. If the trust file of the service is known, files and
    changes must match their signed statements. PostgreSQL takes a password from
    PGPASSWORD or ~/.pgpass. Needs daybreak[duckdb] or daybreak[postgresql].
    """
    _warn_about_password(target)
    silent = mode.quiet or mode.as_json
    on_step = print_note if is_terminal(sys.stderr) and not silent else print_nothing
    report, lock_wait = _Report(mode, accounts), mode.lock_wait()

    def work(account: AccountFiles) -> dict[str, object]:
        account.verifier = proof.verifier(account.address, accounts)
        with download_progress(quiet=silent) as on_progress:
            callbacks = Callbacks(on_progress, on_step, lock_wait)
            result = sync_account(
                account, target, schema=schema, full=full, verify=verify, dry_run=mode.dry_run, callbacks=callbacks
            )
        report.print(result)
        return {**asdict(result), "as_of": result.as_of.isoformat(), "changed": result.changed}

    left_over = LeftOver(
        place_of(target),
        lambda _: synced_accounts(target, schema, lock_wait=lock_wait),
        lambda client_id: remove_account(target, client_id, schema, lock_wait=lock_wait),
    )
    exit_code = run_for_accounts(accounts, mode, work, left_over)
    return exit_code or (Damaged.exit_code if report.different else 0)


def _warn_about_password(target: str) -> None:
    if has_password(target):
        print_note(
            "daybreak: The URL contains a password. Other users can list the arguments of a command. Use PGPASSWORD or "
            "~/.pgpass."
        )


@dataclass(slots=True)
class _Report:
    """Output of the results of one command. `different`: a table differs from its published file."""

    mode: Mode
    accounts: Accounts
    different: bool = False
    _has_header: bool = False

    def print(self, result: SyncResult) -> None:
        """Print a table of the resources, and notes."""
        if not (self.mode.quiet or self.mode.as_json):
            self._print_resources(result)
            print_note(f"{result.client_id}: {_summary(result)} Data as of {result.as_of:%Y-%m-%d %H:%M} UTC.")
        for text in () if self.mode.quiet else result.notes:
            print_note(text)
        if result.different:
            self.different = True
            print_note(
                f"daybreak: {', '.join(result.different)}: not equal to the published files of version "
                f"{result.version}. Run the sync with --full to load all rows again."
            )

    def _print_resources(self, result: SyncResult) -> None:
        shown = [each for each in result.resources if each.action != UNCHANGED or each.verified]
        if not shown:
            return
        # In a pipe, the lines of several accounts are one table.
        account = (result.client_id,) if self.accounts.all_accounts and not is_terminal(sys.stdout) else ()
        print_table(
            (*["account"] * len(account), *_COLUMNS),
            [(*account, *_cells(each)) for each in shown],
            _NUMBERS,
            continued=self._has_header,
        )
        self._has_header = True


def _cells(result: ResourceResult) -> tuple[str, ...]:
    return (
        result.resource,
        f"{result.action}: {result.reason}" if result.reason else result.action,
        format_count(result.rows),
        _format_changes(result, result.inserted),
        _format_changes(result, result.deleted),
        format_size(result.size_bytes),
        result.verified,
    )


def _format_changes(result: ResourceResult, count: int) -> str:
    """Format a number of changed rows. On a terminal, full loads have none."""
    return "" if is_terminal(sys.stdout) and result.action != DELTA else format_count(count)


def _summary(result: SyncResult) -> str:
    if not result.changed:
        return f"Version {result.version} is current."
    loaded = f"{'Would load' if result.dry_run else 'Loaded'} version {result.version}"
    if result.previous_version is None:
        return f"{loaded} for the first time."
    if result.previous_version == result.version:
        return f"{loaded} again."
    return f"{loaded}, from version {result.previous_version}."
