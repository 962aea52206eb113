"""Runs `daybreakd snapshot run` with default settings, as an operator would."""

import json
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from benchmarks.measure import ProcessUsage, run_program
from daybreak.domain.run_report import ResourceFigures

DAYBREAKD = str(Path(sys.executable).with_name("daybreakd"))


@dataclass(frozen=True, slots=True)
class Run:
    """Usage and report of a run. `publication_seconds` is the time between its last phase and the publication."""

    snapshot_id: str
    usage: ProcessUsage
    rows: int
    files: int
    bytes: int
    resources: Mapping[str, ResourceFigures]
    publication_seconds: float


def make_service(folder: Path) -> Path:
    """Create a service in a folder, which is emptied first, and return its configuration file."""
    shutil.rmtree(folder, ignore_errors=True)
    run_program([DAYBREAKD, "init", str(folder)])
    return folder / "daybreak.toml"


def run_command(config: Path, source: Path, as_of: datetime) -> tuple[list[str], dict[str, str]]:
    """Return arguments of `daybreakd` and variables with which it builds and publishes a snapshot of a source."""
    environment = {"DAYBREAK_SOURCE__LOCATION": str(source), "DAYBREAK_LOG_LEVEL": "error"}
    return ["snapshot", "run", "--config", str(config), "--as-of", as_of.isoformat()], environment


def snapshot_run(config: Path, source: Path, as_of: datetime, settings: Mapping[str, str] | None = None) -> Run:
    """Build and publish a snapshot of a source.

    `settings` are further settings, named as in environment variables, such as `SNAPSHOT__MEMORY_LIMIT`. Raises
    CalledProcessError if the snapshot is not published.
    """
    arguments, environment = run_command(config, source, as_of)
    environment |= {f"DAYBREAK_{name}": value for name, value in (settings or {}).items()}
    usage = run_program([DAYBREAKD, *arguments], environment=environment)
    found = re.match(r"\S+(?= published)", usage.output)
    if found is None:
        raise ValueError(f"the run was not published: {usage.output}")
    shown = run_program(
        [DAYBREAKD, "snapshot", "show", found[0], "--config", str(config), "--json"], environment=environment
    )
    snapshot = json.loads(shown.output)
    report = snapshot["report"]
    began, published = (datetime.fromisoformat(snapshot[name]) for name in ("started_at", "published_at"))
    return Run(
        snapshot_id=found[0],
        usage=usage,
        rows=report["rows"],
        files=report["files"],
        bytes=report["bytes"],
        resources=msgspec.convert(report["resources"], dict[str, ResourceFigures]),
        publication_seconds=(published - began).total_seconds() - report["phases"]["complete"],
    )


def walls(runs: Sequence[Run]) -> list[float]:
    """Return the elapsed seconds of runs."""
    return [run.usage.wall_seconds for run in runs]


def cpus(runs: Sequence[Run]) -> list[float]:
    """Return the CPU seconds of runs."""
    return [run.usage.cpu_seconds for run in runs]


def peak_megabytes(runs: Sequence[Run]) -> str:
    """Return the largest peak memory of runs."""
    return f"{max(run.usage.peak_bytes for run in runs) / 1e6:,.0f}"
