"""An instance of an earlier version starts on this one; credentials and links already issued keep working."""

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.upgrade.record import (
    AUTH,
    CAREFUL,
    INSTANCES,
    OWNER,
    PATIENCE_SECONDS,
    RECORDED_AT,
    Client,
    form_token,
    published_files,
)
from tests.parts.moved_clock import MovedClock
from tests.parts.ports import free_port
from tests.parts.processes import running

# Issued links are valid for 15 minutes. A login waits ten minutes for its second factor.
UPGRADED_AT = RECORDED_AT + timedelta(minutes=2)
DAYBREAKD = (sys.executable, "-m", "daybreak.cli.main")


@dataclass(frozen=True)
class Upgraded:
    """A recorded instance that this version serves."""

    client: Client
    recorded: dict[str, Any]
    clock: MovedClock
    configuration: Path
    environment: dict[str, str]

    @property
    def client_id(self) -> str:
        """The account that recorded tokens and links belong to."""
        return str(self.recorded["members_file"].split("/")[4])

    def daybreakd(self, *arguments: str) -> str:
        """Run an operator command with the clock of the service. Return its output."""
        done = subprocess.run(
            [*DAYBREAKD, *arguments, "--config", str(self.configuration)],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module", params=sorted(path.name for path in INSTANCES.iterdir() if path.is_dir()))
def upgraded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgraded]:
    """Each recorded instance, served by this version minutes after the recording."""
    folder = tmp_path_factory.mktemp("upgrade")
    recorded = restore(INSTANCES / request.param, folder / "instance")
    clock = MovedClock(folder / "offset")
    clock.move_to(UPGRADED_AT)
    port = free_port()
    environment = {
        **clock.environment,
        "DAYBREAK_LISTEN": f"127.0.0.1:{port}",
        "DAYBREAK_LOG_FORMAT": "json",
        # Without schedule and webhooks, no builder is started.
        "DAYBREAK_SNAPSHOT__SCHEDULE": "false",
        "DAYBREAK_EVENTS__WEBHOOKS": "false",
    }
    configuration = folder / "instance" / "daybreak.toml"
    with running([*DAYBREAKD, "serve", "--config", configuration], environment=environment) as program:
        program.wait_for_log('"ready"', PATIENCE_SECONDS)
        yield Upgraded(Client(port), recorded, clock, configuration, environment)


def restore(instance: Path, folder: Path) -> dict[str, Any]:
    """Write a recorded instance to a new folder. Return the record of its clients."""
    shutil.copytree(instance, folder)
    (folder / "configuration.toml").rename(folder / "daybreak.toml")
    (folder / "keyring.json").chmod(0o600)
    with closing(sqlite3.connect(folder / "state.db")) as database:
        database.executescript((folder / "state.sql").read_text("utf-8"))
    recorded: dict[str, Any] = json.loads((folder / "record.json").read_text("utf-8"))
    return recorded


@pytest.mark.release
def test_password_from_before_the_upgrade_logs_in(upgraded: Upgraded) -> None:
    logged_in = upgraded.client.log_in(OWNER, upgraded.recorded["passwords"][OWNER])
    assert logged_in.status_code == 200
    switched = upgraded.client.switch(logged_in.json()["token"], upgraded.client_id)
    assert upgraded.client.link(switched, upgraded.recorded["members_file"])


def test_login_started_before_the_upgrade_completes(upgraded: Upgraded) -> None:
    pending = upgraded.recorded["token_waiting_for_second_factor"]
    assert upgraded.client.request("GET", f"{AUTH}/context", token=pending).status_code == 403
    seed = upgraded.recorded["second_factor_seed"]
    completed = upgraded.client.answer_second_factor(pending, seed, upgraded.clock.now())
    assert completed.status_code == 200, completed.text


@pytest.mark.parametrize("name", ["session_token", "session_token_after_second_factor"])
def test_issued_session_token_is_accepted(upgraded: Upgraded, name: str) -> None:
    token = upgraded.recorded[name]
    contexts = upgraded.client.request("GET", f"{AUTH}/context", token=token)
    assert contexts.status_code == 200
    (current,) = [each["client_id"] for each in contexts.json()["data"]][:1]
    assert published_files(upgraded.client, upgraded.client.switch(token, current), current)


