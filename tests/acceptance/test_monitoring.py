"""The dashboard, the alert rules and their guides, compared with the metrics of a running service."""

import json
import re
from pathlib import Path

from tests.acceptance.installation import MAYA, NORTH
from tests.acceptance.service import Service
from tests.parts.waiting import wait_until

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy/alerts/daybreak.yaml"
DASHBOARD = ROOT / "deploy/grafana/daybreak.json"
GUIDES = ROOT / "docs/how-to"
# This service runs no builder.
NOT_HERE = {"daybreak_builder_seen_timestamp_seconds"}
SUFFIXES = re.compile("_(total|bucket|sum|count)$")
NAME = re.compile(r"\bdaybreak_[a-z_]+")


def expressions() -> str:
    """Return the expressions of the dashboard, and the text of the rules."""
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    return "\n".join([target["expr"] for panel in panels for target in panel.get("targets", [])] + [rules()])


def rules() -> str:
    return ALERTS.read_text("utf-8")


def test_expressions_and_the_guide_name_existing_metrics(service: Service) -> None:
    # Counters with labels exist after the first event.
    service.log_in(MAYA, password="wrong")
    service.link(service.token(MAYA, NORTH), NORTH)

    def names() -> set[str]:
        return {line.split(" ")[2] for line in service.metrics().splitlines() if line.startswith("# TYPE daybreak_")}

    wait_until(lambda: {"daybreak_http_refusals_total", "daybreak_events_total"} <= names(), what="the counters")
    existing = {SUFFIXES.sub("", name) for name in names() | NOT_HERE}
    used = {SUFFIXES.sub("", name) for name in NAME.findall(expressions())}
    assert used - existing == set()
    guide = (GUIDES / "monitor.md").read_text("utf-8")
    assert {SUFFIXES.sub("", name) for name in NAME.findall(guide)} == existing


def test_each_alert_has_a_section_in_the_guide() -> None:
    headings = re.findall("^## (.+)$", (GUIDES / "alarms.md").read_text("utf-8"), re.MULTILINE)
    alerts = re.findall("alert: (.+)$", rules(), re.MULTILINE)
    assert headings == alerts
    runbooks = re.findall("runbook: (.+)$", rules(), re.MULTILINE)
    assert runbooks == [f"docs/how-to/alarms.md#{alert.lower()}" for alert in alerts]
