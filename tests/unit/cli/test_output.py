"""Output of the commands: escaped control characters, and tables whose cells can be copied."""

import json
import re
from pathlib import Path

import pytest
import structlog

from daybreak.cli import output
from daybreak.cli.logs import configure_logging
from daybreak.settings import load_settings

HOSTILE = "Ann\x1b[2J\x07 \u202etxet\r\x9b31m"


def test_control_characters_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_text(f"héllo 🌅 {HOSTILE}\n\tsecond line")
    output.print_note(HOSTILE)
    output.print_table(("A",), [(f"{HOSTILE}\nB",)])
    printed = capsys.readouterr()
    shown = "Ann\\x1b[2J\\x07 \\u202etxet\\r\\x9b31m"
    assert printed.out == f"héllo 🌅 {shown}\n\tsecond line\nA\n{shown} B\n"
    assert printed.err == f"{shown}\n"


@pytest.mark.parametrize("width", [30, 80, 200])
def test_ids_and_numbers_are_not_broken(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    uuid, words = "4bd15f0c-2c18-48e0-8dd4-888818a39733", "a longer text of several words that may be broken"
    output.print_table(("ID", "SIZE", "WHAT"), [(uuid, "110.9 kB", words)], numbers=frozenset({"SIZE"}))
    printed = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert uuid in printed
    assert "110.9 kB" in printed
    assert set(words.split()) <= set(printed.split())


def test_empty_table_has_a_header(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    output.print_table(("A", "B"), [])
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    output.print_table(("A", "B"), [])
    assert capsys.readouterr().out.startswith("A\tB\n")


def test_logs_are_escaped_on_a_console_and_json_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = load_settings(None, {"DAYBREAK_SOURCE__LOCATION": "x", "DAYBREAK_LOG_FORMAT": "console"})
    before = structlog.get_config()
    try:
        configure_logging(settings)
        structlog.get_logger().info("request", path="/a\x1b[2Jb")
        assert "\x1b" not in capsys.readouterr().err
        configure_logging(load_settings(None, {"DAYBREAK_SOURCE__LOCATION": "x"}), tmp_path / "service.log")
        structlog.get_logger().info("request", path=HOSTILE)
    finally:
        structlog.configure(**before)
    assert json.loads((tmp_path / "service.log").read_text("utf-8"))["path"] == HOSTILE
    assert capsys.readouterr().err == ""
