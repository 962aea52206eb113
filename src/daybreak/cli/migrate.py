"""`daybreakd migrate` and `daybreakd state`, and the check of the state database when a service starts."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from daybreak.bootstrap import open_state
from daybreak.cli.options import Config, refuse_password, settings_of
from daybreak.cli.output import print_note, print_table, print_text
from daybreak.domain.display import format_count
from daybreak.domain.errors import WrongUse
from daybreak.settings import Settings
from daybreak.settings.text_forms import InvalidValue, parse_state_url
from daybreak.state.copy import copy_state
from daybreak.state.database import sqlite_path
from daybreak.state.migrate import migrate as migrate_url

app = App(name="state", help="Manage the state database.")


def migrate(*, config: Config = None) -> None:
    """Migrate the state database to this version; does nothing when it is up to date.

    Without a configuration file, DAYBREAK_STATE__URL names the database.
    """
    settings = settings_of(config, source_needed=False)
    print_text(f"The state database is at {migrate_url(settings.state.url.get_secret_value())}.")


def prepare_state(settings: Settings) -> None:
    """Migrate an existing SQLite file, and check that the state database is up to date.

    A shared database is migrated only by `daybreakd migrate`. A missing file is not created: if its disk is not
    mounted, the service would run without any seat or token.

    Raises:
        OperatorError: the state database is missing or out of date.
        Unavailable: it does not answer.
    """
    url = settings.state.url.get_secret_value()
    path = sqlite_path(url)
    if path is not None and path.exists():
        migrate_url(url)
    open_state(settings).close()


@app.command
def copy(
    source: Annotated[str, Parameter(help="Source: sqlite:///FILE or postgresql://user@host/database.")],
    target: Annotated[str, Parameter(help="Target: an empty database. It is migrated first.")],
) -> None:
    """Copy a state database: directory, sessions, tokens, manifests and audit trail.

    Stop the service first. Then set state.url to the target; the keyring stays the
    same.
    """
    urls = []
    for name, url in (("SOURCE", source), ("TARGET", target)):
        try:
            urls.append(parse_state_url(url, Path.cwd()))
        except InvalidValue as fault:
            raise WrongUse(f"{name}: {fault}") from None
        refuse_password(url, name)
    rows = copy_state(urls[0], urls[1], lambda table, done, total: print_note(f"{table}: {done:,} of {total:,}"))
    print_table(("TABLE", "ROWS"), rows.items(), numbers=frozenset({"ROWS"}))
    print_text(f"Copied {format_count(sum(rows.values()), 'row')}.")
