"""Modes of the folders and files that commands create: private, whatever the umask of their parent."""

import os
import re
import stat
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import pytest

from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import make_platform
from tests.acceptance.service import DAYBREAKD, PATIENCE_SECONDS
from tests.parts.ports import free_port
from tests.parts.processes import running
from tests.parts.waiting import wait_until

SMALL = PlatformSizes(leaders=3, members=100, messages=100)
# Larger than what the engine may keep in memory, so that it spills.
LARGE = PlatformSizes(leaders=20, members=400_000, messages=1_500_000)


@pytest.mark.parametrize(
    "sizes", [pytest.param(SMALL, id="small"), pytest.param(LARGE, id="spilling", marks=pytest.mark.release)]
)
def test_files_and_folders_are_private(tmp_path: Path, sizes: PlatformSizes) -> None:
    """Look at every file again and again during a run, then while the service runs, without a umask of the parent."""
    platform = tmp_path / "tables"
    make_platform(platform, sizes, as_of=datetime(2026, 11, 20, 4, tzinfo=UTC))

    def run(*arguments: str | Path) -> None:
        done = subprocess.run(
            [*DAYBREAKD, *arguments], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False, umask=0
        )
        assert done.returncode == 0, done.stderr

    folder, address = tmp_path / "instance", f"127.0.0.1:{free_port()}"
    run("init", folder, "--source", platform, "--base-url", f"http://{address}")
    file = folder / "daybreak.toml"
    text = file.read_text("utf-8")
    metrics = f'listen = "127.0.0.1:{free_port()}"'
    for section, line in (("snapshot", 'memory_limit = "450MB"'), ("metrics", metrics), ("snapshot", "threads = 1")):
        text = text.replace(f"[{section}]", f"[{section}]\n{line}\n#", 1)
    file.write_text(f'listen = "{address}"\n{text}', "utf-8")
    seen: dict[Path, int] = {}
    with running([*DAYBREAKD, "snapshot", "run", "--config", file], umask=0) as builder:
        while builder.alive():
            seen |= modes(folder)
            Event().wait(0.02)  # otherwise the search takes the time of the builder
        assert builder.process.returncode == 0, builder.log()
    spilled = [path for path in seen if path.parent.name == ".spill"]
    assert spilled or sizes is SMALL, "the engine has spilled"
    with running([*DAYBREAKD, "serve", "--config", file], umask=0) as service:
        service.wait_for_log("ready", PATIENCE_SECONDS)
        names = wait_until(lambda: processes(service.pid, at_least=5), PATIENCE_SECONDS, what="all processes")
        assert {umask_of(pid) for pid in names} == {0o077}
        seen |= modes(folder)
        metrics_folders = {path for pid in names for path in mapped_metrics(pid)}
        assert metrics_folders
        for path in metrics_folders:
            seen |= modes(path)
    assert {folder, file, folder / "keyring.json", folder / "state.db", folder / "files"} <= seen.keys()
    assert {path: oct(mode) for path, mode in seen.items() if mode & 0o077} == {}


def modes(folder: Path) -> dict[Path, int]:
    """Return the modes of a folder and of everything in it. Files may disappear meanwhile."""
    found: dict[Path, int] = {}
    for path in (folder, *_below(folder)):
        try:
            found[path] = stat.S_IMODE(path.lstat().st_mode)
        except FileNotFoundError:
            continue
    return found


def _below(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            yield Path(parent, name)


def processes(parent: int, *, at_least: int) -> list[int]:
    """Return a process and its descendants, or none if there are fewer than expected."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    found = [parent]
    for pid in found:
        found += [child for child, of in parents.items() if of == pid]
    return found if len(found) >= at_least else []


def umask_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("Umask")).split()[1], 8)


def mapped_metrics(pid: int) -> set[Path]:
    """Return the folder of the metrics that a process has mapped into its memory."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    return {Path(found).parent for found in re.findall(r"(/\S*/daybreak-metrics-\S+)$", maps, re.MULTILINE)}
