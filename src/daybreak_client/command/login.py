"""`daybreak login`, `logout`, `accounts`, `use` and `profiles`."""

import getpass
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from daybreak_client.command import profile as sign_ins
from daybreak_client.command.options import AsJson, Credential, Flag, ProfileName
from daybreak_client.command.output import freshness, print_json, print_note, print_table, sentence
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
            service.token = _prompt("API token: ").strip()
            assert account is not None
            status = _status_of(service.account(account))
            selected = account
        else:
            service.log_in(email or _prompt("Email: ", echo=True), _prompt("Password: "), _code_prompt())
            accounts = service.accounts()
            if not accounts:
                raise WrongUse("The service lists no account of yours. Ask its operator for access.")
            current = next((each for each in accounts if each.current), accounts[0])
            selected = current.client_id
            status = sentence(f"Selected account: {current.name}") if len(accounts) == 1 else (
                f"Selected account: {current.name}, one of {len(accounts)}. See `daybreak accounts`."
            )  # fmt: skip
        assert service.token is not None
        _save(path, sign_ins.Profile(service.address, service.token, selected, plain_http, keyring))
    print_note(f"Signed in to {service.address}. {status}")


def logout(*, profile: ProfileName = None) -> None:
    """Sign out. Ends the session and its links; an API token is only removed from the profile."""
    path = sign_ins.profile_file(os.environ, profile)
    saved = sign_ins.load(path)
    if saved is None:
        name = sign_ins.selected_name(os.environ, profile)
        print_note("You are not signed in." if name is None else f"There is no profile {name!r}.")
        return
    token = sign_ins.find_token(path) if saved.keyring else saved.token
    if token is None:
        print_note("The keyring of the system does not contain the token. Only the profile is removed.")
    else:
        _end_session(replace(saved, token=token))
    if saved.keyring:
        sign_ins.delete_token(path)
    path.unlink(missing_ok=True)


def _end_session(profile: sign_ins.Profile) -> None:
    """End the session of a profile. An API token stays valid. Raises Refused, Unreachable."""
    if profile.token.startswith(API_TOKEN_PREFIX):
        return
    with sign_ins.connect(profile) as service:
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
        token = sign_ins.find_token(path)
        sign_ins.delete_token(path)
        if token is not None:
            _end_session(replace(previous, token=token))
    except ClientError as error:
        print_note(f"The earlier sign-in was not ended: {error.message}")


def _save(path: Path, profile: sign_ins.Profile) -> None:
    if profile.keyring:
        sign_ins.save_token(path, profile.token)
    else:
        _discard_keyring_token(path)
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
    return lambda: _prompt(next(prompts, "Wrong code. Code: "))


def _prompt(prompt: str, *, echo: bool = False) -> str:
    """Return a line that is typed after a prompt, or a line of standard input if that is not a terminal.

    Raises WrongUse when input on a terminal ends, or is not text.
    """
    ask = _ask if echo else getpass.getpass
    try:
        text = ask(prompt) if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
        # Some locales pass on bytes that are not text as surrogates.
        text.encode()
    except UnicodeError:
        raise WrongUse("The input is not UTF-8. Run the command again.") from None
    except EOFError:
        print_note("")  # ends the line of the prompt
        raise WrongUse("The input ended at a prompt. Run the command again.") from None
    return text


def _ask(prompt: str) -> str:
    sys.stderr.write(prompt)
    sys.stderr.flush()
    return input()


def accounts(*, credential: Credential = Credential(), as_json: AsJson = False) -> None:
    """List your accounts, by name. The selected one is marked."""
    profile = sign_ins.current_profile(credential)
    current = (profile.client_id or "").lower()
    with sign_ins.connect(profile) as service:
        found = service.accounts()
    if as_json:
        print_json([{**asdict(each), "current": each.client_id == current} for each in found])
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
    saved = sign_ins.saved_profile(profile)
    with sign_ins.connect(saved) as service:
        selected = _find_account(service.accounts(), account)
        service.account(selected.client_id)
    sign_ins.save(sign_ins.profile_file(os.environ, profile), replace(saved, client_id=selected.client_id))
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
