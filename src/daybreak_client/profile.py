"""The saved login of the command: one file with mode 0600."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from daybreak_client.errors import WrongUse


@dataclass(frozen=True, slots=True)
class Profile:
    """The URL of a service (`address`), a token, and the selected account if there is one."""

    address: str
    token: str
    client_id: str | None = None
    plain_http: bool = False


def profile_file(environ: Mapping[str, str]) -> Path:
    """Return `DAYBREAK_PROFILE`, else `daybreak/profile.json` in the XDG configuration folder."""
    path = environ.get("DAYBREAK_PROFILE")
    if path:
        return Path(path)
    return Path(environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "daybreak" / "profile.json"


def load(path: Path) -> Profile | None:
    """Return the saved profile, None without a file. Raises WrongUse when it is invalid or readable by other users."""
    try:
        with path.open(encoding="utf-8") as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o077:
                raise WrongUse(
                    f"{path} is readable by other users, and so is its token. Sign in again or `chmod 600` it."
                )
            return Profile(**json.load(file))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        raise WrongUse(f"{path} is not a profile. Remove it and sign in again.") from None


def save(path: Path, profile: Profile) -> None:
    """Save a profile atomically. The file is never readable by other users."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(asdict(profile), file)
    temporary.replace(path)


def delete(path: Path) -> None:
    """Delete a saved profile, if there is one."""
    path.unlink(missing_ok=True)
