"""`daybreakd state`: the state database as a whole."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from daybreak.cli.examples import examples_of
from daybreak.cli.output import note, say, say_table
from daybreak.domain.errors import OperatorError

app = App(name="state", help="The state database as a whole.", help_epilogue=examples_of("state"))


@app.command
def copy(
    source: Annotated[str, Parameter(help="From: sqlite:///FILE or postgresql://user@host/database.")],
    target: Annotated[str, Parameter(help="To: an empty database; it is migrated first.")],
) -> None:
    """Copy everything from one state database into another: directory, sessions, tokens, manifests, audit trail.

    Stop the service first, then set state.url to the new one. The keyring stays the same.
    """
    from daybreak.settings.kinds import STATE_URL, BadValue
    from daybreak.state.copy import copy_state

    addresses = []
    for name, url in (("SOURCE", source), ("TARGET", target)):
        try:
            addresses.append(STATE_URL.read(url, Path.cwd()))
        except BadValue as fault:
            raise OperatorError(f"{name}: {fault}.", code="wrong_use") from None
    rows = copy_state(addresses[0], addresses[1], lambda table, done, whole: note(f"{table}: {done:,} of {whole:,}"))
    say_table(("TABLE", "ROWS"), rows.items(), numbers=frozenset({"ROWS"}))
    say(f"{sum(rows.values()):,} rows are copied.")
