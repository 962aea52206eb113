"""`docs/benchmarks.md`: one section for each job, each with the date, machine and versions of its own run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.job import Job, Section

_INTRODUCTION = """# Benchmarks

Made by `make bench` (`python -m benchmarks all --write`). Every section says when and where it was measured; one job
alone is measured again with `make bench BENCH_ARGS="JOB --write"`, which replaces its section and no other.

Each way runs in a process of its own, start-up included, on files that were read once before. Ways take turns: all of
them once, then all of them again; a table shows the median, and the least and the most in brackets. Memory is the
resident memory of the process and all its children together, looked at twenty times a second. Ratios carry over to
other machines, seconds do not.
"""


def write(docs: Path, job: Job, section: Section, order: Sequence[str]) -> None:
    """Puts one job's section in place of its last one and its pictures into `docs/images`. `order` names all jobs in
    the page's order; sections of jobs that are no more are dropped.
    """
    (docs / "images").mkdir(parents=True, exist_ok=True)
    for picture, svg in section.pictures.items():
        (docs / "images" / f"{picture}.svg").write_text(svg, "utf-8")
    page = docs / "benchmarks.md"
    sections = _sections(page.read_text("utf-8") if page.exists() else "")
    sections[job.name] = f"## {job.heading}\n\n{section.body.strip()}"
    parts = [f"<!-- begin {one} -->\n{sections[one]}\n<!-- end {one} -->\n" for one in order if one in sections]
    page.write_text("\n".join([_INTRODUCTION, *parts]), "utf-8")


def _sections(page: str) -> dict[str, str]:
    found = re.finditer(r"^<!-- begin (\S+) -->\n(.*?)\n<!-- end \1 -->$", page, re.DOTALL | re.MULTILINE)
    return {match[1]: match[2] for match in found}
