"""Help pages of the command lines."""

import inspect


def lost_help(page: str, docstring: str | None) -> list[str]:
    """Return what a page lacks of the docstring, and lines that do not fit its width of 80 columns."""
    first, *others = inspect.cleandoc(docstring or "").split("\n\n")
    lines = {line.rstrip() for line in page.splitlines()}
    lost = [line for paragraph in others for line in paragraph.splitlines() if line not in lines]
    return lost if " ".join(first.split()) in " ".join(page.split()) else [first, *lost]
