"""The service, token and account of a command: from options, the environment, or a saved sign-in.

Sign-ins are saved by name. Each is a file with mode 0600, or 0600 and an entry in the keyring.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import ModuleType

from daybreak_client.command.options import Access, Credential
from daybreak_client.connection import is_token
from daybreak_client.errors import WrongUse, reason_of
from daybreak_client.folder import expanded, replace_private
from daybreak_client.service import Daybreak

DEFAULT_NAME = "default"

_SERVICE = "daybreak"


@dataclass(frozen=True, slots=True)
class Profile:
    """The URL of a service (`address`), a token, and the selected account if there is one.

    `keyring`: the token is in the keyring of the system, and `token` is empty in the file.
    """

    address: str
    token: str
    client_id: str | None = None
    plain_http: bool = False
    keyring: bool = False


def profile_file(environ: Mapping[str, str], name: str | None = None) -> Path:
    """Return the file of a profile, by name or path. The default is `selected_name`, else `default`.

    Raises WrongUse for an invalid name, such as an empty variable of a shell.
    """
    name = selected_name(environ, name)
    if name is None:
        name = DEFAULT_NAME
    if "/" in name or os.sep in name or name.endswith(".json"):
        return expanded(Path(name))
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise WrongUse(f"{name!r} is not the name of a profile. Use letters, digits, `-`, `_` and `.`.")
    folder = _folder(environ)
    return folder / "profile.json" if name == DEFAULT_NAME else folder / "profiles" / f"{name}.json"


def selected_name(environ: Mapping[str, str], name: str | None) -> str | None:
    """Return the name or path of an option, else that of `DAYBREAK_PROFILE`, None without both."""
    return environ.get("DAYBREAK_PROFILE") or None if name is None else name


def saved_profiles(environ: Mapping[str, str]) -> dict[str, Path]:
    """Return the files of the saved profiles by name."""
    folder = _folder(environ)
    named = {path.stem: path for path in sorted((folder / "profiles").glob("*.json"))}
    default = folder / "profile.json"
    return {DEFAULT_NAME: default, **named} if default.exists() else named


def load(path: Path) -> Profile | None:
    """Return the saved profile, None without a file. Raises WrongUse when it is invalid or readable by other users."""
    try:
        found = Profile(**json.loads(read_private(path)))
        # A TypeError for values that are not text.
        "".join((found.address, found.token, found.client_id or ""))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, RecursionError):
        raise WrongUse(f"{path} is not a profile. Remove it and sign in again.") from None
    return found


def read_private(path: Path) -> str:
    """Return the text of a file with a token. Raises WrongUse when other users can read it."""
    with path.open(encoding="utf-8") as file:
        if os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o077:
            raise WrongUse(f"{path} is readable by other users, and so is its token. Run `chmod 600 {path}`.")
        return file.read()


def save(path: Path, profile: Profile) -> None:
    """Save a profile atomically, without a token that is in the keyring. The file is never readable by other users."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace_private(path, json.dumps(asdict(replace(profile, token="") if profile.keyring else profile)))


def proof_folder(environ: Mapping[str, str], name: str | None = None) -> Path:
    """Return the folder of what was seen of services. Profiles share it, except those that are selected by path."""
    file, folder = profile_file(environ, name), _folder(environ)
    return (folder if folder in file.parents else file.parent) / "proof"


def _folder(environ: Mapping[str, str]) -> Path:
    return expanded(Path(environ.get("XDG_CONFIG_HOME") or "~/.config")) / "daybreak"


def save_token(profile_file: Path, token: str) -> None:
    """Save the token of a profile. Raises WrongUse without a keyring."""
    with _keyring() as keyring:
        keyring.set_password(_SERVICE, str(profile_file), token)


def find_token(profile_file: Path) -> str | None:
    """Return the token of a profile, None when the keyring does not contain it. Raises WrongUse without a keyring."""
    with _keyring() as keyring:
        token: str | None = keyring.get_password(_SERVICE, str(profile_file))
    return token


def delete_token(profile_file: Path) -> None:
    """Delete the token of a profile, if there is one. Raises WrongUse without a keyring."""
    with _keyring() as keyring:
        if keyring.get_password(_SERVICE, str(profile_file)) is not None:
            keyring.delete_password(_SERVICE, str(profile_file))


@contextmanager
def _keyring() -> Iterator[ModuleType]:
    try:
        import keyring
        from keyring.errors import KeyringError
    except ModuleNotFoundError:
        raise WrongUse("The package `keyring` is not installed. Run `pip install keyring`.") from None
    try:
        yield keyring
    except KeyringError as fault:
        raise WrongUse(
            f"The keyring of the system is not available: {reason_of(fault)}. Sign in without --keyring to use a file."
        ) from fault


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
    """Return a saved profile with its token. Raises WrongUse when one of them is missing."""
    path = profile_file(os.environ, name)
    profile = load(path)
    if profile is None:
        raise missing_profile(name)
    if not profile.keyring:
        return profile
    token = find_token(path)
    if token is None:
        raise WrongUse("The keyring of the system does not contain the token. Sign in again.")
    return replace(profile, token=token)


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
    name = selected_name(os.environ, name)
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
        token = read_private(expanded(Path(path))).strip()
    except UnicodeDecodeError:
        token = ""
    if not is_token(token):
        raise WrongUse(f"{path} does not contain a token. Write the token alone into it.")
    return token
