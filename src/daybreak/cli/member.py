"""`daybreakd member`: erasure of Members from stored files, and its receipts."""

import os
import socket
from functools import partial
from typing import Annotated

from cyclopts import App, Parameter

from daybreak.bootstrap import open_source, run_context
from daybreak.cli.logs import configure_logging
from daybreak.cli.options import AsJson, Config, Flag, parse_member_id, settings_of, state_of, user_name
from daybreak.cli.output import fields_of, format_instant, print_json, print_note, print_table, print_text
from daybreak.domain.display import format_count
from daybreak.domain.erasure import Erasure
from daybreak.domain.errors import SourceError
from daybreak.domain.snapshot import Snapshot
from daybreak.settings import Settings
from daybreak.snapshots.builder import stop_on_signals
from daybreak.snapshots.erase import FoundMember, erase_member, find_member
from daybreak.snapshots.member_files import member_in_source
from daybreak.state.stores import Stores

app = App(name="member", help="Erase Members from stored files.")
MemberId = Annotated[str, Parameter(help="MEMBER_ID of the Member, or its integer key with source.key_namespace.")]


@app.command
def erase(
    member_id: MemberId,
    *,
    dry_run: Annotated[Flag, Parameter(help="List the files that would be replaced.")] = False,
    config: Config = None,
) -> int:
    """Remove a Member's rows from the files of all kept snapshots, and delete the old
    files. Delete the Member on the platform first. Run the command again after an
    interruption. Exit code 1 if the platform still has the Member.
    """
    settings = settings_of(config)
    wanted = parse_member_id(member_id, settings.source.key_namespace)
    configure_logging(settings)
    with state_of(settings) as state:
        context = run_context(settings, state)
        if dry_run:
            found = find_member(context, wanted)
            _print_found(found)
            if found.faults:
                return 1
        else:
            stop_on_signals(context.stop)
            _print_result(erase_member(context, wanted, _operator(), _print_waiting))
    return _report_source(settings, wanted)


@app.command
def receipts(*, json: AsJson = False, config: Config = None) -> None:
    """List erasures, oldest first. A receipt has the SHA-256 of the MEMBER_ID, and no other data of the Member."""
    with state_of(config) as state:
        found = state.read(lambda stores: stores.erasures.list_all())
        signed = [state.read(partial(_signed_receipts, each.erasure_id)) for each in found] if json else []
    if json:
        names = ("erasure_id", "member_sha256", "requested_by", "started_at", "finished_at", "replaced")
        values = [{**fields_of(each, *names), "signed_receipts": own} for each, own in zip(found, signed, strict=True)]
        print_json(values)
        return
    print_table(
        ("ERASURE", "MEMBER SHA-256", "REQUESTED BY", "STARTED (UTC)", "FINISHED (UTC)", "SNAPSHOTS", "ROWS"),
        [
            (
                each.erasure_id,
                each.member_sha256,
                each.requested_by,
                format_instant(each.started_at),
                format_instant(each.finished_at),
                len({files.snapshot_id for files in each.replaced}),
                sum(files.rows for files in each.replaced),
            )
            for each in found
        ],
        numbers=frozenset({"SNAPSHOTS", "ROWS"}),
    )


def _operator() -> str:
    """Return the user and the machine, for the receipt."""
    return f"{user_name(os.getuid())}@{socket.gethostname()}"


def _print_found(found: FoundMember) -> None:
    print_table(
        ("SNAPSHOT", "STATE", "AS OF (UTC)", "ACCOUNT", "RESOURCES"),
        [
            (
                each.snapshot.snapshot_id,
                each.snapshot.state,
                format_instant(each.snapshot.as_of),
                each.client_id,
                ", ".join(each.entries),
            )
            for each in found.files
        ],
    )
    for client_id in found.deltas:
        print_note(f"Deltas of the account {client_id} name the Member. They would be deleted.")
    for reason in found.faults.values():
        print_note(f"Not searched: {reason}")
    is_found = found.files or found.deltas
    print_note("Nothing was changed." if is_found else "No stored file has rows of this Member. Nothing was changed.")


def _print_waiting(run: Snapshot) -> None:
    print_note(f"Waiting for the run {run.snapshot_id}: its files may have rows of the Member.")


def _print_result(erasure: Erasure) -> None:
    if erasure.replaced:
        snapshots = {files.snapshot_id for files in erasure.replaced}
        rows = sum(files.rows for files in erasure.replaced)
        erased = f"{format_count(rows, 'row')} in {format_count(len(snapshots), 'snapshot')}"
        print_text(f"Erased: {erased}. Receipt: {erasure.erasure_id}")
    else:
        print_text(f"No stored file has rows of this Member. Receipt: {erasure.erasure_id}")


def _report_source(settings: Settings, member_id: str) -> int:
    """Report whether the next run exports the Member again. Return the exit code."""
    try:
        found = member_in_source(open_source(settings), member_id)
    except SourceError as error:
        print_note(
            f"The platform could not be checked: {error.message} If the platform still has the Member, delete the "
            "Member there."
        )
        return 1
    if found.state == "present":
        print_note(
            f"The platform still has this Member in {', '.join(found.tables)}, so the next run exports it again. "
            "Delete it there, then run this command again."
        )
        return 1
    if found.state == "deleted":
        print_note("The platform has marked this Member as deleted. Runs export its MEMBER_ID without personal data.")
    return 0


def _signed_receipts(erasure_id: str, stores: Stores) -> list[dict[str, str]]:
    """Return the signed receipt of each account, for that account."""
    return [
        {"client_id": client_id, "statement": content, "signature": signature}
        for client_id, (content, signature) in stores.erasures.receipts(erasure_id).items()
    ]
