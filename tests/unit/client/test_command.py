"""The command `daybreak` without a service: help, wrong use, waiting."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from daybreak.settings import load_settings
from daybreak_client.command import run
from daybreak_client.command.application import make_app
from daybreak_client.errors import LEFT_OVER
from tests.parts.help_pages import lost_help
from tests.parts.terminal import run_on_terminal

ROOT = Path(__file__).parents[3]
DAYBREAK = (sys.executable, "-c", "from daybreak_client.command import main; main()")


@pytest.fixture(autouse=True)
def signed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SERVICE", "TOKEN", "ACCOUNT", "PROFILE", "PLAIN_HTTP"):
        monkeypatch.delenv(f"DAYBREAK_{name}", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    for line in ("daybreak login https://", "daybreak fetch exports", "--wait 2h"):
        assert line in text
    app = make_app()
    for verb in (each for each in app if not each.startswith("-")):
        assert run([verb, "--help"]) == 0
        page = capsys.readouterr().out
        assert f"Usage: daybreak {verb}" in page
        assert lost_help(page, app[verb].default_command.__doc__) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fetch", "--surely"], "See `daybreak fetch --help`"),
        (["fetch", "a", "b"], "daybreak: Unexpected argument: b.\nSee `daybreak fetch --help`"),
        (["accounts"], "You are not signed in. Run `daybreak login URL`"),
        (["use", "north"], "You are not signed in"),
        (["fetch"], "You are not signed in"),
        (["login", "export.example.org"], "Use one such as https://"),
        (["login", "http://export.example.org"], "--plain-http"),
        (["login", "https://export.example.org", "--api-token"], "--account CLIENT_ID"),
    ],
)
def test_wrong_use_names_the_fix(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.startswith("daybreak: ")


def test_share_profile_is_private(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DAYBREAK_SERVICE", "https://export.example.org/data/")
    monkeypatch.setenv("DAYBREAK_TOKEN", "service_api_secret")
    path = tmp_path / "daybreak.share"
    path.write_text("earlier")
    assert run(["share-profile", str(path)]) == 0
    assert json.loads(path.read_text()) == {
        "shareCredentialsVersion": 1,
        "endpoint": "https://export.example.org/data/sharing/v1",
        "bearerToken": "service_api_secret",
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["daybreak.share"]


@pytest.mark.parametrize("address", ["export.example.org", "http://export.example.org"])
def test_share_profile_needs_the_url_of_a_service(
    address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Clients of Delta Sharing would send the token to any address in the profile."""
    monkeypatch.setenv("DAYBREAK_SERVICE", address)
    monkeypatch.setenv("DAYBREAK_TOKEN", "service_api_secret")
    assert run(["share-profile", str(tmp_path / "daybreak.share")]) == 2
    assert "https://" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_share_profile_needs_an_api_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DAYBREAK_SERVICE", "https://export.example.org")
    monkeypatch.setenv("DAYBREAK_TOKEN", "eyJhbGciOiJ")
    assert run(["share-profile", str(tmp_path / "daybreak.share")]) == 2
    assert "Delta Sharing needs an API token." in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_token_without_service_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DAYBREAK_TOKEN", "service_api_secret")
    assert run(["files"]) == 2
    printed = capsys.readouterr().err
    assert "DAYBREAK_SERVICE" in printed
    assert "secret" not in printed


def test_empty_argument_is_not_the_current_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DAYBREAK_SERVICE", "https://export.example.org")
    monkeypatch.setenv("DAYBREAK_TOKEN", "service_api_secret")
    assert run(["share-profile", ""]) == 2
    assert "argument is empty" in capsys.readouterr().err


@pytest.mark.parametrize("span", ["2", "h", "-1h", "2 h", "1d", ""])
def test_invalid_wait_is_refused(
    span: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DAYBREAK_SERVICE", "https://export.example.org")
    monkeypatch.setenv("DAYBREAK_TOKEN", "service_api_secret")
    assert run(["fetch", "--account", "north", f"--wait={span}"]) == 2
    assert "90s, 30m or 2h" in capsys.readouterr().err


def test_account_is_required(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DAYBREAK_SERVICE", "https://export.example.org")
    monkeypatch.setenv("DAYBREAK_TOKEN", "service_api_secret")
    assert run(["fetch"]) == 2
    assert "--account CLIENT_ID" in capsys.readouterr().err


def test_logout_without_login_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logout"]) == 0
    assert "You are not signed in" in capsys.readouterr().err


EMAIL = ("Email: ", b"ana@example.org\n")


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([("Email: ", b"\x04")], "The input ended at a prompt. Run the command again."),
        ([EMAIL, ("Password: ", b"\x04")], "The input ended at a prompt. Run the command again."),
        ([("Email: ", b"na\xefve\n")], "The input is not UTF-8. Run the command again."),
        ([EMAIL, ("Password: ", b"na\xefve and more\n")], "The input is not UTF-8. Run the command again."),
    ],
)
def test_unusable_answer_to_a_prompt_is_one_message(answers: list[tuple[str, bytes]], message: str) -> None:
    code, printed = run_on_terminal([*DAYBREAK, "login", "http://127.0.0.1:1"], answers)
    assert code == 2
    assert printed.endswith(f"\r\ndaybreak: {message}\r\n")
    assert "Traceback" not in printed


@pytest.mark.parametrize("closed", [">&-", "<&-", ">&- 2>&-"])
def test_closed_standard_streams_are_permitted(closed: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f'exec "$@" {closed}', "closed", *DAYBREAK, "profiles"], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("page", ["fetch-every-day.md", "keep-a-database-in-step.md"])
def test_pages_name_the_exit_code_of_accounts_left_over(page: str) -> None:
    text = " ".join((ROOT / "docs" / "how-to" / page).read_text(encoding="utf-8").split())
    assert f" names such accounts and exits with {LEFT_OVER}." in text


def test_variables_are_not_settings_of_the_service(tmp_path: Path) -> None:
    file = tmp_path / "daybreak.toml"
    file.write_text('[source]\nlocation = "platform"\n')
    names = ("SERVICE", "TOKEN", "ACCOUNT", "PLAIN_HTTP", "PROFILE")
    load_settings(file, {f"DAYBREAK_{name}": "something" for name in names})


def test_client_does_not_import_the_service() -> None:
    """The client imports only packages that it depends on."""
    program = (
        "import sys, daybreak_client.command, httpx, rich.progress, rich.table\n"
        "heavy = {'duckdb', 'starlette', 'sqlalchemy', 'msgspec', 'structlog', 'daybreak'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
