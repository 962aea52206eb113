"""Benchmark jobs and the sections of the page that they produce."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


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
        run: Receives the options of the job, with `folder` for data and output, and `rounds`. Raises Unavailable.
    """

    name: str
    heading: str
    description: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], Section]
    rounds: int = 3

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse the options of the job. Exits with status 2 if they are invalid."""
        parser = argparse.ArgumentParser(prog=f"python -m benchmarks {self.name}", description=self.description)
        parser.add_argument("--rounds", type=int, default=self.rounds, help="each round runs every method once")
        _add_output_options(parser)
        self.add_options(parser)
        return parser.parse_args(arguments)

    def command(self, arguments: Sequence[str]) -> str:
        """Return the command that repeats the measurement, without options for local paths."""
        output_options = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        _add_output_options(output_options)
        return " ".join(["python -m benchmarks", self.name, *output_options.parse_known_args(arguments)[1]])


def _add_output_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", type=Path, default=Path("build/bench"), help="folder for data and output")
    parser.add_argument("--write", action="store_true", help="write the section to docs/explanation/benchmarks.md")
