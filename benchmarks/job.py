"""What a job is: something to measure, and the section of the page that comes of it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


class Unavailable(Exception):
    """This machine lacks a part the job needs; the text names it. `all` goes on with the next job."""


@dataclass(frozen=True, slots=True)
class Section:
    """What a job found, as Markdown without a heading. `pictures` are SVG texts by file name without ending; the body
    shows them as `images/NAME.svg`. `packages` are those whose versions matter, `programs` what else does, ready to
    be printed ("PostgreSQL 16.4").
    """

    body: str
    pictures: Mapping[str, str] = field(default_factory=dict)
    packages: Sequence[str] = ()
    programs: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """One job. `about` is one line for `--help`. `run` gets the job's own options and with them `folder`, where data
    and output go, and `rounds`; it raises Unavailable.
    """

    name: str
    heading: str
    about: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], Section]
    rounds: int = 3

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The options of one run of this job. Exits with 2 when they are not understood."""
        parser = argparse.ArgumentParser(prog=f"python -m benchmarks {self.name}", description=self.about)
        parser.add_argument("--rounds", type=int, default=self.rounds, help="times each way is measured, in turns")
        _add_places(parser)
        self.add_options(parser)
        return parser.parse_args(arguments)

    def command(self, arguments: Sequence[str]) -> str:
        """The command by which anybody measures the same, without the places of one machine."""
        places = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        _add_places(places)
        return " ".join(["python -m benchmarks", self.name, *places.parse_known_args(arguments)[1]])


def _add_places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", type=Path, default=Path("build/bench"), help="where data and output go")
    parser.add_argument("--write", action="store_true", help="write the section in docs/benchmarks.md")
