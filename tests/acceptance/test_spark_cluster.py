"""A Spark cluster of real processes builds the same snapshot as the embedded engine."""

import json
import os
import signal
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests

from daybreak.bootstrap import open_state
from daybreak.cli.init import make_folder
from daybreak.cli.main import run
from daybreak.domain.snapshot import ManifestEntry
from daybreak.settings import load_settings
from tests.acceptance.service import DAYBREAKD
from tests.parts.ports import free_port
from tests.parts.processes import Running, running
from tests.parts.spark import INTERPRETED, PATIENCE_SECONDS, cluster, text_platform
from tests.parts.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.release, pytest.mark.timeout(900)]

AS_OF = "2026-11-20T04:00:00Z"
ON_A_CLUSTER = {
    **INTERPRETED,
    "spark.executor.memory": "512m",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
    "spark.ui.enabled": "true",
}


def configuration(folder: Path, platform: Path, spark: Mapping[str, str]) -> Path:
    """Create a configuration for the platform, on Spark if `spark` has settings. Return its path."""
    # Tasks of Spark write no packs.
    engine = {"source.engine": "spark" if spark else "duckdb", "snapshot.pack_below": "0B"}
    config = make_folder(folder, {"source.location": str(platform), **engine})
    if spark:
        lines = [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in spark.items()]
        config.write_text("\n".join([config.read_text(), "[source.spark]", *lines, ""]))
    return config


def published(config: Path) -> tuple[list[ManifestEntry], list[str]]:
    """Return the manifest and the files of the published snapshot, without its snapshot_id.

    Signed statements contain times and random keys, and are left out.
    """
    state = open_state(load_settings(config, {}))
    try:
        current = state.read(lambda stores: stores.snapshots.current())
        assert current is not None
        entries = state.read(lambda stores: list(stores.snapshots.entries(current.snapshot_id)))
    finally:
        state.close()
    folder = config.parent / "files/snapshots" / current.snapshot_id
    paths = [path for path in folder.rglob("*") if path.is_file() and "statements" not in path.name]
    files = [str(path.relative_to(folder)) for path in paths]
    encoded = msgspec.json.encode(entries).decode().replace(f"snapshots/{current.snapshot_id}/", "")
    return msgspec.json.decode(encoded, type=list[ManifestEntry]), sorted(files)


def events(folder: Path) -> list[dict[str, Any]]:
    """Return the events of Spark's log after the application has ended."""

    def ended() -> list[Path]:
        return [path for path in folder.iterdir() if path.suffix != ".inprogress"]

    (log,) = wait_until(ended, PATIENCE_SECONDS, what="the end of Spark's event log")
    return [json.loads(line) for line in log.read_text().splitlines()]


def active_tasks(port: int, program: Running) -> dict[str, int]:
    """Return the number of active tasks of each executor, from Spark's REST API."""
    assert program.alive(), program.log()
    address = f"http://127.0.0.1:{port}/api/v1/applications"
    applications = requests.get(address, timeout=60).json()
    executors = requests.get(f"{address}/{applications[0]['id']}/executors", timeout=60).json() if applications else []
    return {executor["id"]: executor["activeTasks"] for executor in executors if executor["id"] != "driver"}


def test_snapshot_is_the_same_after_an_executor_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    platform, log, port = tmp_path / "platform", tmp_path / "log", free_port()
    text_platform(platform, leaders=6, members=900, messages=1500, as_of=datetime.fromisoformat(AS_OF))
    embedded = configuration(tmp_path / "embedded", platform, {})
    # This would lower the priority of the test process.
    monkeypatch.setattr("daybreak.snapshots.builder.take_low_priority", lambda: None)
    assert run(["snapshot", "run", "--as-of", AS_OF, "--config", str(embedded)]) == 0
    log.mkdir()
    with cluster(tmp_path / "work", workers=2) as spark:
        addresses = {"spark.master": spark.url, "spark.ui.port": str(port), "spark.eventLog.dir": log.as_uri()}
        config = configuration(tmp_path / "spark", platform, {**ON_A_CLUSTER, **addresses})
        with running([*DAYBREAKD, "snapshot", "run", "--as-of", AS_OF, "--config", config]) as program:

            def busy() -> str | None:
                written = any((tmp_path / "spark/files/staging").rglob("*.csv.gz"))
                return next((name for name, active in active_tasks(port, program).items() if active and written), None)

            killed = wait_until(busy, PATIENCE_SECONDS, what="an active executor", every=0.2)
            assert killed is not None
            executors = spark.executors()
            assert len(executors) == 2
            assert not {program.pid, os.getpid()} & {*executors.values()}
            os.kill(executors[killed], signal.SIGKILL)
            assert program.process.wait(PATIENCE_SECONDS) == 0, program.log()
        seen = events(log)
    assert published(config) == published(embedded)
    ended = [event for event in seen if event["Event"] == "SparkListenerTaskEnd"]
    assert "driver" not in {event["Task Info"]["Executor ID"] for event in ended}
    removed = {event["Executor ID"] for event in seen if event["Event"] == "SparkListenerExecutorRemoved"}
    assert killed in removed
