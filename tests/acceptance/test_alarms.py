"""Alarms, caused by their conditions on a running service: each fires on the scraped metrics, and stops."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.acceptance.conftest import new_installation
from tests.acceptance.installation import MAYA, NORTH
from tests.acceptance.service import Service, serving
from tests.parts.alert_rules import Scrape, Timeline, scrape


def now(service: Service) -> Scrape:
    return scrape(service.metrics_port, datetime.now(UTC))


@pytest.mark.release
def test_alarms_of_one_node_fire_and_stop(tmp_path: Path) -> None:
    installation, timeline = new_installation(tmp_path), Timeline()
    with serving(installation, workers=1) as service:
        link = service.link(service.token(MAYA, NORTH), NORTH, "members.csv.gz")
        timeline.expect("all is well", now(service))
        state = installation.folder / "state.db"
        state.rename(state.with_suffix(".aside"))
        timeline.expect("the database is lost", now(service), {"DaybreakStateUnavailable"})
        state.with_suffix(".aside").rename(state)
        timeline.expect("it is restored", now(service))
        stored = {path: path.read_bytes() for path in (installation.files_folder / "snapshots").rglob("*.gz")}
        for path, content in stored.items():
            path.write_bytes(bytes(byte ^ 1 for byte in content))
        assert service.get(link).json()["code"] == "file_damaged"
        timeline.expect("a file is damaged", now(service), {"DaybreakErrors", "DaybreakFileDamaged"})
        for path, content in stored.items():
            path.write_bytes(content)
        # This alarm stops when the service restarts.
        timeline.expect("it is restored", now(service), {"DaybreakFileDamaged"})
    timeline.expect("the service is stopped", now(service), {"DaybreakDown"})
    timeline.check(tmp_path)
