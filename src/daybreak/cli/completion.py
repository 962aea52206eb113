"""`daybreakd completion`: shell completion of commands and options."""

from typing import Annotated, Literal

from cyclopts import Parameter

from daybreak.cli.output import print_text


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Shell to complete in.")]) -> None:
    """Print a shell script that completes commands and options."""
    from daybreak.cli.main import make_app

    print_text(make_app().generate_completion(shell=shell))
