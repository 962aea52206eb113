"""CPU time of row accounting in a whole run, and of signing the statements of many accounts."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial, partialmethod
from pathlib import Path
from statistics import median
from unittest.mock import patch

from benchmarks.job import Job, Section
from benchmarks.measure import run_program, summarize
from benchmarks.snapshot_run import make_service, run_command
from benchmarks.source import AS_OF, make_source


def _run(options: argparse.Namespace) -> Section:
    source = make_source(options.folder, options.rows, options.leaders, options.messages, "shuffled")
    cpu: dict[str, list[float]] = {"without": [], "with": []}
    for number in range(options.rounds):
        for kind, seconds in cpu.items():
            seconds.append(_measured(options.out / f"{kind}-{number}", source, kind)["run"])
            print(f"{kind} accounting: {seconds[-1]:.1f} CPU seconds", flush=True)
    many = make_source(options.folder, options.accounts, options.accounts, options.accounts, "clustered")
    sign = partial(_measured, source=many, kind="with", signed=True)
    signing = [sign(options.out / f"many-{number}")["signing"] for number in range(options.rounds)]
    body = f"""Whole runs with and without row accounting, in turns, and not signed in either case: {options.rows:,}
Members of {options.leaders:,} Leaders and {options.messages:,} outbound messages, all nine resources.

| | CPU, s |
|---|--:|
| run without row accounting | {summarize(cpu["without"])} |
| run with row accounting | {summarize(cpu["with"])} |
| share of row accounting in the run | {1 - median(cpu["without"]) / median(cpu["with"]):.1%} |
| signing of {options.accounts:,} statements, database and files included | {summarize(signing)} |
"""
    return Section(body, packages=("duckdb", "cryptography"))


def _measured(folder: Path, source: Path, kind: str, *, signed: bool = False) -> dict[str, float]:
    """Run the program below. Return CPU seconds of the whole run and of its signing."""
    config = make_service(folder)
    if not signed:
        shutil.rmtree(folder / "signing")
    arguments, environment = run_command(config, source, AS_OF)
    usage = run_program([sys.executable, "-m", "benchmarks.proof", kind, *arguments], environment=environment)
    return {"run": usage.cpu_seconds, **json.loads(usage.output.strip().splitlines()[-1])}


def _program(kind: str) -> None:
    """Run `daybreakd` with the remaining arguments. Print the CPU seconds of its signing."""
    from daybreak.cli.main import run
    from daybreak.export import work_tables
    from daybreak.proof import accounting
    from daybreak.snapshots.snapshot_run import SnapshotRun

    seconds = 0.0

    def timed(sign: Callable[..., None], run: SnapshotRun, figures: accounting.SourceFigures) -> None:
        nonlocal seconds
        before = time.process_time()
        sign(run, figures)
        seconds = time.process_time() - before

    with ExitStack() as patches:
        signs = partialmethod(partial(timed, vars(SnapshotRun)["_sign"]))
        patches.enter_context(patch.object(SnapshotRun, "_sign", signs))
        if kind == "without":
            without = {"_figures": tuple, "_source_times": list, "figure_names": tuple}
            for module in (accounting, work_tables):
                for name in without.keys() & vars(module).keys():
                    patches.enter_context(patch.object(module, name, lambda _, empty=without[name]: empty()))
            figures = accounting.SourceFigures((), ())
            patches.enter_context(patch.object(SnapshotRun, "_account", lambda *_: figures))
        try:
            sys.exit(run(sys.argv[1:]))
        finally:
            print(json.dumps({"signing": seconds}), flush=True)


JOB = Job(
    "proof",
    "Row accounting and signatures",
    "CPU time of row accounting in a whole run, and of signing the statements of many accounts",
    {
        "rows": (1_000_000, "Members"),
        "leaders": (5_000, "Leaders"),
        "messages": (6_000_000, "outbound messages"),
        "accounts": (100_000, "accounts whose statements are signed"),
    },
    _run,
)

if __name__ == "__main__":
    _program(sys.argv.pop(1))
