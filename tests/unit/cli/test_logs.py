"""Lines of the log as JSON: one line of plain ASCII each, whatever an event holds."""

import io
import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from daybreak.cli.logs import configure_logging
from daybreak.ports.log import log
from daybreak.settings import load_settings


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    file = tmp_path / "service.log"
    configure_logging(load_settings(None, {"DAYBREAK_SOURCE__LOCATION": "x", "DAYBREAK_LOG_FORMAT": "json"}), file)
    return file


@pytest.mark.parametrize(
    ("value", "read_back"),
    [
        ("plain", "plain"),
        ("line\nfeed \x1b[31m", "line\nfeed \x1b[31m"),
        ("\x9b31m é 🌅 \u2028", "\x9b31m é 🌅 \u2028"),
        ("a name of odd octets \udc80", "a name of odd octets \udc80"),
        (Path("/somewhere"), repr(Path("/somewhere"))),
        ({"rows": [1, 2.5, None, True]}, {"rows": [1, 2.5, None, True]}),
    ],
)
def test_a_line_is_plain_ascii_and_says_what_the_event_said(log_file: Path, value: Any, read_back: Any) -> None:
    log.info("happened", value=value)
    (line,) = log_file.read_bytes().splitlines()
    assert line.isascii()
    assert b"\x1b" not in line
    said = json.loads(line)
    assert (said["event"], said["level"], said["value"]) == ("happened", "info", read_back)
    assert datetime.fromisoformat(said["timestamp"]).tzinfo is UTC


def test_what_is_below_the_level_that_is_set_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "service.log"
    configure_logging(load_settings(None, {"DAYBREAK_SOURCE__LOCATION": "x", "DAYBREAK_LOG_LEVEL": "warning"}), file)
    log.info("happened")
    log.warning("narrow")
    log.error("broken", why="full")
    assert [json.loads(line)["event"] for line in file.read_bytes().splitlines()] == ["narrow", "broken"]


def test_on_a_terminal_a_line_is_aligned_and_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.delenv("NO_COLOR", raising=False)
    configure_logging(load_settings(None, {"DAYBREAK_SOURCE__LOCATION": "x"}))
    log.info("run.started", day=None, reason="two words")
    monkeypatch.setenv("NO_COLOR", "1")
    configure_logging(load_settings(None, {"DAYBREAK_SOURCE__LOCATION": "x"}))
    log.info("run.started", day=None, reason="two words")
    coloured, plain = terminal.getvalue().splitlines()
    assert plain.endswith("Z [info   ] run.started            day=None reason='two words'")
    assert re.sub(r"\x1b\[[0-9]+m", "", coloured)[27:] == plain[27:]
    assert coloured.count("\x1b[0m") == 7
