"""Where the command keeps who is signed in: one file that its owner alone can read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from daybreak_client.errors import WrongUse


@dataclass(frozen=True, slots=True)
class Profile:
    """A service, a token of it and, once one is chosen, an account."""

    address: str
    token: str
    client_id: str | None = None
    plain_http: bool = False


def profile_file(environ: Mapping[str, str]) -> Path:
    """`DAYBREAK_PROFILE`, else `daybreak/profile.json` where the user's configuration lies (XDG base directories)."""
    named = environ.get("DAYBREAK_PROFILE")
    if named:
        return Path(named)
    return Path(environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "daybreak" / "profile.json"


def load(path: Path) -> Profile | None:
    """What was saved, None when nothing was. Raises WrongUse when others can read it, or it is no profile."""
    try:
        with path.open(encoding="utf-8") as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o077:
                raise WrongUse(f"{path}: others can read it, and so the token in it. Log in anew, or `chmod 600` it.")
            return Profile(**json.load(file))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        raise WrongUse(f"{path} is no profile. Remove it and log in anew.") from None


def save(path: Path, profile: Profile) -> None:
    """Writes it whole or not at all; never is it readable by others."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(asdict(profile), file)
    new.replace(path)


def forget(path: Path) -> None:
    """Removes it, if it is there."""
    path.unlink(missing_ok=True)
