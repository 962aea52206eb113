"""Benchmark jobs and the sections of the page that they produce."""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class Unavailable(Exception):
    """This machine lacks a requirement of the job. `all` continues with the next job."""


@dataclass(frozen=True, slots=True)
class Section:
    """Result of a job: Markdown without a heading.

    Attributes:
        charts: SVG texts by name. The body refers to them as `../images/NAME.svg`.
        packages: Python packages whose versions are stated.
        programs: Other versions to state, such as "PostgreSQL 16.4".
    """

    body: str
    charts: Mapping[str, str] = field(default_factory=dict)
    packages: Sequence[str] = ()
    programs: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """A benchmark.

    Attributes:
        description: One line for `--help`.
        options: Default and meaning of each option of the job.
        run: Receives the options, with `folder` for sources, `out` for a folder that is deleted before and after the
            job, and `rounds`. Raises Unavailable.
    """

    name: str
    heading: str
    description: str
    options: Mapping[str, tuple[Any, str]]
    run: Callable[[argparse.Namespace], Section]
    rounds: int = 3

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse the options of the job. Exits with status 2 if they are invalid."""
        parser = argparse.ArgumentParser(prog=f"python -m benchmarks {self.name}", description=self.description)
        parser.add_argument("--rounds", type=int, default=self.rounds, help="each round runs every method once")
        _add_output_options(parser)
        for name, (default, meaning) in self.options.items():
            parser.add_argument(f"--{name}", type=type(default), default=default, help=meaning)
        found = parser.parse_args(arguments)
        found.folder = found.folder.absolute()
        found.out = found.folder / "out"
        return found

    def command(self, arguments: Sequence[str]) -> str:
        """Return the command that repeats the measurement, without options for local paths."""
        output_options = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        _add_output_options(output_options)
        return " ".join(["python -m benchmarks", self.name, *output_options.parse_known_args(arguments)[1]])


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    """Return a Markdown table. The first `texts` columns are texts, the others figures."""
    rule = ["---"] * texts + ["--:"] * (len(headings) - texts)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headings, rule, *rows))


def _add_output_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", type=Path, default=Path("build/bench"), help="folder for data and output")
    parser.add_argument("--write", action="store_true", help="write the section to docs/explanation/benchmarks.md")
