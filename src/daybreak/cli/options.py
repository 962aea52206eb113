"""Options that many verbs share, and the configuration they stand for."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from daybreak.domain.errors import OperatorError

if TYPE_CHECKING:
    from daybreak.settings import Settings

DEFAULT_FILE = "daybreak.toml"

Config = Annotated[
    Path | None,
    Parameter(
        name=["--config", "-c"],
        help=f"The configuration file; else the variable DAYBREAK_CONFIG, else ./{DEFAULT_FILE}.",
    ),
]
Limit = Annotated[int, Parameter(help="The newest so many.", validator=Number(gte=1))]
AsJson = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON, for programs.")]


def settings_of(config: Path | None) -> "Settings":
    """The configuration a verb runs with. Raises SettingsFault."""
    from daybreak.settings import load_settings

    named = config or (Path(os.environ["DAYBREAK_CONFIG"]) if os.environ.get("DAYBREAK_CONFIG") else None)
    if named is None and (Path(DEFAULT_FILE).exists() or "DAYBREAK_SOURCE__LOCATION" not in os.environ):
        named = Path(DEFAULT_FILE)
    return load_settings(named, os.environ)


def instant(text: str, option: str) -> datetime:
    """`2026-11-20T04:00:00Z` as a UTC instant; without an offset it is UTC. Raises OperatorError(wrong_use)."""
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise OperatorError(f"{option}: write an instant such as 2026-11-20T04:00:00Z.", code="wrong_use") from None


def back_or_instant(text: str, option: str, now: datetime) -> datetime:
    """`2h` as the instant so long before now, else what `instant` reads. Raises OperatorError(wrong_use)."""
    from daybreak.settings.kinds import BadValue, duration

    try:
        return now - duration(text)
    except (BadValue, OverflowError):
        try:
            return instant(text, option)
        except OperatorError as fault:
            raise OperatorError(
                f'{fault.message[:-1]}, or a time back such as "2h" or "7d".', code=fault.code
            ) from None


def account_id(text: str, option: str) -> str:
    """A client_id as it is kept, whatever its case. Raises OperatorError(wrong_use) for what is none."""
    from daybreak.domain.identity import is_id

    found = text.strip().lower()
    if not is_id(found):
        raise OperatorError(
            f"{option}: {text!r} is no client_id, such as 7d909222-adf5-4547-93e0-e8f60c50f980; "
            "`daybreakd directory export` lists them.",
            code="wrong_use",
        )
    return found


def ahead(text: str, option: str, now: datetime) -> datetime:
    """`90d` as the instant so long after now. Raises OperatorError(wrong_use)."""
    from daybreak.settings.kinds import BadValue, duration

    try:
        return now + duration(text)
    except BadValue as fault:
        raise OperatorError(f"{option}: {fault}.", code="wrong_use") from None
    except OverflowError:
        raise OperatorError(f"{option}: that is later than a calendar holds.", code="wrong_use") from None
