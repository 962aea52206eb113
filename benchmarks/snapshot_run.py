"""Runs `daybreakd snapshot run` with default settings, as an operator would."""

import json
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from benchmarks.measure import ProcessUsage, run_program

_PROGRAM = str(Path(sys.executable).with_name("daybreakd"))


@dataclass(frozen=True, slots=True)
class ResourceRun:
    """Figures of one resource. `carried` is the number of Leaders whose files were reused."""

    rows: int
    leaders: int
    carried: int
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Run:
    """Usage and report of a run. `phases` has the second at which each phase began, `publication_seconds` is the time
    between the last one and the publication.
    """

    snapshot_id: str
    usage: ProcessUsage
    rows: int
    files: int
    bytes: int
    resources: Mapping[str, ResourceRun]
    phases: Mapping[str, float]
    publication_seconds: float


def make_service(folder: Path) -> Path:
    """Create a service in a folder, which is emptied first, and return its configuration file."""
    shutil.rmtree(folder, ignore_errors=True)
    run_program([_PROGRAM, "init", str(folder)])
    return folder / "daybreak.toml"


def snapshot_run(config: Path, source: Path, as_of: datetime, settings: Mapping[str, str] | None = None) -> Run:
    """Build and publish a snapshot of a source.

    `settings` are further settings, named as in environment variables, such as `SNAPSHOT__MEMORY_LIMIT`. Raises
    CalledProcessError if the snapshot is not published.
    """
    environment = {"DAYBREAK_SOURCE__LOCATION": str(source.absolute()), "DAYBREAK_LOG_LEVEL": "error"}
    environment |= {f"DAYBREAK_{name}": value for name, value in (settings or {}).items()}
    usage = run_program(
        [_PROGRAM, "snapshot", "run", "--config", str(config), "--as-of", as_of.isoformat()], environment=environment
    )
    found = re.match(r"\S+(?= published)", usage.output)
    if found is None:
        raise ValueError(f"the run was not published: {usage.output}")
    shown = run_program(
        [_PROGRAM, "snapshot", "show", found[0], "--config", str(config), "--json"], environment=environment
    )
    snapshot = json.loads(shown.output)
    report = snapshot["report"]
    began, published = (datetime.fromisoformat(snapshot[name]) for name in ("started_at", "published_at"))
    resources = {
        name: ResourceRun(one["rows"], one["leaders"], one["carried"], one["bytes"], one["seconds"])
        for name, one in report["resources"].items()
    }
    return Run(
        snapshot_id=found[0],
        usage=usage,
        rows=report["rows"],
        files=report["files"],
        bytes=report["bytes"],
        resources=resources,
        phases=report["phases"],
        publication_seconds=(published - began).total_seconds() - report["phases"]["complete"],
    )
