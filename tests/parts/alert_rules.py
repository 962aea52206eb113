"""The alert rules of `deploy/alerts`, evaluated by promtool over metrics that a running service showed."""

import json
import re
import shutil
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import requests
from prometheus_client.parser import text_string_to_metric_families

from tests.parts.presence import absent

RULES = Path(__file__).parents[2] / "deploy/alerts/daybreak.yaml"
# The clock of promtool begins at 0. Times before it, such as that of old files, would be negative.
_FIRST_MINUTE = 3 * 24 * 60
_TIMESTAMP = "_timestamp_seconds"


def promtool() -> str:
    return shutil.which("promtool") or absent("promtool", "run tools/setup-system test")


def check_rules(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
    """Run the rule tests of promtool. `files` are their contents by name, without the rules."""
    for name, content in files.items():
        # JSON is valid YAML.
        (folder / name).write_text(json.dumps({"rule_files": [str(RULES)], **content}))
    command = [promtool(), "test", "rules", *(str(folder / name) for name in files)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


@dataclass(frozen=True)
class Scrape:
    """The samples of a scrape at `at`, the time of the service, and which of them are counters."""

    at: datetime
    samples: Mapping[str, float]
    counters: Collection[str] = ()


def scrape(metrics_port: int, at: datetime) -> Scrape:
    """Read the metrics like Prometheus, which adds `up`: 0 if the service does not answer."""
    try:
        answer = requests.get(f"http://127.0.0.1:{metrics_port}/metrics", timeout=180)
    except requests.ConnectionError:
        return Scrape(at, {'up{job="daybreak"}': 0.0})
    used = set(re.findall(r"\bdaybreak_[a-z_]+", RULES.read_text("utf-8")))
    samples, counters = {'up{job="daybreak"}': 1.0}, set()
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            if sample.name in used:
                labels = ",".join(f'{key}="{value}"' for key, value in {**sample.labels, "job": "daybreak"}.items())
                series = f"{sample.name}{{{labels}}}"
                samples[series] = float(sample.value)
                if family.type == "counter":
                    counters.add(series)
    return Scrape(at, samples, counters)


@dataclass
class Timeline:
    """Scrapes in order. Each one stays as it is for some minutes: counters grow evenly since the scrape before it,
    and timestamps keep their age. `expect` names the alerts that fire at the end.
    """

    _phases: list[tuple[str, Scrape, int, Collection[str]]] = field(default_factory=list)

    def expect(self, what: str, found: Scrape, firing: Collection[str] = (), *, minutes: int = 75) -> None:
        """Add a scrape. 75 minutes are longer than all alarms wait but one."""
        self._phases.append((what, found, minutes, firing))

    @property
    def expected(self) -> set[str]:
        """All alerts that were expected to fire."""
        return {name for _, _, _, firing in self._phases for name in firing}

    def check(self, folder: Path) -> None:
        """Evaluate the rules over all phases: exactly the expected alerts fire at the end of each one."""
        names = sorted({name for _, found, _, _ in self._phases for name in found.samples})
        series = [{"series": name, "values": " ".join(self._values(name))} for name in names]
        tests, minute = [], _FIRST_MINUTE
        for _, _, minutes, firing in self._phases:
            minute += minutes
            expected = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(firing)]
            expression = 'count by (alertname) (ALERTS{alertstate="firing"}) > bool 0'
            tests.append({"expr": expression, "eval_time": f"{minute - 1}m", "exp_samples": expected})
        group = {"name": "timeline", "interval": "1m", "input_series": series, "promql_expr_test": tests}
        try:
            check_rules(folder, {"timeline.yaml": {"evaluation_interval": "1m", "tests": [group]}})
        except AssertionError as error:
            ends = zip(tests, self._phases, strict=True)
            error.add_note("\n".join(f"{test['eval_time']}: {phase[0]}" for test, phase in ends))
            raise

    def _values(self, name: str) -> Sequence[str]:
        """Return the values of a series, per minute, in the notation of promtool."""
        values, minute, before = [f"_x{_FIRST_MINUTE}"], _FIRST_MINUTE, 0.0
        for _, found, minutes, _ in self._phases:
            value = found.samples.get(name)
            if value is None:
                values.append(f"_x{minutes}")
                before = 0.0
            elif name in found.counters:
                values.append(_growing(before, (value - before) / (minutes - 1), minutes))
                before = value
            elif _TIMESTAMP in name and value:
                values.append(_growing(minute * 60 - (found.at.timestamp() - value), 60, minutes))
            else:
                values.append(_growing(value, 0, minutes))
            minute += minutes
        return values


def _growing(start: float, step: float, minutes: int) -> str:
    return f"{start:.6f}+{step:.9f}x{minutes - 1}"
