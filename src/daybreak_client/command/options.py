"""Options shared by several commands."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from daybreak_client.command.output import print_note, print_nothing
from daybreak_client.errors import WrongUse
from daybreak_client.folder import LockWait

_SECONDS = {"s": 1, "m": 60, "h": 3600}
Flag = Annotated[bool, Parameter(negative="")]
"""An option without a value, and without a `--no-` form."""
ProfileName = Annotated[
    str | None, Parameter(help="Saved sign-in to use, by name. Default: DAYBREAK_PROFILE, else `default`.")
]
LockTimeout = Annotated[str, Parameter(help="Maximum wait for another fetch or sync of the same folder or database.")]
AsJson = Annotated[Flag, Parameter(name="--json", help="Print JSON, for programs.")]
Format = Annotated[str, Parameter(help="csv or json; ndjson and parquet if the service offers them.")]


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Credential:
    """Options that select the service and the token."""

    profile: ProfileName = None
    token_file: Annotated[
        Path | None, Parameter(help="File with the token, readable by you only, in place of DAYBREAK_TOKEN.")
    ] = None


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Access(Credential):
    """Options that select the service, the token and the account."""

    account: Annotated[
        str | None, Parameter(help="client_id of an account. Default: DAYBREAK_ACCOUNT, else the selected one.")
    ] = None


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Accounts(Access):
    """Options that select the service, the token, and one account or all accounts."""

    all_accounts: Annotated[Flag, Parameter(help="All your accounts. An error of one does not stop the others.")] = (
        False
    )
    prune: Annotated[
        Flag,
        Parameter(help="Remove the data of accounts that you can no longer access. Needs --all-accounts."),
    ] = False


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Wanted:
    """Options that select files."""

    only: Annotated[
        list[str] | None, Parameter(negative="", help="Only these resources, such as members,campaigns. Repeatable.")
    ] = None
    format: Annotated[list[str] | None, Parameter(negative="", help="Formats, such as csv,json. Repeatable.")] = None

    @property
    def resources(self) -> tuple[str, ...]:
        """The names of `--only`. Raises WrongUse."""
        return names_of("--only", self.only)

    @property
    def formats(self) -> tuple[str, ...]:
        """The names of `--format`. Raises WrongUse."""
        return names_of("--format", self.format)


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Mode:
    """Options for what a command changes and prints."""

    dry_run: Annotated[Flag, Parameter(help="Print what would happen. Nothing is changed.")] = False
    as_json: AsJson = False
    quiet: Annotated[Flag, Parameter(help="Print errors only.")] = False
    lock_timeout: LockTimeout = "5m"

    def lock_wait(self) -> LockWait:
        """Return the wait for locks. Raises WrongUse."""
        return LockWait(
            parse_duration("--lock-timeout", self.lock_timeout), print_nothing if self.quiet else print_note
        )


def parse_duration(option: str, text: str) -> float:
    """Return the seconds of a duration such as `30m`. Raises WrongUse."""
    found = re.fullmatch(r"([0-9]{1,9})([smh])", text)
    if found is None:
        raise WrongUse(f"{option}: {text!r} is not a duration. Use one such as 90s, 30m or 2h.")
    return int(found[1]) * _SECONDS[found[2]]


def names_of(option: str, values: Iterable[str] | None) -> tuple[str, ...]:
    """Return the names of a repeatable option, each of whose values may be a comma-separated list.

    Raises WrongUse for an option without a name, such as an empty variable of a shell.
    """
    if values is None:
        return ()
    names = tuple(name for value in values for name in map(str.strip, value.split(",")) if name)
    if not names:
        raise WrongUse(f"{option} is empty. Specify a name, or omit the option.")
    return names
