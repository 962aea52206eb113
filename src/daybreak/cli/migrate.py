"""`daybreakd migrate`, and the check of the state database when a service starts."""

from typing import TYPE_CHECKING

from daybreak.cli.options import Config, settings_of
from daybreak.cli.output import print_text

if TYPE_CHECKING:
    from daybreak.settings import Settings


def migrate(*, config: Config = None) -> None:
    """Migrate the state database to this version; does nothing when it is up to date.

    Without a configuration file, the variable DAYBREAK_STATE__URL names the database.
    """
    from daybreak.state.migrate import migrate as migrate_url

    settings = settings_of(config, source_needed=False)
    print_text(f"The state database is at {migrate_url(settings.state.url.get_secret_value())}.")


def prepare_state(settings: "Settings") -> None:
    """Migrate an existing SQLite file, and check that the state database is up to date.

    A shared database is migrated only by `daybreakd migrate`. A missing file is not created: if its disk is not
    mounted, the service would run without any seat or token.

    Raises:
        OperatorError: the state database is missing or out of date.
        Unavailable: it does not answer.
    """
    from daybreak.bootstrap import open_state
    from daybreak.state.database import sqlite_path
    from daybreak.state.migrate import migrate as migrate_url

    url = settings.state.url.get_secret_value()
    path = sqlite_path(url)
    if path is not None and path.exists():
        migrate_url(url)
    open_state(settings).close()
