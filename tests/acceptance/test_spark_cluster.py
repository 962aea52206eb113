"""A snapshot from a Spark cluster of real processes is the embedded engine's, whatever becomes of an executor."""

from __future__ import annotations

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
from tests.parts.processes import Running, running
from tests.parts.spark import PATIENCE_SECONDS, SETTINGS, cluster, text_platform
from tests.parts.waiting import free_port, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

AS_OF = "2026-11-20T04:00:00Z"
ON_A_CLUSTER = {
    **SETTINGS,
    "spark.executor.memory": "512m",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
    "spark.ui.enabled": "true",
}


def house(folder: Path, platform: Path, spark: Mapping[str, str]) -> Path:
    """The configuration of a service of its own on the platform, embedded when there is nothing about Spark."""
    config = make_folder(folder, {"source.location": str(platform), "source.engine": "spark" if spark else "duckdb"})
    if spark:
        lines = [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in spark.items()]
        config.write_text("\n".join([config.read_text(), "[source.spark]", *lines, ""]))
    return config


def published(config: Path) -> tuple[list[ManifestEntry], list[str]]:
    """The manifest of the snapshot that is served, and the files that lie in its folder; without the snapshot's id."""
    state = open_state(load_settings(config, {}))
    try:
        current = state.read(lambda stores: stores.snapshots.current())
        assert current is not None
        entries = state.read(lambda stores: list(stores.snapshots.entries(current.snapshot_id)))
    finally:
        state.close()
    folder = config.parent / "files/snapshots" / current.snapshot_id
    files = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    named = msgspec.json.encode(entries).decode().replace(f"snapshots/{current.snapshot_id}/", "")
    return msgspec.json.decode(named, type=list[ManifestEntry]), sorted(files)


def events(folder: Path) -> list[dict[str, Any]]:
    """What Spark has written down about the one application, once that has ended."""

    def ended() -> list[Path]:
        return [path for path in folder.iterdir() if path.suffix != ".inprogress"]

    (log,) = wait_until(ended, PATIENCE_SECONDS, what="the end of Spark's own log")
    return [json.loads(line) for line in log.read_text().splitlines()]


def tasks_at_work(port: int, program: Running) -> dict[str, int]:
    """How many tasks each executor of the one application is at, as Spark says over HTTP."""
    assert program.alive(), program.log()
    address = f"http://127.0.0.1:{port}/api/v1/applications"
    found = requests.get(address, timeout=60).json()
    each = requests.get(f"{address}/{found[0]['id']}/executors", timeout=60).json() if found else []
    return {one["id"]: one["activeTasks"] for one in each if one["id"] != "driver"}


def test_a_cluster_gives_the_same_snapshot_though_one_executor_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform, log, port = tmp_path / "platform", tmp_path / "log", free_port()
    text_platform(platform, leaders=6, members=900, messages=1500, as_of=datetime.fromisoformat(AS_OF))
    embedded = house(tmp_path / "embedded", platform, {})
    # The tests' own process would keep it.
    monkeypatch.setattr("daybreak.snapshots.builder.take_low_priority", lambda: None)
    assert run(["snapshot", "run", "--as-of", AS_OF, "--config", str(embedded)]) == 0
    log.mkdir()
    with cluster(tmp_path / "work", workers=2) as spark:
        own = {"spark.master": spark.url, "spark.ui.port": str(port), "spark.eventLog.dir": log.as_uri()}
        config = house(tmp_path / "spark", platform, {**ON_A_CLUSTER, **own})
        with running([*DAYBREAKD, "snapshot", "run", "--as-of", AS_OF, "--config", config]) as program:

            def busy() -> str | None:
                written = any((tmp_path / "spark/files/staging").rglob("*.csv.gz"))
                return next((name for name, active in tasks_at_work(port, program).items() if active and written), None)

            killed = wait_until(busy, PATIENCE_SECONDS, what="an executor at work", every=0.2)
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
