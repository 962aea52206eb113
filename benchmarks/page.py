"""Writes `docs/explanation/benchmarks.md`: one section per job, with date, machine and versions of its run."""

import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.job import Job, Section

_INTRODUCTION = """# Benchmarks

This page is for people who want to know how fast Daybreak is compared with other tools, and how it was measured. For
sizing a machine, see [Capacity](../how-to/capacity.md).

`make bench` (`python -m benchmarks all --write`) writes this page. Each section states when and where it was measured.
`make bench BENCH_ARGS="JOB --write"` repeats one job and replaces only its section.

- Each method runs in a separate process, start-up included, with its input in the page cache.
- Methods take turns: each round runs every method once. Tables show the median, with minimum and maximum in
  parentheses.
- Memory is the resident memory of the process and its children, sampled twenty times a second.
- Ratios are comparable between machines. Seconds are not.
"""


def write_section(docs: Path, job: Job, section: Section, order: Sequence[str]) -> None:
    """Replace the section of one job, and write its charts to `docs/images`.

    `order` has the names of all jobs in the order of the page. Sections of other jobs are removed.
    """
    (docs / "images").mkdir(parents=True, exist_ok=True)
    for name, svg in section.charts.items():
        (docs / "images" / f"{name}.svg").write_text(svg, "utf-8")
    page = docs / "explanation" / "benchmarks.md"
    page.parent.mkdir(exist_ok=True)
    sections = _sections(page.read_text("utf-8") if page.exists() else "")
    sections[job.name] = f"## {job.heading}\n\n{section.body.strip()}"
    parts = [f"<!-- begin {one} -->\n{sections[one]}\n<!-- end {one} -->\n" for one in order if one in sections]
    page.write_text("\n".join([_INTRODUCTION, *parts]), "utf-8")


def _sections(page: str) -> dict[str, str]:
    found = re.finditer(r"^<!-- begin (\S+) -->\n(.*?)\n<!-- end \1 -->$", page, re.DOTALL | re.MULTILINE)
    return {match[1]: match[2] for match in found}
