"""`daybreak accounts`, `daybreak use` and `daybreak profiles`."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from cyclopts import Parameter

from daybreak_client.command import profile as saved
from daybreak_client.command.options import AsJson, Credential, ProfileName
from daybreak_client.command.output import print_json, print_note, print_table
from daybreak_client.command.sign_in import connect, current_profile, missing_profile, saved_profile
from daybreak_client.errors import WrongUse
from daybreak_client.published import Account


def accounts(*, credential: Credential = Credential(), as_json: AsJson = False) -> None:
    """List your accounts, by name. The selected one is marked."""
    profile = current_profile(credential)
    current = (profile.client_id or "").lower()
    with connect(profile) as service:
        found = service.accounts()
    if as_json:
        print_json(
            [
                {"client_id": each.client_id, "name": each.name, "roles": list(each.roles),
                 "current": each.client_id == current}
                for each in found
            ]
        )  # fmt: skip
        return
    print_table(
        ("", "account", "name", "roles"),
        [
            ("*" if each.client_id == current else "", each.client_id, each.name, ", ".join(each.roles))
            for each in found
        ],
    )


def use(
    account: Annotated[str, Parameter(help="client_id of the account, or a part of its name.")],
    *,
    profile: ProfileName = None,
) -> None:
    """Select the account for other commands."""
    path = saved.profile_file(os.environ, profile)
    stored = saved.load(path)
    if stored is None:
        raise missing_profile(profile)
    with connect(saved_profile(profile)) as service:
        selected = _find_account(service.accounts(), account)
        service.account(selected.client_id)
    saved.save(path, replace(stored, client_id=selected.client_id))
    print_note(f"Selected account: {selected.name} ({selected.client_id}).")


def profiles(*, as_json: AsJson = False) -> int:
    """List your saved sign-ins, by name. A damaged one does not prevent the list."""
    rows, exit_code = [], 0
    for name, path in saved.saved_profiles(os.environ).items():
        try:
            found = saved.load(path)
        except WrongUse as error:
            print_note(f"daybreak: {error.message}")
            exit_code = error.exit_code
        else:
            rows += [] if found is None else [(name, found.address, found.client_id or "")]
    if as_json:
        print_json([{"profile": name, "service": address, "client_id": account} for name, address, account in rows])
    else:
        print_table(("profile", "service", "account"), rows)
    return exit_code


def _find_account(known: Sequence[Account], text: str) -> Account:
    """Return the account with that id, or with that text in its name. Raises WrongUse."""
    wanted = text.casefold()
    exact = [each for each in known if wanted in {each.client_id, each.name.casefold()}]
    found = exact or [each for each in known if wanted in each.name.casefold()]
    if len(found) != 1:
        names = ", ".join(f"{each.name} ({each.client_id})" for each in (found or known)[:10])
        problem = "Several accounts have" if found else "No account has"
        raise WrongUse(f"{problem} {text!r} in the name. Use one of: {names}.")
    return found[0]
