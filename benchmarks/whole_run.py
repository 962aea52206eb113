"""A whole `daybreakd snapshot run`, as an operator starts it, with the settings the service has by itself."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from benchmarks.measure import Used, run

_PROGRAM = str(Path(sys.executable).with_name("daybreakd"))


@dataclass(frozen=True, slots=True)
class ResourceRun:
    """One resource of a run. `carried` are Leaders whose files were not written again."""

    rows: int
    leaders: int
    carried: int
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Run:
    """What a run used, and what its report says. `phases` give the seconds at which each began."""

    used: Used
    rows: int
    files: int
    bytes: int
    resources: Mapping[str, ResourceRun]
    phases: Mapping[str, float]


def make_service(folder: Path) -> Path:
    """A fresh service in a folder, which is emptied; gives its configuration file."""
    shutil.rmtree(folder, ignore_errors=True)
    run([_PROGRAM, "init", str(folder)])
    return folder / "daybreak.toml"


def snapshot_run(config: Path, source: Path, as_of: datetime, settings: Mapping[str, str] | None = None) -> Run:
    """Makes and publishes a snapshot of a source. `settings` are further ones, as the environment names them
    ("SNAPSHOT__MEMORY_LIMIT"). Raises CalledProcessError when it is not published.
    """
    environment = {"DAYBREAK_SOURCE__LOCATION": str(source.absolute()), "DAYBREAK_LOG_LEVEL": "error"}
    environment |= {f"DAYBREAK_{name}": value for name, value in (settings or {}).items()}
    used = run(
        [_PROGRAM, "snapshot", "run", "--config", str(config), "--as-of", as_of.isoformat()], environment=environment
    )
    found = re.match(r"\S+(?= published)", used.output)
    if found is None:
        raise ValueError(f"the run was not published: {used.output}")
    shown = run([_PROGRAM, "snapshot", "show", found[0], "--config", str(config), "--json"], environment=environment)
    report = json.loads(shown.output)["report"]
    resources = {
        name: ResourceRun(one["rows"], one["leaders"], one["carried"], one["bytes"], one["seconds"])
        for name, one in report["resources"].items()
    }
    return Run(used, report["rows"], report["files"], report["bytes"], resources, report["phases"])
