"""JSON log lines: each event is one line of ASCII."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog

from daybreak.cli.logs import configure_logging
from daybreak.settings import load_settings


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
