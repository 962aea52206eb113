"""`daybreakd completion`: verbs and options by the tabulator key."""

from typing import Annotated, Literal

from cyclopts import Parameter

from daybreak.cli.output import say


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="The shell it is for.")]) -> None:
    """Print a script that lets a shell complete verbs and options."""
    from daybreak.cli.main import make_app

    say(make_app().generate_completion(shell=shell))
