"""JSON log lines: each event is one line of ASCII."""

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog

from daybreak.cli.logs import configure_logging
from daybreak.settings import load_settings

TOKEN = "service_api_0123456789abcdefghijABCDEFGHIJ01234567"


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "service.log"
    before = structlog.get_config()
    configure_logging(load_settings(None, {"DAYBREAK_SOURCE__LOCATION": "x", "DAYBREAK_LOG_FORMAT": "json"}), file)
    yield file
    structlog.configure(**before)


@pytest.mark.parametrize(
    ("value", "read_back"),
    [
        ("plain", "plain"),
        ("line\nfeed \x1b[31m", "line\nfeed \x1b[31m"),
        ("\x9b31m é 🌅 \u2028", "\x9b31m é 🌅 \u2028"),
        ("a name with invalid bytes \udc80", "a name with invalid bytes \udc80"),
        (Path("/somewhere"), repr(Path("/somewhere"))),
        ({"rows": [1, 2.5, None, True]}, {"rows": [1, 2.5, None, True]}),
    ],
)
def test_any_value_is_one_ascii_line(log_file: Path, value: Any, read_back: Any) -> None:
    structlog.get_logger("test").info("happened", value=value)
    (line,) = log_file.read_bytes().splitlines()
    assert line.isascii()
    assert b"\x1b" not in line
    logged = json.loads(line)
    assert (logged["event"], logged["level"], logged["value"]) == ("happened", "info", read_back)
    assert datetime.fromisoformat(logged["timestamp"]).tzinfo is UTC


def test_secrets_are_not_logged(log_file: Path) -> None:
    log = structlog.get_logger("test").bind(bound=f"x {TOKEN}")
    log.error("failed", trace=f"ValueError: {TOKEN}", nested={"list": [TOKEN]}, other=Path(TOKEN))
    (line,) = log_file.read_bytes().splitlines()
    assert TOKEN.encode() not in line
    assert json.loads(line)["bound"] == "x [redacted]"


def test_secrets_are_not_logged_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    before = structlog.get_config()
    configure_logging(load_settings(None, {"DAYBREAK_SOURCE__LOCATION": "x", "DAYBREAK_LOG_FORMAT": "console"}))
    try:
        structlog.get_logger("test").error("failed", reason=f"a {TOKEN.replace('_', '%5F')} b")
    finally:
        structlog.configure(**before)
    line = capsys.readouterr().err
    assert "a [redacted] b" in line


@pytest.mark.parametrize("form", ["json", "console"])
def test_lines_of_libraries_are_redacted(form: str) -> None:
    settings = {"DAYBREAK_SOURCE__LOCATION": "x", "DAYBREAK_LOG_FORMAT": form}
    script = (
        "import logging; from daybreak.cli.logs import configure_logging; from daybreak.settings import load_settings;"
        f"configure_logging(load_settings(None, {settings!r}));"
        f"logging.getLogger('wire').error('connection to %s failed', '{TOKEN}')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    if form == "console":
        assert done.stderr.endswith("wire ERROR connection to [redacted] failed\n")
    else:
        line = json.loads(done.stderr)
        assert datetime.fromisoformat(line.pop("timestamp")).tzinfo is UTC
        message = "connection to [redacted] failed"
        assert line == {"event": "library", "logger": "wire", "level": "error", "message": message}
