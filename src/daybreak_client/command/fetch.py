"""`daybreak fetch`: download the files of one account or of all accounts."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from daybreak_client.command.every_account import LeftOver, Wait, run_for_accounts
from daybreak_client.command.options import Accounts, Flag, Mode, Wanted, parse_duration
from daybreak_client.command.output import (
    download_progress,
    freshness,
    print_note,
    print_nothing,
    print_text,
)
from daybreak_client.command.proof import Proof
from daybreak_client.folder import expanded, subfolder
from daybreak_client.provenance import recorded_accounts, remove_account
from daybreak_client.service import AccountFiles, FetchResult


def fetch(
    folder: Annotated[Path, Parameter(help="Folder of the files, created if necessary.")] = Path(),
    *,
    wanted: Wanted = Wanted(),
    accounts: Accounts = Accounts(),
    wait: Annotated[
        str | None, Parameter(help="Maximum wait for late files or an unavailable service, such as 2h.")
    ] = None,
    force: Annotated[Flag, Parameter(help="Replace the files of another account.")] = False,
    proof: Proof = Proof(),
    mode: Mode = Mode(),
) -> int:
    """Download missing and changed files to a folder, as CSV by default, and print their paths.

    Files are replaced only after all of them are downloaded and match their
    digests, so that an error leaves the folder unchanged. An interrupted download
    is resumed the next time. Files have mode 0600. daybreak.json in the folder
    names their account, snapshot and digests. With --all-accounts, each account
    has a folder with its client_id as name. If the trust file of the service is
    known, from --trust or `daybreak verify`, files must match their signed
    statement.
    """
    folder, lock_wait = expanded(folder), mode.lock_wait()
    resources, formats = wanted.resources, wanted.formats or ("csv",)
    waits = Wait(0.0 if wait is None else parse_duration("--wait", wait), print_nothing if mode.quiet else print_note)

    def fetch_account(account_files: AccountFiles) -> dict[str, object]:
        target = subfolder(folder, account_files.client_id) if accounts.all_accounts else folder
        account_files.verifier = proof.verifier(account_files.address, accounts)
        if wait is not None:
            waits.for_files(account_files)

        def transfer() -> FetchResult:
            with download_progress(quiet=mode.quiet or mode.as_json) as on_progress:
                return account_files.fetch(
                    target, resources, formats, on_progress, force=force, dry_run=mode.dry_run, lock_wait=lock_wait
                )

        fetched = waits.for_service(transfer)
        _print_result(target, fetched, mode, f"{account_files.client_id}: " if accounts.all_accounts else "")
        return _as_json(target, fetched)

    left_over = LeftOver(
        str(folder),
        lambda service: recorded_accounts(folder, service.address),
        lambda client_id: remove_account(folder / client_id, lock_wait),
    )
    return run_for_accounts(accounts, mode, fetch_account, left_over, waits)


def _print_result(folder: Path, fetched: FetchResult, mode: Mode, prefix: str) -> None:
    if mode.quiet:
        return
    if not mode.as_json:
        for file in fetched.downloaded:
            print_text(str(folder / file.name))
    would = "would change" if mode.dry_run else "changed"
    counts = f"{len(fetched.downloaded)} of {len(fetched.files)} files {would}."
    print_note(f"{prefix}{counts} {freshness(fetched.published)}")
    for note in (fetched.published.older_note(fetched.previous_version), fetched.published.incomplete_note):
        if note:
            print_note(f"{prefix}{note}")


def _as_json(folder: Path, fetched: FetchResult) -> dict[str, object]:
    return {
        **fetched.published.description(),
        "previous_version": fetched.previous_version,
        "files": [
            {"path": str(folder / file.name), "resource": file.resource, "format": file.format, "rows": file.rows,
             "bytes": file.size_bytes, "sha256": file.sha256, "changed": file in fetched.downloaded}
            for file in fetched.files
        ],
    }  # fmt: skip
