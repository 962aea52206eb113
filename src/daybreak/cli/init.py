"""`daybreakd init`: a new configuration folder."""

import secrets
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from daybreak.cli.options import DEFAULT_FILE, refuse_password
from daybreak.cli.output import print_text
from daybreak.credentials import keyring, signing_folder
from daybreak.domain.clock import now_utc
from daybreak.domain.errors import OperatorError
from daybreak.domain.operator_file import write_private
from daybreak.settings import SettingsFault, load_settings
from daybreak.settings.reference import setting_rows, toml_text
from daybreak.settings.tree import SECTIONS
from daybreak.state import migrate

DEFAULT_SOURCE = "platform"


def init(
    folder: Annotated[Path, Parameter(help="Folder, created when it does not exist.")] = Path(),
    *,
    source: Annotated[str, Parameter(help="Value of source.location.")] = DEFAULT_SOURCE,
    engine: Annotated[str, Parameter(help="Value of source.engine: duckdb, postgresql or spark.")] = "duckdb",
    base_url: Annotated[str, Parameter(help="Public URL of the service.")] = "http://127.0.0.1:8400",
) -> None:
    """Create a commented daybreak.toml, a keyring, the keys that sign files, and an empty state database, all with mode
    0600. Existing files are kept.
    """
    refuse_password(source, "--source")
    path = make_folder(folder, {"base_url": base_url, "source.engine": engine, "source.location": source})
    print_text(f"{path} is ready.")
    first = f"set source.location in it (now {source}), then " if source == DEFAULT_SOURCE else ""
    print_text("Move signing/recovery to a safe place after the first publication. Only `daybreakd trust` needs it.")
    print_text(f"Next, in that folder: {first}run `daybreakd doctor` to see what is missing.")


def make_folder(folder: Path, values: Mapping[str, str]) -> Path:
    """Create configuration, keyring, signing keys and state database, and return the path of the configuration.

    `values` are set in it; all other settings are commented out. Raises OperatorError when a configuration exists.
    The configuration is created last, so that the command can be repeated after an error.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / DEFAULT_FILE
    exists = OperatorError(f"{path} already exists. Nothing was changed.")
    if path.exists():
        raise exists
    content = ("\n".join(configuration(values)) + "\n").encode()
    unfinished = folder / f"{DEFAULT_FILE}.new"
    unfinished.unlink(missing_ok=True)
    # Private, because a URL may contain a password.
    write_private(unfinished, content)
    try:
        try:
            settings = load_settings(unfinished, {})
        except SettingsFault as error:
            raise SettingsFault(str(path), error.faults) from None
        if not settings.keys.file.exists():
            keyring.create(settings.keys.file, now_utc(), secrets.token_bytes)
        signing_folder.create_keys(settings.signing.folder)
        migrate.migrate(settings.state.url.get_secret_value())
    finally:
        unfinished.unlink(missing_ok=True)
    try:
        write_private(path, content)
    except FileExistsError:
        raise exists from None
    return path


def configuration(values: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a configuration file. Settings not in `values` are commented out with their defaults."""
    yield "# Configuration of Daybreak. Commented lines show the defaults."
    yield "# Variables override settings, such as DAYBREAK_SOURCE__LOCATION for location in [source]."
    section = ""
    for row in setting_rows():
        if row.section != section:
            section = row.section
            yield ""
            yield f"[{section}]  # {SECTIONS[section].__doc__}"
        yield ""
        for line in textwrap.wrap(row.text, 110):
            yield f"# {line}"
        if row.key in values:
            yield f"{row.name} = {toml_text(values[row.key])}"
        else:
            yield f"# {row.name} = {row.default if row.default is not None else '...'}"
