"""Options shared by several commands, and the parsing of their values."""

import os
import pwd
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from getpass import getpass
from pathlib import Path
from typing import Annotated, TypeVar
from urllib.parse import parse_qs, urlsplit
from uuid import UUID, uuid5

from cyclopts import Parameter
from cyclopts.validators import Number

from daybreak.bootstrap import open_state
from daybreak.cli.output import print_note
from daybreak.domain.errors import WrongUse
from daybreak.domain.identity import is_id
from daybreak.settings import Settings, load_settings
from daybreak.settings.text_forms import InvalidValue, parse_duration
from daybreak.state.database import Database
from daybreak.state.stores import Stores

T = TypeVar("T")
DEFAULT_FILE = "daybreak.toml"
# Databases refuse numbers of more than 63 bits.
MAXIMUM_NUMBER = 1_000_000_000

Flag = Annotated[bool, Parameter(negative="")]
"""An option without a value, and without a `--no-` form."""
Config = Annotated[
    Path | None,
    Parameter(
        name=["--config", "-c"],
        help=f"Configuration file. Default: the variable DAYBREAK_CONFIG, else ./{DEFAULT_FILE}.",
    ),
]
Limit = Annotated[
    int, Parameter(help="Maximum number of entries, newest first.", validator=Number(gte=1, lte=MAXIMUM_NUMBER))
]
AsJson = Annotated[Flag, Parameter(name="--json", help="Print JSON, for programs.")]


def settings_of(config: Path | None, *, source_needed: bool = True) -> Settings:
    """Load the settings of a command. Raises SettingsFault, and WrongUse for root if the service runs as another user.

    A command that needs no source runs without a file if `DAYBREAK_STATE__URL` is set.
    """
    file = config or (Path(os.environ["DAYBREAK_CONFIG"]) if os.environ.get("DAYBREAK_CONFIG") else None)
    enough = "DAYBREAK_SOURCE__LOCATION" if source_needed else "DAYBREAK_STATE__URL"
    if file is None and (Path(DEFAULT_FILE).exists() or enough not in os.environ):
        file = Path(DEFAULT_FILE)
    unused = {} if source_needed or file else {"DAYBREAK_SOURCE__LOCATION": "unused"}
    settings = load_settings(file, {**unused, **os.environ})
    if os.geteuid() == 0:
        _require_own_keyring(settings.keys.file)
    return settings


def _require_own_keyring(path: Path) -> None:
    """Raise WrongUse if another user owns the keyring. Only its owner can read it, so the service runs as that user,
    and could not read keys and files that this command writes.
    """
    try:
        owner = path.stat().st_uid
    except OSError:
        return  # The keyring is missing, which its users report.
    if owner != os.geteuid():
        name = user_name(owner)
        sudo_name = f"'#{owner}'" if name == str(owner) else name
        raise WrongUse(
            f"The service runs as {name}, who owns {path}, and cannot read what root writes. Run the command as that "
            f"user: `sudo -Hu {sudo_name} daybreakd ...`"
        )


def user_name(uid: int) -> str:
    """Return the name of a user, or the number of one without a name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


@contextmanager
def state_of(settings: Settings | Path | None) -> Iterator[Database]:
    """Open the state database of settings, or of those in a configuration file, and close it at the end."""
    with closing(open_state(settings if not isinstance(settings, Path | None) else settings_of(settings))) as state:
        yield state


def read_state(settings: Settings | Path | None, work: Callable[[Stores], T]) -> T:
    """Return the result of `work` on the state database of settings, or of those in a configuration file."""
    with state_of(settings) as state:
        return state.read(work)


def parse_instant(text: str, option: str) -> datetime:
    """Parse an instant such as `2026-11-20T04:00:00Z`, UTC without an offset. Raises WrongUse."""
    try:
        instant = datetime.fromisoformat(text)
        return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
    except (ValueError, OverflowError):
        raise WrongUse(f"{option}: Use an instant such as 2026-11-20T04:00:00Z.") from None


def parse_instant_or_age(text: str, option: str, now: datetime) -> datetime:
    """Parse an age such as `2h`, counted back from now, or an instant. Raises WrongUse."""
    try:
        return now - parse_duration(text)
    except (InvalidValue, OverflowError):
        try:
            return parse_instant(text, option)
        except WrongUse as fault:
            raise WrongUse(f'{fault.message[:-1]}, or an age such as "2h" or "7d".') from None


def parse_client_id(text: str, option: str) -> str:
    """Parse a client_id in any case. Raises WrongUse."""
    client_id = text.strip().lower()
    if not is_id(client_id):
        raise WrongUse(
            f"{option}: {text!r} is not a client_id such as 7d909222-adf5-4547-93e0-e8f60c50f980. "
            "`daybreakd directory export` lists them."
        )
    return client_id


def parse_member_id(text: str, key_namespace: UUID | None) -> str:
    """Parse a MEMBER_ID in any case, or an integer key of a platform whose views compute UUIDs in that namespace.
    Raises WrongUse.
    """
    member_id = text.strip().lower()
    if key_namespace is not None and re.fullmatch(r"-?(0|[1-9][0-9]{0,18})", member_id):
        return str(uuid5(key_namespace, f"member:{member_id}"))
    if not is_id(member_id):
        # The text is not repeated: it may be a phone number or a name.
        raise WrongUse("Use the MEMBER_ID of the Member, such as 7d909222-adf5-4547-93e0-e8f60c50f980.")
    return member_id


def parse_expiry(text: str, option: str, now: datetime) -> datetime:
    """Parse a duration such as `90d`, counted from now. Raises WrongUse."""
    try:
        return now + parse_duration(text)
    except InvalidValue as fault:
        raise WrongUse(f"{option}: {fault}") from None
    except OverflowError:
        raise WrongUse(f"{option}: Use a shorter duration.") from None


def refuse_password(url: str, option: str) -> None:
    """Raise WrongUse if a database URL contains a password: arguments are in the process list."""
    if url.startswith(("postgresql://", "postgres://")):
        parts = urlsplit(url)
        if parts.password or {"password", "sslpassword"} & parse_qs(parts.query).keys():
            raise WrongUse(
                f"{option} contains a password, which other users can see in the process list. "
                "Store it in ~/.pgpass or in PGPASSWORD."
            )


def read_line() -> str:
    """Return one line of standard input, without its end. Raises WrongUse."""
    with _input_faults():
        return sys.stdin.readline().rstrip("\n")


def prompt(question: str) -> str:
    """Return the answer to a question, which is asked on a terminal only. Raises WrongUse."""
    if sys.stdin.isatty():
        sys.stderr.write(question)
        sys.stderr.flush()
    return read_line().strip()


def read_secret(question: str) -> str:
    """Return one line that is typed on the terminal, without echo. Raises WrongUse."""
    with _input_faults():
        return getpass(question)


@contextmanager
def _input_faults() -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError:
        raise WrongUse("Standard input is not UTF-8. Nothing was changed.") from None
    except EOFError:
        print_note("")
        raise WrongUse("The input ended at a prompt. Nothing was changed.") from None
