"""Fenced blocks of documentation pages, the shell script that runs them, and the tests that pages name."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
# A tutorial that runs in an empty folder, with an empty database and without a demo.
OWN_PLATFORM = ROOT / "docs/tutorial/own-platform.md"
RUN = {"sh", "python", "r"}
_INTERPRETERS = {"python": "python -", "r": "Rscript -"}


@dataclass(frozen=True)
class Block:
    """Fenced block of a page. `reason` is why it is not run."""

    place: str
    language: str
    text: str
    reason: str


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    lines = page.read_text("utf-8").splitlines()
    number = 0
    while number < len(lines):
        fence = re.match(r"( *)```(.*)$", lines[number])
        if fence:
            end = next(at for at in range(number + 1, len(lines)) if lines[at].strip() == "```")
            above = lines[number - 1].strip() if number else ""
            marker = re.fullmatch(r"<!-- not run: (.+) -->", above)
            text = "\n".join(line.removeprefix(fence[1]) for line in lines[number + 1 : end])
            place = f"{page.name}:{number + 1}"
            yield Block(place, fence[2].strip(), text, marker[1] if marker else "")
            number = end
        number += 1


def runs(page: Path) -> list[Block]:
    """Return the blocks of a page that run."""
    return [block for block in blocks(page) if block.language in RUN and not block.reason]


def script_of(blocks_to_run: Iterable[Block]) -> str:
    """Return a script that runs the blocks in one shell, and prints the place of each."""
    # Without pipefail, as in a reader's shell: `gunzip ... | head` ends early on purpose.
    parts = ["set -eu"]
    for block in blocks_to_run:
        parts.append(f"echo 'running {block.place}' >&2")
        program = _INTERPRETERS.get(block.language)
        parts.append(f"{program} <<'END_OF_BLOCK'\n{block.text}\nEND_OF_BLOCK" if program else block.text)
    return "\n".join(parts) + "\n"


@cache
def definitions(file: Path) -> frozenset[str]:
    """Return the names of the functions and classes in a file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return frozenset(node.name for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, kinds))
