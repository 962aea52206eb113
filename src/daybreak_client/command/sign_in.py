"""The service, token and account of a command: from options, the environment, or a saved profile."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from daybreak_client.command import profile as profiles
from daybreak_client.command.options import Access, Credential
from daybreak_client.command.profile import Profile, load_token
from daybreak_client.connection import is_token
from daybreak_client.errors import WrongUse
from daybreak_client.folder import expanded
from daybreak_client.service import Daybreak


def current_profile(credential: Credential) -> Profile:
    """Return the profile of options and environment, else the saved one. Raises WrongUse without any.

    `--profile` selects a saved profile. Otherwise the token of `--token-file`, DAYBREAK_TOKEN_FILE or DAYBREAK_TOKEN
    is used with the service of DAYBREAK_SERVICE, and the saved profile without them.
    """
    if credential.profile is not None:
        if credential.token_file is not None:
            raise WrongUse("Use --profile or --token-file, not both.")
        return saved_profile(credential.profile)
    selected = os.environ.get("DAYBREAK_ACCOUNT")
    address, token = os.environ.get("DAYBREAK_SERVICE"), _token(credential.token_file)
    if address and token:
        return Profile(address, token, selected, bool(os.environ.get("DAYBREAK_PLAIN_HTTP")))
    if address or token:
        raise WrongUse(
            "Set DAYBREAK_SERVICE, and DAYBREAK_TOKEN or --token-file; or set none of them and run `daybreak login`."
        )
    profile = saved_profile(None)
    return replace(profile, client_id=selected or profile.client_id)


def saved_profile(name: str | None) -> Profile:
    """Return a saved profile with its token. Raises WrongUse when there is none."""
    path = profiles.profile_file(os.environ, name)
    profile = profiles.load(path)
    if profile is None:
        raise missing_profile(name)
    return replace(profile, token=load_token(path)) if profile.keyring else profile


def selected_account(access: Access, profile: Profile) -> str:
    """Return the client_id of the account of a command. Raises WrongUse without any."""
    client_id = profile.client_id if access.account is None else access.account
    if not client_id:
        raise WrongUse("Specify the account with --account CLIENT_ID or DAYBREAK_ACCOUNT.")
    return client_id


def connect(profile: Profile) -> Daybreak:
    """Return the service of a profile, which the caller closes."""
    return Daybreak(profile.address, profile.token, plain_http=profile.plain_http)


def missing_profile(name: str | None) -> WrongUse:
    """Return the error of a command that needs a saved profile, or an environment in place of the default one."""
    name = profiles.selected_name(os.environ, name)
    if name is not None:
        return WrongUse(
            f"There is no profile {name!r}. Run `daybreak login URL --profile {name}`, or select one of "
            "`daybreak profiles`."
        )
    return WrongUse("You are not signed in. Run `daybreak login URL`, or set DAYBREAK_SERVICE and DAYBREAK_TOKEN.")


def _token(token_file: Path | None) -> str | None:
    """Return the token of a file or of DAYBREAK_TOKEN, None without one.

    Raises WrongUse for text that is not a token, and when other users can read the file.
    """
    path = token_file or os.environ.get("DAYBREAK_TOKEN_FILE")
    if not path:
        token = os.environ.get("DAYBREAK_TOKEN", "").strip()
        if token and not is_token(token):
            raise WrongUse("DAYBREAK_TOKEN contains a space or another invalid character. Copy the token again.")
        return token or None
    try:
        token = profiles.read_private(expanded(Path(path))).strip()
    except UnicodeDecodeError:
        token = ""
    if not is_token(token):
        raise WrongUse(f"{path} does not contain a token. Write the token alone into it.")
    return token
