"""`daybreakd init`: a folder from which the service runs."""

import os
import secrets
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from daybreak.cli.options import DEFAULT_FILE
from daybreak.cli.output import say
from daybreak.domain.errors import DaybreakError, OperatorError

DEFAULT_SOURCE = "platform"


def init(
    folder: Annotated[Path, Parameter(help="Where to; made when it is not there.")] = Path(),
    *,
    source: Annotated[str, Parameter(help="source.location.")] = DEFAULT_SOURCE,
    engine: Annotated[str, Parameter(help="source.engine: duckdb, postgresql or spark.")] = "duckdb",
    base_url: Annotated[str, Parameter(help="Where users reach the service.")] = "http://127.0.0.1:8400",
) -> None:
    """Write a commented daybreak.toml, a keyring and an empty state database, for their owner alone (mode 0600).
    Nothing is overwritten.
    """
    made = make_folder(folder, {"base_url": base_url, "source.engine": engine, "source.location": source})
    say(f"{made} is ready.")
    first = f"set source.location in it ({source} is there now), then " if source == DEFAULT_SOURCE else ""
    say(f"Next, in that folder: {first}`daybreakd doctor` says what is missing.")


def make_folder(folder: Path, values: Mapping[str, str]) -> Path:
    """Writes the three; gives the path of the configuration. `values` stand in it without a comment sign.

    Raises OperatorError when a configuration is there already.
    """
    from daybreak.bootstrap import now_utc
    from daybreak.credentials import keyring
    from daybreak.settings import load_settings
    from daybreak.state.migrate import migrate

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / DEFAULT_FILE
    text = "\n".join(configuration(values)) + "\n"
    try:
        # An address may hold a password.
        with open(path, "x", encoding="utf-8", opener=partial(os.open, mode=0o600)) as file:
            file.write(text)
    except FileExistsError:
        raise OperatorError(f"{path} is there already: nothing was changed.") from None
    try:
        settings = load_settings(path, {})
    except DaybreakError:
        # What was asked for cannot be used: the next try must find nothing.
        path.unlink()
        raise
    if not settings.keys.file.exists():
        keyring.create(settings.keys.file, now_utc(), secrets.token_bytes)
    migrate(settings.state.url)
    return path


def configuration(values: Mapping[str, str]) -> Iterator[str]:
    """Lines of a configuration file: every setting with its text; those not in `values` commented out with defaults."""
    import textwrap

    from daybreak.settings import setting_rows
    from daybreak.settings.sections import SECTIONS

    yield "# Configuration of Daybreak. A line that is commented out shows the default."
    yield "# Each setting can also come from the environment: DAYBREAK_SOURCE__LOCATION for location in [source]."
    section = ""
    for row in setting_rows():
        if row.section != section:
            section = row.section
            about = (SECTIONS[section].__doc__ or "").partition("] ")[2]
            yield ""
            yield f"[{section}]  # {about}"
        yield ""
        for line in textwrap.wrap(row.text, 110):
            yield f"# {line}"
        if row.key in values:
            yield f"{row.name} = {_toml(values[row.key])}"
        else:
            yield f"# {row.name} = {row.default if row.default is not None else '...'}"


def _toml(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
