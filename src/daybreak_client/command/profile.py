"""Saved sign-ins of the command, by name. Each is a file with mode 0600, or 0600 and an entry in the keyring."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

from daybreak_client.errors import WrongUse, reason_of
from daybreak_client.folder import expanded, replace_private

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
        return Profile(**json.loads(read_private(path)))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        raise WrongUse(f"{path} is not a profile. Remove it and sign in again.") from None


def read_private(path: Path) -> str:
    """Return the text of a file with a token. Raises WrongUse when other users can read it."""
    with path.open(encoding="utf-8") as file:
        if os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o077:
            raise WrongUse(f"{path} is readable by other users, and so is its token. Run `chmod 600 {path}`.")
        return file.read()


def save(path: Path, profile: Profile) -> None:
    """Save a profile atomically. The file is never readable by other users."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace_private(path, json.dumps(asdict(profile)))


def proof_folder(environ: Mapping[str, str], name: str | None = None) -> Path:
    """Return the folder of what was seen of services. Profiles share it, except those that are selected by path."""
    file, folder = profile_file(environ, name), _folder(environ)
    return (folder if folder in file.parents else file.parent) / "proof"


def delete(path: Path) -> None:
    """Delete a saved profile, if there is one."""
    path.unlink(missing_ok=True)


def _folder(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "daybreak"


def save_token(profile_file: Path, token: str) -> None:
    """Save the token of a profile. Raises WrongUse without a keyring."""
    with _keyring() as keyring:
        keyring.set_password(_SERVICE, str(profile_file), token)


def find_token(profile_file: Path) -> str | None:
    """Return the token of a profile, None when the keyring does not contain it. Raises WrongUse without a keyring."""
    with _keyring() as keyring:
        token: str | None = keyring.get_password(_SERVICE, str(profile_file))
    return token


def load_token(profile_file: Path) -> str:
    """Return the token of a profile. Raises WrongUse without a keyring, and when it does not contain the token."""
    token = find_token(profile_file)
    if token is None:
        raise WrongUse("The keyring of the system does not contain the token. Sign in again.")
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
