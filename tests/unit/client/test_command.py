"""The command `daybreak` before it asks a service: what it teaches, and what it refuses."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from daybreak.settings import load_settings
from daybreak_client import command, connection
from daybreak_client.command import run
from tests.parts.scripted_service import HANG_UP, Said, scripted_service


@pytest.fixture(autouse=True)
def nobody_signed_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SERVICE", "TOKEN", "ACCOUNT", "PLAIN_HTTP"):
        monkeypatch.delenv(f"DAYBREAK_{name}", raising=False)
    monkeypatch.setenv("DAYBREAK_PROFILE", str(tmp_path / "profile.json"))


def test_help_teaches_by_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    for line in ("daybreak login https://", "daybreak fetch exports", "--wait 2h"):
        assert line in text
    for verb in ("login", "logout", "accounts", "use", "files", "fetch", "link"):
        assert run([verb, "--help"]) == 0
        assert f"Usage: daybreak {verb}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["fetch", "--surely"], "See `daybreak fetch --help`"),
        (["accounts"], "Nobody is signed in: `daybreak login ADDRESS`"),
        (["use", "north"], "Nobody is signed in"),
        (["fetch"], "Nobody is signed in"),
        (["login", "export.example.org"], "write one such as https://"),
        (["login", "http://export.example.org"], "--plain-http"),
        (["login", "https://export.example.org", "--api-token"], "--account CLIENT_ID"),
    ],
)
def test_wrong_use_is_told_with_the_way_out(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert told in said.err
    assert said.err.startswith("daybreak: ")


def test_half_of_the_environment_is_not_enough(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DAYBREAK_TOKEN", "service_api_secret")
    assert run(["files"]) == 2
    said = capsys.readouterr().err
    assert "DAYBREAK_SERVICE" in said
    assert "secret" not in said


@pytest.mark.parametrize("span", ["2", "h", "-1h", "2 h", "1d", ""])
def test_a_wait_that_is_no_time_span_is_refused(
    span: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DAYBREAK_SERVICE", "https://export.example.org")
    monkeypatch.setenv("DAYBREAK_TOKEN", "service_api_secret")
    assert run(["fetch", "--account", "north", f"--wait={span}"]) == 2
    assert "90s, 30m or 2h" in capsys.readouterr().err


def test_a_service_that_is_away_for_a_while_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(connection, "_FIRST_WAIT_SECONDS", 0.001)
    monkeypatch.setattr(command, "_LOOK_AGAIN_SECONDS", 0.01)
    (tmp_path / "members.csv.gz").write_bytes(b"octets")
    file = {"format": "csv", "path": "/members.csv.gz", "bytes": 6, "sha256": hashlib.sha256(b"octets").hexdigest()}
    instant = "2026-11-20T04:00:00Z"
    published = {
        **dict.fromkeys(("as_of", "published_at", "next_expected_at"), instant),
        "client_id": "north",
        "snapshot_id": "s1",
        "late": False,
        "reason": None,
        "resources": [{"resource": "members", "title": "Member Details", "rows": 1, "files": [file]}],
    }
    monkeypatch.setenv("DAYBREAK_TOKEN", "service_api_secret")
    with scripted_service() as service:
        monkeypatch.setenv("DAYBREAK_SERVICE", service.url)
        service.script = lambda _: Said(HANG_UP if len(service.asked) < 12 else 200, {"data": published})
        assert run(["fetch", str(tmp_path), "--account", "north"]) == 1
        assert run(["fetch", str(tmp_path), "--account", "north", "--wait", "1m"]) == 0
    said = capsys.readouterr().err
    assert "Waiting for the files of today" in said
    assert "0 of 1 files changed" in said


def test_an_account_is_needed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DAYBREAK_SERVICE", "https://export.example.org")
    monkeypatch.setenv("DAYBREAK_TOKEN", "service_api_secret")
    assert run(["fetch"]) == 2
    assert "--account CLIENT_ID" in capsys.readouterr().err


def test_logging_out_when_nobody_is_signed_in_is_no_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logout"]) == 0
    assert "Nobody is signed in" in capsys.readouterr().err


def test_its_variables_are_no_settings_of_the_service(tmp_path: Path) -> None:
    file = tmp_path / "daybreak.toml"
    file.write_text('[source]\nlocation = "platform"\n')
    names = ("SERVICE", "TOKEN", "ACCOUNT", "PLAIN_HTTP", "PROFILE")
    load_settings(file, {f"DAYBREAK_{name}": "something" for name in names})


def test_the_client_comes_without_the_service() -> None:
    """What `pip install daybreak` brings is all that it imports."""
    program = (
        "import sys, daybreak_client.command, httpx, rich.progress, rich.table\n"
        "heavy = {'duckdb', 'starlette', 'sqlalchemy', 'msgspec', 'structlog', 'daybreak'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
