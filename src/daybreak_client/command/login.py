"""`daybreak login`, `logout`, `accounts`, `use` and `profiles`."""

import getpass
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from daybreak_client.command import profile as sign_ins
from daybreak_client.command.options import AsJson, Credential, Flag, ProfileName
from daybreak_client.command.output import freshness, print_json, print_note, print_table, sentence
from daybreak_client.command.profile import (
    Profile,
    connect,
    current_profile,
    delete_token,
    find_token,
    missing_profile,
    save_token,
    saved_profile,
)
from daybreak_client.errors import ClientError, NotPublished, Refused, WrongUse
from daybreak_client.published import Account
from daybreak_client.service import API_TOKEN_PREFIX, AccountFiles, Daybreak


def login(
    address: Annotated[str, Parameter(help="URL of the service, such as https://export.example.org.")],
    *,
    email: Annotated[str | None, Parameter(help="Your email. Default: prompt for it.")] = None,
    api_token: Annotated[Flag, Parameter(help="Sign in with an API token; prompts for it.")] = False,
    account: Annotated[str | None, Parameter(help="client_id of the API token's account.")] = None,
    profile: Annotated[
        str | None, Parameter(help="Name to save the sign-in under. Default: DAYBREAK_PROFILE, else `default`.")
    ] = None,
    keyring: Annotated[
        Flag,
        Parameter(help="Save the token in the keyring of the system. Needs the extra daybreak[keyring]."),
    ] = False,
    plain_http: Annotated[Flag, Parameter(help="Allow http:// over a network.")] = False,
) -> None:
    """Sign in and save the token.

    Prompts on a terminal, otherwise reads lines from standard input. A wrong code
    can be typed again twice. The token is saved in a file with mode 0600:
    ~/.config/daybreak/profile.json, or profiles/NAME.json next to it. Sign in
    under several names to use several services or people, and select one with
    --profile.
    """
    if api_token and account is None:
        raise WrongUse("Specify the account of the API token: --account CLIENT_ID.")
    path = sign_ins.profile_file(os.environ, profile)
    with Daybreak(address, plain_http=plain_http) as service:
        if api_token:
            service.token = _prompt_secret("API token: ").strip()
            assert account is not None
            status = _status_of(service.account(account))
            selected = account
        else:
            service.log_in(email or _prompt("Email: "), _prompt_secret("Password: "), _code_prompt())
            accounts = service.accounts()
            if not accounts:
                raise WrongUse("The service lists no account of yours. Ask its operator for access.")
            current = next((each for each in accounts if each.current), accounts[0])
            selected = current.client_id
            status = sentence(f"Selected account: {current.name}") if len(accounts) == 1 else (
                f"Selected account: {current.name}, one of {len(accounts)}. See `daybreak accounts`."
            )  # fmt: skip
        assert service.token is not None
        _save(path, Profile(service.address, service.token, selected, plain_http, keyring))
    print_note(f"Signed in to {service.address}. {status}")


def logout(*, profile: ProfileName = None) -> None:
    """Sign out. Ends the session and its links; an API token is only removed from the profile."""
    path = sign_ins.profile_file(os.environ, profile)
    saved = sign_ins.load(path)
    if saved is None:
        name = sign_ins.selected_name(os.environ, profile)
        print_note("You are not signed in." if name is None else f"There is no profile {name!r}.")
        return
    token = find_token(path) if saved.keyring else saved.token
    if token is None:
        print_note("The keyring of the system does not contain the token. Only the profile is removed.")
    else:
        _end_session(replace(saved, token=token))
    if saved.keyring:
        delete_token(path)
    sign_ins.delete(path)


def _end_session(profile: Profile) -> None:
    """End the session of a profile. An API token stays valid. Raises Refused, Unreachable."""
    if profile.token.startswith(API_TOKEN_PREFIX):
        return
    with connect(profile) as service:
        try:
            service.log_out()
        except Refused as refusal:
            # The session has ended already.
            if refusal.status != HTTPStatus.UNAUTHORIZED:
                raise


def _discard_keyring_token(path: Path) -> None:
    """Remove the token of an earlier sign-in from the keyring and end its session. A failure is only a note."""
    try:
        previous = sign_ins.load(path)
    except WrongUse:
        return
    if previous is None or not previous.keyring:
        return
    try:
        token = find_token(path)
        delete_token(path)
        if token is not None:
            _end_session(replace(previous, token=token))
    except ClientError as error:
        print_note(f"The earlier sign-in was not ended: {error.message}")


def _save(path: Path, profile: Profile) -> None:
    if not profile.keyring:
        _discard_keyring_token(path)
    else:
        save_token(path, profile.token)
        profile = Profile(profile.address, "", profile.client_id, profile.plain_http, keyring=True)
    sign_ins.save(path, profile)


def _status_of(account_files: AccountFiles) -> str:
    """Return the freshness of the files, which also verifies the token. Raises Refused."""
    try:
        return freshness(account_files.published())
    except NotPublished as error:
        return error.message


def _code_prompt() -> Callable[[], str]:
    """Return a function that prompts for the code of the second factor, and after a wrong code again."""
    prompts = iter(["Code: "])
    return lambda: _prompt_secret(next(prompts, "Wrong code. Code: "))


def _prompt(prompt: str) -> str:
    """Read a line, with a prompt on a terminal. Raises WrongUse as `_read` does."""
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        sys.stderr.write(prompt)
        sys.stderr.flush()
    line = _read(sys.stdin.readline)
    if is_terminal and not line:
        raise _end_of_input()
    return line.rstrip("\r\n")


def _prompt_secret(prompt: str) -> str:
    """Read a line without echo. Raises WrongUse as `_read` does."""
    return _read(lambda: getpass.getpass(prompt)) if sys.stdin.isatty() else _prompt(prompt)


def _read(read: Callable[[], str]) -> str:
    """Return what `read` returns. Raises WrongUse when input on a terminal ends, or is not text."""
    try:
        text = read()
        # Some locales pass on bytes that are not text as surrogates.
        text.encode()
    except UnicodeError:
        raise WrongUse("The input is not UTF-8. Run the command again.") from None
    except EOFError:
        raise _end_of_input() from None
    return text


def _end_of_input() -> WrongUse:
    """End the line of a prompt, and return the error of input that ended there."""
    print_note("")
    return WrongUse("The input ended at a prompt. Run the command again.")


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
    path = sign_ins.profile_file(os.environ, profile)
    stored = sign_ins.load(path)
    if stored is None:
        raise missing_profile(profile)
    with connect(saved_profile(profile)) as service:
        selected = _find_account(service.accounts(), account)
        service.account(selected.client_id)
    sign_ins.save(path, replace(stored, client_id=selected.client_id))
    print_note(f"Selected account: {selected.name} ({selected.client_id}).")


def profiles(*, as_json: AsJson = False) -> int:
    """List your saved sign-ins, by name. A damaged one does not prevent the list."""
    rows, exit_code = [], 0
    for name, path in sign_ins.saved_profiles(os.environ).items():
        try:
            found = sign_ins.load(path)
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
