"""`daybreakd state`: the state database as a whole."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from daybreak.cli.examples import examples_of
from daybreak.cli.options import refuse_password
from daybreak.cli.output import print_note, print_table, print_text
from daybreak.domain.counts import format_count
from daybreak.domain.errors import OperatorError

app = App(name="state", help="Manage the state database.", help_epilogue=examples_of("state"))


@app.command
def copy(
    source: Annotated[str, Parameter(help="Source: sqlite:///FILE or postgresql://user@host/database.")],
    target: Annotated[str, Parameter(help="Target: an empty database. It is migrated first.")],
) -> None:
    """Copy a state database: directory, sessions, tokens, manifests and audit trail.

    Stop the service first. Then set state.url to the target; the keyring stays the same.
    """
    from daybreak.settings.text_forms import InvalidValue, parse_state_url
    from daybreak.state.copy import copy_state

    urls = []
    for name, url in (("SOURCE", source), ("TARGET", target)):
        try:
            urls.append(parse_state_url(url, Path.cwd()))
        except InvalidValue as fault:
            raise OperatorError(f"{name}: {fault}", code="wrong_use") from None
        refuse_password(url, name)
    rows = copy_state(urls[0], urls[1], lambda table, done, total: print_note(f"{table}: {done:,} of {total:,}"))
    print_table(("TABLE", "ROWS"), rows.items(), numbers=frozenset({"ROWS"}))
    print_text(f"Copied {format_count(sum(rows.values()), 'row')}.")
