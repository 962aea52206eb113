"""`python -m benchmarks JOB [options] [--write]`; the job `all` runs every job."""

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks import (
    cores,
    database_sync,
    days,
    deltas,
    first_files,
    members,
    memory,
    page,
    postgresql,
    proof,
    resources,
    shapes,
)
from benchmarks.job import Job, Section, Unavailable
from benchmarks.machine import describe_machine, load_average
from benchmarks.serving import attach, telemetry
from benchmarks.serving import job as serving

JOBS: tuple[Job, ...] = (
    members.MANY_MEMBERS,
    members.ALL_METHODS,
    postgresql.JOB,
    resources.JOB,
    shapes.JOB,
    days.QUIET_DAYS,
    days.MANY_LEADERS,
    cores.JOB,
    deltas.JOB,
    proof.JOB,
    memory.JOB,
    database_sync.JOB,
    first_files.JOB,
    serving.JOB,
    attach.JOB,
    telemetry.JOB,
)
"""Jobs in the order of the page. To add a job, write a module that creates it and add it here."""

_DOCS = Path("docs")


def main() -> None:
    """Run the jobs of the command line and print the results. `--write` also writes them to the documentation."""
    names = {job.name: job for job in JOBS}
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="; ".join(f"{job.name}: {job.description}" for job in JOBS) + ".",
        epilog="`JOB --help` shows the options of a job. `all` accepts the options that all jobs have.",
    )
    parser.add_argument("job", choices=["all", *names])
    parser.add_argument("options", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if arguments.job == "all":
        for job in JOBS:
            _run(job, arguments.options)
    elif not _run(names[arguments.job], arguments.options):
        sys.exit(1)


def _run(job: Job, arguments: Sequence[str]) -> bool:
    """Run a job and print its section. Return False if the job is unavailable on this machine."""
    options = job.parse(arguments)
    print(f"== {job.name}", flush=True)
    started_at, started, load_before = datetime.now(UTC), time.monotonic(), load_average()
    shutil.rmtree(options.out, ignore_errors=True)
    try:
        section = job.run(options)
    except Unavailable as reason:
        print(f"{job.name} is skipped: {reason}", flush=True)
        return False
    finally:
        # Jobs keep files until the end: after deleting many, ext4 creates files more slowly for minutes.
        shutil.rmtree(options.out, ignore_errors=True)
    minutes = (time.monotonic() - started) / 60
    facts = [
        f"`{job.command(arguments)}`, {started_at:%Y-%m-%d %H:%M} UTC, {minutes:.0f} minutes",
        describe_machine(),
        "; ".join([*(f"{name} {version(name)}" for name in section.packages), *section.programs]),
        f"Load average before: {load_before}; after: {load_average()}",
    ]
    body = f"{section.body.strip()}\n\n<sub>{'. '.join(fact for fact in facts if fact)}.</sub>"
    print(f"\n{body}\n", flush=True)
    if options.write:
        page.write_section(_DOCS, job, Section(body, section.charts), [each.name for each in JOBS])
    return True


if __name__ == "__main__":
    main()
