"""The job `first-files`: seconds from `daybreakd doctor` on a new instance to downloaded files, as in the tutorial."""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from benchmarks.job import Job, Section, Unavailable, table
from tests.parts.documentation import OWN_PLATFORM, Block, runs, script_of
from tests.parts.ports import free_port
from tests.parts.postgresql import SERVER_SETTINGS, PostgreSQLServer, running_postgresql

# The line of the tutorial with which a step begins, and its name in the table.
_STEPS = {
    "daybreakd doctor": "`daybreakd doctor`",
    "snapshot=$(daybreakd snapshot run": "`daybreakd snapshot run` and `show`",
    "daybreakd serve": "`daybreakd serve`, until `/readyz` answers",
    "account=$(psql": "`daybreakd token create` and `daybreak fetch`",
}
_LAST_COMMAND = "daybreak fetch"
_CONTACTS = "generate_series(1, 500)"


def _run(options: argparse.Namespace) -> Section:
    sizes = [int(each) for each in options.contacts.split(",")]
    found: dict[int, list[list[float]]] = {size: [] for size in sizes}
    try:
        with running_postgresql(SERVER_SETTINGS, extension="uuid-ossp") as server:
            for _ in range(options.rounds):
                for size, rounds in found.items():
                    rounds.append(_round(options.out, server, size))
    except LookupError as fault:
        raise Unavailable(str(fault)) from None
    rows = []
    for number, name in enumerate(_STEPS.values()):
        medians = [statistics.median(each[number] for each in found[size]) for size in sizes]
        rows.append([name, *(f"{each:.1f}" for each in medians)])
    totals = [statistics.median(map(sum, found[size])) for size in sizes]
    rows.append(["**from `doctor` to downloaded files**", *(f"**{each:.1f}**" for each in totals)])
    body = table(["Seconds", *(f"{size:,} contacts" for size in sizes)], rows)
    return Section(f"{body}\n\n{_METHOD.format(rounds=options.rounds)}", packages=("duckdb", "adbc-driver-postgresql"))


_METHOD = """The commands of [Your own platform](../tutorial/own-platform.md) run in one shell, with an empty database
and an empty folder each time. Database, service and client share the machine. Medians of {rounds} rounds."""


def _round(folder: Path, server: PostgreSQLServer, contacts: int) -> list[float]:
    """Run the tutorial up to the download, and return the seconds of each step."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    address, database = f"127.0.0.1:{free_port()}", server.fresh_database()
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), str(server.binaries), os.environ["PATH"]]),
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "DATABASE_URL": server.url(database),
        "DAYBREAK_LISTEN": address,
        "DAYBREAK_BASE_URL": f"http://{address}",
    }
    script = timed_script(runs(OWN_PLATFORM), contacts).replace("127.0.0.1:8400", address)
    try:
        done = subprocess.run(
            ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
    finally:
        # The next round creates the role of the tutorial again.
        server.drop(database)
        server.execute("DROP ROLE IF EXISTS exporter")
    if done.returncode:
        raise RuntimeError(f"the tutorial failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    instants = [float(each) for each in re.findall(r"^instant (\S+)$", done.stderr, re.MULTILINE)]
    return [after - before for before, after in pairwise(instants)]


def timed_script(tutorial: Sequence[Block], contacts: int) -> str:
    """Return the script of the tutorial, up to the download, which prints the instant at which each step begins.

    Raises ValueError if the tutorial has no such steps.
    """
    last = next((number for number, block in enumerate(tutorial) if _LAST_COMMAND in block.text), None)
    text = "" if last is None else script_of(replace(each, text=_timed(each.text)) for each in tutorial[: last + 1])
    if text.count(_INSTANT) != len(_STEPS) or _CONTACTS not in text:
        raise ValueError(f"{OWN_PLATFORM.name} has other steps than this benchmark expects.")
    return f"trap 'kill $(jobs -p)' EXIT\n{text.replace(_CONTACTS, f'generate_series(1, {contacts})')}{_INSTANT}"


_INSTANT = 'echo "instant $EPOCHREALTIME" >&2\n'


def _timed(block: str) -> str:
    lines = block.splitlines(keepends=True)
    return "".join(_INSTANT + line if line.startswith(tuple(_STEPS)) else line for line in lines)


JOB = Job(
    "first-files",
    "First files",
    "seconds from doctor on a new instance to downloaded files",
    {"contacts": ("500,100000", "sizes of the platform, separated by commas")},
    _run,
)
