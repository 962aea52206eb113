"""The alert rules in `deploy/alerts`: each alarm fires while its condition holds, and stops when it ends."""

import subprocess
from pathlib import Path
from typing import Any

from tests.parts.alert_rules import RULES, check_rules, promtool

# The condition holds for an hour. Values are per minute: `1x60` is 1 repeated 60 times, `_` is none. The clock of
# Prometheus begins at 0.
SHORT = {
    "DaybreakDown": ['up{job="daybreak"} 0x60 1x60', 'daybreak_files_late{job="daybreak"} 0x120'],
    "DaybreakStateUnavailable": ['up{job="daybreak"} 1x120', 'daybreak_files_late{job="daybreak"} _x60 0x60'],
    "DaybreakErrors": [
        'daybreak_http_requests_total{status="200"} 0+100x120',
        'daybreak_http_requests_total{status="503"} 0+10x60 610x60',
    ],
    "DaybreakBusy": ['daybreak_http_refusals_total{code="busy"} 0+10x60 610x60'],
    "DaybreakLoginsRejected": ['daybreak_http_refusals_total{code="invalid_code"} 0+50x60 3050x60'],
    "DaybreakFilesLate": ["daybreak_files_late 1x60 0x60"],
    "DaybreakRunFailed": ['daybreak_run_state{state="failed"} 1x60 0x60'],
    "DaybreakSnapshotHeld": ["daybreak_snapshots_held 1x60 0x60"],
    "DaybreakBuilderMissing": ["daybreak_builder_seen_timestamp_seconds 0x60 3660+60x60"],
    "DaybreakFileDamaged": ['daybreak_events_total{event="file_damaged"} 1x60 _x60'],
    "DaybreakFilesLost": ["daybreak_files_lost 3x60 0x60"],
    "DaybreakReplicaBehind": ["daybreak_source_lag_seconds 3600x60 1x60"],
    "DaybreakSourceStale": ["daybreak_source_tables_stale 1x60 0x60"],
    "DaybreakAccountsUnexplained": ['daybreak_unexplained_accounts{resource="members",table="members"} 1x60 0x60'],
    "DaybreakTaskFails": ['daybreak_task_failures{task="mail"} 3x60 _x60'],
    "DaybreakOutboxStuck": ["daybreak_outbox_oldest_timestamp_seconds 1x60 0x60"],
    "DaybreakDeliveriesOverdue": ['daybreak_deliveries_overdue_seconds{channel="mail"} 1000x60 0x60'],
    "DaybreakMailFails": ['daybreak_deliveries_failed{channel="mail"} 6x60 1x60'],
    "DaybreakKeyringsDiffer": ["daybreak_keyrings 2x60 1x60"],
}
# The condition holds for 28 hours. Values are per ten minutes. The time of files is 0 before the first publication.
LONG = {
    "DaybreakFilesOld": ["daybreak_files_as_of_timestamp_seconds 1x168 0x20"],
    "DaybreakDirectoryFailing": ["daybreak_directory_sync_failing 1x168 0x20"],
    "DaybreakDirectoryOld": ["daybreak_directory_sync_timestamp_seconds 1x168 100800x20"],
    "DaybreakVersionsDiffer": ['daybreak_nodes{version="1"} 1x168 _x20', 'daybreak_nodes{version="2"} 1x188'],
}
# The counters of the last ten minutes still contain what ended, and a missing series counts for five minutes.
AFTERMATH_MINUTES = 30


def rule_tests(conditions: dict[str, list[str]], step_minutes: int, end_minutes: int) -> dict[str, Any]:
    """Return tests for promtool: only the named alert fires before the end, and none after it."""
    firing = 'count by (alertname) (ALERTS{alertstate="firing"})'
    groups = []
    for alert, series in conditions.items():
        during = {
            "eval_time": f"{end_minutes - step_minutes}m",
            "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1}],
        }
        after = {"eval_time": f"{end_minutes + AFTERMATH_MINUTES}m", "exp_samples": []}
        inputs = [dict(zip(("series", "values"), each.split(" ", 1), strict=True)) for each in series]
        tests = [{"expr": firing, **each} for each in (during, after)]
        groups.append(
            {"name": alert, "interval": f"{step_minutes}m", "input_series": inputs, "promql_expr_test": tests}
        )
    return {"evaluation_interval": f"{step_minutes}m", "tests": groups}


def test_each_alert_fires_and_stops(tmp_path: Path) -> None:
    check_rules(tmp_path, {"short.yaml": rule_tests(SHORT, 1, 60), "long.yaml": rule_tests(LONG, 10, 28 * 60)})


def test_rules_are_valid() -> None:
    found = subprocess.run([promtool(), "check", "rules", str(RULES)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    assert f"{len(SHORT | LONG)} rules found" in found.stdout
