"""Record an instance of one version, so that a test can start it on a later one.

    python -m tests.acceptance.upgrade.record NAME SOURCE

NAME becomes a folder in `instances/`. SOURCE is the `src` folder of the version to record: a checkout of its commit.
The script uses only the command line and the HTTP interface of that version.
"""

import json
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyotp
import requests

from tests.parts.moved_clock import MovedClock
from tests.parts.ports import free_port
from tests.parts.processes import running

INSTANCES = Path(__file__).parent / "instances"
RECORDED_AT = datetime(2026, 11, 28, 6, tzinfo=UTC)
# Tokens and links contain it, so the upgraded service must have the same URL.
BASE_URL = "http://127.0.0.1:8400"
AUTH = "/download/v2/auth"
OWNER, CAREFUL = "owner@demo.example", "careful@demo.example"
PATIENCE_SECONDS = 600
_SIZES = ("--leaders", "7", "--members", "60", "--messages", "150")
_CSRF = re.compile(r'name="csrf" value="([^"]+)"')


class Client:
    """Requests to a service that listens on `port` and has the public URL `BASE_URL`. Redirects are not followed."""

    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}"
        self._session = requests.Session()
        self._session.headers["Host"] = BASE_URL.removeprefix("http://")

    def request(self, method: str, path: str, *, token: str | None = None, **options: Any) -> requests.Response:
        """Send one request; `path` may be a link that starts with `BASE_URL`."""
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        url = self._address + path.removeprefix(BASE_URL)
        return self._session.request(
            method, url, headers=headers, timeout=PATIENCE_SECONDS, allow_redirects=False, **options
        )

    def log_in(self, email: str, password: str) -> requests.Response:
        """Sign in with a password."""
        return self.request("POST", f"{AUTH}/login", json={"email": email, "password": password})

    def answer_second_factor(self, token: str, seed: str, at: datetime) -> requests.Response:
        """Complete a login that waits for its second factor. `seed` is in base32."""
        return self.request("POST", f"{AUTH}/login/callback/mfa", token=token, json={"totp": pyotp.TOTP(seed).at(at)})

    def switch(self, token: str, client_id: str) -> str:
        """Return a token of the same session for another account."""
        answer = self.request("PUT", f"{AUTH}/context", token=token, json={"context": client_id})
        assert answer.status_code == 200, answer.text
        switched: str = answer.json()["data"]["token"]
        return switched

    def link(self, token: str, path: str) -> str:
        """Return the signed link of a file."""
        answer = self.request("GET", path, token=token)
        assert answer.status_code == 302, answer.text
        return answer.headers["Location"]

    def dashboard_cookies(self, email: str, password: str) -> dict[str, str]:
        """Sign in to the dashboard and return the cookies of the browser."""
        token = form_token(self.request("GET", "/dashboard/sign-in").text)
        fields = {"csrf": token, "email": email, "password": password, "next": ""}
        assert self.request("POST", "/dashboard/sign-in", data=fields).status_code == 303
        cookies = self._session.cookies.get_dict()
        self._session.cookies.clear()
        return cookies


def form_token(page: str) -> str:
    """Return the form token of a page."""
    found = _CSRF.search(page)
    assert found is not None, page[:500]
    return found[1]


def published_files(client: Client, token: str, client_id: str) -> dict[str, str]:
    """Return path and SHA-256 of every file of an account, from its manifest."""
    answer = client.request("GET", f"/download/v1/files/{client_id}", token=token)
    assert answer.status_code == 200, answer.text
    return {file["path"]: file["sha256"] for each in answer.json()["data"]["resources"] for file in each["files"]}


