"""`daybreak receipts`: signed receipts of erasures."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from daybreak_client.command.options import Access, AsJson
from daybreak_client.command.output import format_count, print_json, print_note, print_table
from daybreak_client.command.profile import connect, current_profile, selected_account
from daybreak_client.command.proof import TrustFile, make_verifier
from daybreak_client.errors import NotProved
from daybreak_client.folder import expanded, make_private_folder, replace_private
from daybreak_client.proof.receipts import Receipt, checked_receipts


def receipts(
    folder: Annotated[Path | None, Parameter(help="Folder in which to store the receipts.")] = None,
    *,
    access: Access = Access(),
    trust: TrustFile = None,
    as_json: AsJson = False,
) -> None:
    """List the erasures of Members in files of your account, after a check of each signed receipt.

    With a folder, each receipt is stored there as ERASURE_ID.json with its
    signature, ERASURE_ID.json.sig. A receipt has the SHA-256 of the MEMBER_ID, and
    the replaced files with their digests before and after. It says that the stored
    files have no row of the Member, not that your copies have none.
    """
    profile = current_profile(access)
    verifier = make_verifier(profile.address, access, trust, require_signed=True)
    with connect(profile) as service:
        account = service.account(selected_account(access, profile))
        seen = verifier.refresh(account.content)
        lines = account.content(f"/download/v1/files/{account.client_id}/receipts")
    # A pinned trust file lists the CAs of its time.
    trusted = [seen] if verifier.pinned is None else [seen, replace(seen, trust=verifier.pinned)]
    checked = list(checked_receipts(lines or b"", trusted, account.client_id))
    found = [each for each in checked if isinstance(each, Receipt)]
    faults = [each for each in checked if isinstance(each, NotProved)]
    if folder is not None and found:
        folder = expanded(folder)
        make_private_folder(folder)
        for each in found:
            replace_private(folder / f"{each.erasure_id}.json", each.content.decode())
            replace_private(folder / f"{each.erasure_id}.json.sig", each.signature.decode())
    _print(found, as_json=as_json)
    if faults:
        raise NotProved(
            f"{len(faults)} of {len(checked)} receipts are not proved: {faults[0].message} For a receipt from before "
            "a change of the CA, name the trust file of that time with --trust."
        )
    print_note(f"{len(found)} receipts of account {account.client_id}, all signed by {seen.trust.service}.")


def _print(found: Sequence[Receipt], *, as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {"erasure_id": each.erasure_id, "member_sha256": each.member_sha256,
                 "finished_at": each.finished_at.isoformat(), "files": each.files, "rows_removed": each.rows}
                for each in found
            ]
        )  # fmt: skip
        return
    print_table(
        ("erasure", "finished", "files", "rows removed", "SHA-256 of the MEMBER_ID"),
        [
            (each.erasure_id, f"{each.finished_at:%Y-%m-%d %H:%M} UTC", format_count(each.files),
             format_count(each.rows), each.member_sha256)
            for each in found
        ],
        frozenset({"files", "rows removed"}),
    )  # fmt: skip
