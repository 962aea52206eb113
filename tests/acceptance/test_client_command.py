"""The command `daybreak`, interactively and from cron."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.installation import MAYA, NORTH, NOT_EXPORTED, PASSWORD, SOUTH
from tests.acceptance.service import AUTH, PATIENCE_SECONDS, Service
from tests.parts.warm import run_warm

DAYBREAK = (sys.executable, "-c", "from daybreak_client.command import main; main()")


class Shell:
    """Runs the command with a separate profile."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.profile = folder / "config" / "profile.json"
        self.environment = {**os.environ, "DAYBREAK_PROFILE": str(self.profile), **environment}

    def run(
        self, *arguments: str, typed: str = "", code: int = 0, before: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        if before:
            done = subprocess.run(
                [*before, *DAYBREAK, *arguments], input=typed, cwd=self.folder, env=self.environment,
                capture_output=True, text=True, encoding="utf-8", timeout=PATIENCE_SECONDS, check=False,
            )  # fmt: skip
        else:
            options: dict[str, Any] = {"environment": self.environment, "folder": self.folder, "typed": typed}
            done = run_warm(arguments, module="daybreak_client.command", **options)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_login_select_account_and_fetch(service: Service, shell: Shell) -> None:
    typed = f"{MAYA}\n{PASSWORD}\n"
    done = shell.run("login", service.address, typed=typed)
    assert PASSWORD not in done.stdout + done.stderr
    assert shell.profile.stat().st_mode & 0o777 == 0o600
    token = json.loads(shell.profile.read_text())["token"]
    assert token not in done.stdout + done.stderr

    shell.run("use", "south")
    lines = shell.run("accounts").stdout.splitlines()
    assert lines[0] == "\taccount\tname\troles"
    assert [line.split("\t")[1] for line in lines if line.startswith("*")] == [SOUTH]

    listed = shell.run("files")
    assert len(listed.stdout.splitlines()) == 1 + 18
    assert "next files expected at" in listed.stderr
    manifest = json.loads(shell.run("files", "--json").stdout)
    assert manifest["client_id"] == SOUTH

    first = shell.run("fetch", "exports")
    assert sorted(first.stdout.splitlines()) == sorted(
        f"exports/{file['file']}" for file in manifest["files"] if file["format"] == "csv"
    )
    again = shell.run("fetch", "exports", "--wait", "2h")
    assert again.stdout == ""
    assert "0 of 9 files changed" in again.stderr

    shell.run("logout")
    assert not shell.profile.exists()
    assert service.get("/download/v2/auth/context", token=token).json()["code"] == "session_ended"
    shell.run("files", code=2)


@pytest.mark.release
def test_schema_needs_no_login(service: Service, tmp_path: Path) -> None:
    shell = Shell(tmp_path, DAYBREAK_SERVICE=service.address)
    assert json.loads(shell.run("schema").stdout) == service.get("/download/v1/schema").json()
    statements = shell.run("schema", "--ddl", "snowflake").stdout
    assert statements == service.get("/download/v1/schema", params={"dialect": "snowflake"}).text
    refused = shell.run("schema", "--ddl", "a&b=c", code=2)
    assert "Unknown dialect. Use one of postgresql, duckdb" in refused.stderr


@pytest.mark.release
def test_logout_removes_an_ended_session(service: Service, shell: Shell) -> None:
    shell.run("login", service.address, "--email", MAYA, typed=f"{PASSWORD}\n")
    token = json.loads(shell.profile.read_text())["token"]
    assert service.request("DELETE", f"{AUTH}/logout", token=token).status_code == 204
    assert "This session has ended" in shell.run("files", code=3).stderr
    shell.run("logout")
    assert not shell.profile.exists()


def test_wrong_password_saves_no_profile(service: Service, shell: Shell) -> None:
    done = shell.run("login", service.address, "--email", MAYA, typed="no such password\n", code=3)
    assert "Email or password is wrong" in done.stderr
    assert not shell.profile.exists()


@pytest.mark.release
def test_environment_variables_replace_the_login(service: Service, tmp_path: Path) -> None:
    secret, _ = service.installation.create_token(MAYA, NORTH)
    cron = Shell(tmp_path, DAYBREAK_SERVICE=service.address, DAYBREAK_TOKEN=secret, DAYBREAK_ACCOUNT=NORTH)
    done = cron.run("fetch", "exports", "--only", "members", "--format", "json", "--format", "csv", "--wait", "1m")
    assert sorted(done.stdout.splitlines()) == ["exports/members.csv.gz", "exports/members.json.gz"]
    assert secret not in done.stdout + done.stderr
    assert not cron.profile.exists()
    link = cron.run("link", "members").stdout.strip()
    assert "/download/v1/links/" in link
    assert "Sign in with `daybreak login`" in cron.run("accounts", code=3).stderr
    assert "Use one of campaigns," in cron.run("fetch", "elsewhere", "--only", "member", code=2).stderr
    assert not (tmp_path / "elsewhere").exists()


def test_api_token_is_saved_and_not_revoked_by_logout(service: Service, shell: Shell) -> None:
    secret, _ = service.installation.create_token(MAYA, NORTH)
    shell.run("login", service.address, "--api-token", "--account", NORTH, typed=f"{secret}\n")
    assert len(shell.run("fetch", "exports").stdout.splitlines()) == 9
    shell.run("logout")
    assert service.get(f"/download/v1/files/{NORTH}", token=secret).status_code == 200


def test_invalid_api_token_is_not_saved(service: Service, shell: Shell) -> None:
    done = shell.run("login", service.address, "--api-token", "--account", NORTH, typed="service_api_x\n", code=3)
    assert "token" in done.stderr
    assert not shell.profile.exists()


def test_wait_without_new_files_fails_with_the_reason(service: Service, tmp_path: Path) -> None:
    shell = Shell(
        tmp_path, DAYBREAK_SERVICE=service.address, DAYBREAK_TOKEN=service.token(MAYA), DAYBREAK_ACCOUNT=NOT_EXPORTED
    )
    done = shell.run("fetch", "exports", "--wait", "1s", code=4)
    assert "Waiting for today's files" in done.stderr
    assert "not published yet" in done.stderr
    assert not (tmp_path / "exports").exists()


@pytest.mark.release
def test_full_disk_is_reported_with_the_path(service: Service, tmp_path: Path) -> None:
    secret, _ = service.installation.create_token(MAYA, NORTH)
    shell = Shell(tmp_path, DAYBREAK_SERVICE=service.address, DAYBREAK_TOKEN=secret, DAYBREAK_ACCOUNT=NORTH)
    small = ("bash", "-c", 'ulimit -f 1; exec "$@"', "small")
    done = shell.run("fetch", "exports", before=small, code=1)
    assert re.search(r"^daybreak: exports/\.\w+\.csv\.gz\.\w+\.part: File too large$", done.stderr, re.MULTILINE)
    full = ("bash", "-c", 'exec "$@" > /dev/full', "full")
    # The table is in a buffer until the end, so that notes may precede the error.
    notes = shell.run("files", before=full, code=1).stderr.splitlines()
    assert notes[-1] == "daybreak: standard output: No space left on device"


def test_all_accounts_are_fetched_into_their_folders(service: Service, shell: Shell) -> None:
    shell.run("login", service.address, "--email", MAYA, typed=f"{PASSWORD}\n")
    planned = shell.run("fetch", "exports", "--all-accounts", "--dry-run", "--only", "members,communities", code=4)
    assert len(planned.stdout.splitlines()) == 4
    assert not (shell.folder / "exports").exists()
    # One of the accounts has no files yet. It does not stop the others.
    done = shell.run("fetch", "exports", "--all-accounts", "--only", "members,communities", "--json", code=4)
    found = {each["client_id"]: each for each in json.loads(done.stdout)}
    assert found[NOT_EXPORTED]["error"]["code"] == "snapshot_not_ready"
    for client_id in (NORTH, SOUTH):
        files = found[client_id]["files"]
        assert [(file["path"], file["changed"]) for file in files] == [
            (f"exports/{client_id}/{name}.csv.gz", True) for name in ("members", "communities")
        ]
        modes = {path.stat().st_mode & 0o777 for path in (shell.folder / "exports" / client_id).iterdir()}
        assert modes == {0o600}
    assert {path.name for path in (shell.folder / "exports").iterdir()} == {NORTH, SOUTH}


def test_quiet_fetch_prints_nothing(service: Service, tmp_path: Path) -> None:
    secret, _ = service.installation.create_token(MAYA, NORTH)
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(secret)
    cron = Shell(tmp_path, DAYBREAK_SERVICE=service.address, DAYBREAK_ACCOUNT=NORTH)
    done = cron.run("fetch", "exports", "--quiet", "--token-file", str(token))
    assert (done.stdout, done.stderr) == ("", "")
    assert len(list((tmp_path / "exports").glob("*.csv.gz"))) == 9
    done = cron.run("fetch", "exports", "--quiet", "--account", SOUTH, "--token-file", str(token), code=3)
    assert done.stdout == ""
    assert done.stderr.startswith("daybreak: ")


@pytest.mark.release
def test_numbers_in_a_pipe_have_no_separators(service: Service, shell: Shell) -> None:
    shell.run("login", service.address, "--email", MAYA, typed=f"{PASSWORD}\n")
    shell.run("use", "north")
    rows = [line.split("\t") for line in shell.run("files").stdout.splitlines()[1:]]
    assert ["members.csv.gz", "4000"] in [row[:2] for row in rows]
    assert all(row[1].isdecimal() and row[2].isdecimal() for row in rows)
    current = [each["client_id"] for each in json.loads(shell.run("accounts", "--json").stdout) if each["current"]]
    assert current == [NORTH]


def test_completion_script_is_valid(shell: Shell) -> None:
    script = shell.run("completion", "bash").stdout
    assert "--all-accounts" in script
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


@pytest.mark.release
def test_ambiguous_account_name_lists_the_candidates(service: Service, shell: Shell) -> None:
    shell.run("login", service.address, "--email", MAYA, typed=f"{PASSWORD}\n")
    for text, message in (("nowhere", "No account has"), ("o", "Several accounts have")):
        done = shell.run("use", text, code=2)
        assert message in done.stderr
        assert NORTH in done.stderr