def record(folder: Path, clock: MovedClock, environment: Mapping[str, str]) -> dict[str, Any]:
    """Create an instance in `folder` with the version of `environment`. Return the record of its clients."""
    port = free_port()
    daybreakd = (sys.executable, "-m", "daybreak.cli.main")
    # libfaketime breaks time.sleep when it leaves the monotonic clock as it is.
    moved = {
        **environment,
        **clock.environment,
        "FAKETIME_DONT_FAKE_MONOTONIC": "0",
        "DAYBREAK_SNAPSHOT__SCHEDULE": "false",
    }
    clock.move_to(RECORDED_AT)
    with running([*daybreakd, "demo", str(folder), *_SIZES, "--port", str(port)], environment=moved) as program:
        printed = program.wait_for_log("gunzip -c campaigns.json.gz", PATIENCE_SECONDS)
    credentials = {
        "passwords": {email: _word_after(printed, email) for email in (OWNER, CAREFUL)},
        "second_factor_seed": _word_after(printed, f"Second factor of {CAREFUL}: key"),
        "members_file": re.findall(r"/download/v1/files/[0-9a-f-]+/members.csv.gz", printed)[0],
        "api_token": json.loads((folder / "demo.json").read_text("utf-8"))["token"],
    }
    configuration = folder / "daybreak.toml"
    configuration.write_text(configuration.read_text("utf-8").replace(f"127.0.0.1:{port}", "127.0.0.1:8400"), "utf-8")
    served = {**moved, "DAYBREAK_LISTEN": f"127.0.0.1:{port}", "DAYBREAK_LOG_FORMAT": "json"}
    with running([*daybreakd, "serve", "--config", str(configuration)], environment=served) as program:
        program.wait_for_log('"ready"', PATIENCE_SECONDS)
        return credentials | _use(Client(port), credentials)


def _word_after(log: str, text: str) -> str:
    """Return the word after `text`."""
    found = re.search(re.escape(text) + r"\s+(\S+)", log)
    assert found is not None, text
    return found[1]


def _use(client: Client, credentials: Mapping[str, Any]) -> dict[str, Any]:
    """Use the service as clients do. Return their tokens, links and cookies, and the digest of each file."""
    password, seed = credentials["passwords"], credentials["second_factor_seed"]
    first = client.log_in(OWNER, password[OWNER]).json()["token"]
    accounts = [each["client_id"] for each in client.request("GET", f"{AUTH}/context", token=first).json()["data"]]
    members = credentials["members_file"]
    account = members.split("/")[4]
    session = client.switch(first, account)
    ended = client.switch(client.log_in(OWNER, password[OWNER]).json()["token"], account)
    ended_link = client.link(ended, members)
    assert client.request("DELETE", f"{AUTH}/logout", token=ended).status_code == 204
    pending = client.log_in(CAREFUL, password[CAREFUL]).json()["token"]
    verified = client.answer_second_factor(pending, seed, RECORDED_AT).json()["token"]
    digests: dict[str, str] = {}
    for client_id in accounts:
        digests |= published_files(client, client.switch(first, client_id), client_id)
    return {
        "accounts": accounts,
        "session_token": session,
        "session_token_after_second_factor": verified,
        "token_waiting_for_second_factor": client.log_in(CAREFUL, password[CAREFUL]).json()["token"],
        "ended_session_token": ended,
        "link_of_ended_session": ended_link,
        "link_of_session": client.link(session, members),
        "link_of_api_token": client.link(credentials["api_token"], members),
        "dashboard_cookies": client.dashboard_cookies(OWNER, password[OWNER]),
        "sha256": digests,
    }


def pack(folder: Path, recorded: Mapping[str, Any], target: Path) -> None:
    """Write the parts of an instance that a later version needs to `target`, the state database as SQL."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in ("files", "platform"):
        shutil.copytree(folder / name, target / name)
    shutil.copyfile(folder / "keyring.json", target / "keyring.json")
    # Not `daybreak.toml`, because .gitignore excludes that name.
    shutil.copyfile(folder / "daybreak.toml", target / "configuration.toml")
    with closing(sqlite3.connect(folder / "state.db")) as database:
        (target / "state.sql").write_text("\n".join(database.iterdump()) + "\n", "utf-8")
    (target / "record.json").write_text(json.dumps(recorded, indent=1) + "\n", "utf-8")


def main(name: str, source: str) -> None:
    """Record the version whose `src` folder is `source` as `instances/NAME`."""
    with tempfile.TemporaryDirectory(prefix="daybreak-instance-") as temporary:
        folder = Path(temporary) / "instance"
        clock = MovedClock(Path(temporary) / "offset")
        environment = {"PYTHONPATH": str(Path(source).resolve()), "PYTHONUNBUFFERED": "1", "TZ": "UTC"}
        pack(folder, record(folder, clock, environment), INSTANCES / name)


if __name__ == "__main__":
    main(*sys.argv[1:])