@pytest.mark.parametrize("name", ["session_token", "api_token"])
def test_issued_token_downloads_the_recorded_bytes(upgraded: Upgraded, name: str) -> None:
    path = upgraded.recorded["members_file"]
    answer = upgraded.client.request("GET", upgraded.client.link(upgraded.recorded[name], path))
    assert answer.status_code == 200
    assert hashlib.sha256(answer.content).hexdigest() == upgraded.recorded["sha256"][path]


@pytest.mark.parametrize("name", ["link_of_session", "link_of_api_token"])
def test_issued_link_serves_the_recorded_bytes(upgraded: Upgraded, name: str) -> None:
    answer = upgraded.client.request("GET", upgraded.recorded[name])
    assert answer.status_code == 200
    assert hashlib.sha256(answer.content).hexdigest() == upgraded.recorded["sha256"][upgraded.recorded["members_file"]]


def test_every_file_has_its_recorded_digest(upgraded: Upgraded) -> None:
    login = upgraded.client.log_in(OWNER, upgraded.recorded["passwords"][OWNER]).json()["token"]
    fetched = {}
    for client_id in upgraded.recorded["accounts"]:
        token = upgraded.client.switch(login, client_id)
        for path in published_files(upgraded.client, token, client_id):
            answer = upgraded.client.request("GET", upgraded.client.link(token, path))
            fetched[path] = hashlib.sha256(answer.content).hexdigest()
    assert fetched == upgraded.recorded["sha256"]


def test_recovery_code_from_before_the_upgrade_signs_in(upgraded: Upgraded) -> None:
    client, path = upgraded.client, "/dashboard/second-factor"
    cookies = client.dashboard_cookies(CAREFUL, upgraded.recorded["passwords"][CAREFUL])
    form = client.request("GET", path, cookies=cookies, params={"kind": "recovery"}).text
    fields = {"csrf": form_token(form), "kind": "recovery", "code": upgraded.recorded["recovery_code"], "next": ""}
    used = client.request("POST", path, cookies=cookies, data=fields)
    assert used.status_code == 303, used.text
    assert used.headers["Location"].endswith("/files")


@pytest.mark.release
def test_ended_session_and_its_link_stay_refused(upgraded: Upgraded) -> None:
    token = upgraded.recorded["ended_session_token"]
    assert upgraded.client.request("GET", f"{AUTH}/context", token=token).status_code == 401
    assert upgraded.client.request("GET", upgraded.recorded["link_of_ended_session"]).status_code == 403


@pytest.mark.release
def test_second_new_run_reuses_unchanged_files(upgraded: Upgraded) -> None:
    """The first run after an upgrade may write all files again. Links issued before it serve the earlier snapshot."""
    upgraded.daybreakd("snapshot", "run")
    upgraded.daybreakd("snapshot", "run")
    newest, first, recorded = json.loads(upgraded.daybreakd("snapshot", "list", "--json"))
    assert [each["state"] for each in (newest, first, recorded)] == ["published", "retired", "retired"]
    assert first["report"]["carried_from"] == recorded["snapshot_id"]
    assert [each["version"] for each in (recorded, first, newest)] == [1, 2, 3]
    assert newest["report"]["files_carried"] > 0
    login = upgraded.client.log_in(OWNER, upgraded.recorded["passwords"][OWNER]).json()["token"]
    after: dict[str, str] = {}
    for client_id in upgraded.recorded["accounts"]:
        after |= published_files(upgraded.client, upgraded.client.switch(login, client_id), client_id)
    before = upgraded.recorded["sha256"]
    assert after.keys() == before.keys()
    changed = [path for path in before if after[path] != before[path]]
    assert [path for path in changed if "member_term_accepts" not in path] == []
    assert upgraded.client.request("GET", upgraded.recorded["link_of_session"]).status_code == 200
