"""Tables of the command `daybreak` on a terminal."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from daybreak_client.command import output
from daybreak_client.command import sync as sync_command
from daybreak_client.command.options import Accounts, Mode
from daybreak_client.database_sync import ResourceResult, SyncResult

REASONS = ("not in the database", "the deltas do not continue from the stored version", "larger than full")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "is_terminal", lambda _stream: True)
    monkeypatch.setattr(sync_command, "is_terminal", lambda _stream: True)
    monkeypatch.setenv("TERM", "xterm")


def lines_of(resources: Sequence[ResourceResult], capsys: pytest.CaptureFixture[str]) -> list[str]:
    as_of = datetime(2026, 11, 26, tzinfo=UTC)
    sync_command._Report(Mode(), Accounts()).print(SyncResult("north", None, 1, "s1", as_of, tuple(resources)))
    return capsys.readouterr().out.splitlines()


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("columns", [40, 60, 80, 200])
@pytest.mark.parametrize("verified", ["", "different"])
@pytest.mark.parametrize("reason", REASONS)
def test_numbers_are_never_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int, verified: str, reason: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    resources = [
        ResourceResult("message_segment_usage", "full", reason, 1_234_509, 0, 0, 151_300_000, 0, verified),
        ResourceResult("members", "delta", "", 1_509, 912_345, 854_321, 1_300, 0, verified),
    ]
    lines = lines_of(resources, capsys)
    printed = "\n".join(lines)
    for number in ("1,234,509", "151.3 MB", "1,509", "912,345", "854,321", "1.3 kB"):
        assert number in printed
    if columns >= 80:
        assert all(len(line) <= columns for line in lines)
    letters = "".join(line.split("  ")[0].strip() for line in lines[3:])
    assert "message_segment_usage" in letters.replace(" ", "")


@pytest.mark.usefixtures("terminal")
def test_columns_without_values_are_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = lines_of([ResourceResult("members", "full", "not in the database", 1_509, 0, 0, 1_300)], capsys)
    assert lines[1].split() == ["resource", "action", "rows", "download"]
    assert lines[3].split() == ["members", "full:", "not", "in", "the", "database", "1,509", "1.3", "kB"]


@pytest.mark.usefixtures("terminal")
def test_words_stay_whole_if_they_fit(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    found = ResourceResult("outbound_message_type_usage", "full", REASONS[1], 1_509, 0, 0, 13_000, 0, "different")
    lines = lines_of([found], capsys)
    assert "outbound_message_type_usage" in lines[3]
    assert all(len(line) <= 80 for line in lines)
