"""`python -m benchmarks JOB [options] [--write]`, or `all` for the standard set."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import members, memory, page, postgresql, resources, shapes
from benchmarks.job import Job, Section, Unavailable
from benchmarks.machine import load, machine, versions
from benchmarks.serving import job as serving

JOBS: tuple[Job, ...] = (
    members.MANY_MEMBERS,
    members.EVERY_WAY,
    postgresql.JOB,
    resources.JOB,
    shapes.JOB,
    memory.JOB,
    serving.JOB,
)
"""In the order of the page. To add a job, write a module that makes it and name it here."""

_DOCS = Path("docs")


def main() -> None:
    """Measures what was asked for and prints it; with `--write` puts it into the documentation too."""
    names = {job.name: job for job in JOBS}
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="; ".join(f"{job.name}: {job.about}" for job in JOBS) + ".",
        epilog="`JOB --help` shows a job's options; `all` takes those that every job has.",
    )
    parser.add_argument("job", choices=["all", *names])
    parser.add_argument("options", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    missing = [
        name for name in ([*names] if asked.job == "all" else [asked.job]) if not _do(names[name], asked.options)
    ]
    if missing and asked.job != "all":
        sys.exit(1)


def _do(job: Job, arguments: Sequence[str]) -> bool:
    """Whether this machine could do the job."""
    options = job.parse(arguments)
    print(f"== {job.name}", flush=True)
    started_at, started, load_before = datetime.now(UTC), time.monotonic(), load()
    try:
        section = job.run(options)
    except Unavailable as reason:
        print(f"{job.name} is left out: {reason}", flush=True)
        return False
    minutes = (time.monotonic() - started) / 60
    facts = [
        f"`{job.command(arguments)}`, {started_at:%Y-%m-%d %H:%M} UTC, {minutes:.0f} minutes",
        machine(),
        "; ".join([*versions(section.packages), *section.programs]),
        f"Load average before: {load_before}; after: {load()}",
    ]
    body = f"{section.body.strip()}\n\n<sub>{'. '.join(fact for fact in facts if fact)}.</sub>"
    print(f"\n{body}\n", flush=True)
    if options.write:
        page.write(_DOCS, job, Section(body, section.pictures), [one.name for one in JOBS])
    return True


if __name__ == "__main__":
    main()
