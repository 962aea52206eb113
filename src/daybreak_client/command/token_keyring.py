"""Tokens in the keyring of the system (macOS Keychain, Secret Service, Windows Credential Locker)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from daybreak_client.errors import WrongUse, reason_of

_SERVICE = "daybreak"


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
