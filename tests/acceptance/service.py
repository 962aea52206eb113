"""A running service, as a consumer meets it."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import requests

from tests.acceptance.world import PASSWORD, World, totp_code
from tests.parts.processes import Running, running
from tests.parts.waiting import free_port

Answer = TypeVar("Answer")
# Far more than anything needs: a test that waits this long has found a fault.
PATIENCE_SECONDS = 90
AUTH = "/download/v2/auth"
DAYBREAKD = (sys.executable, "-c", "from daybreak.cli.main import main; main()")


@dataclass(frozen=True)
class Service:
    """`address` is where it listens; `base_url` what it calls itself."""

    address: str
    base_url: str
    world: World
    program: Running

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def request(self, method: str, path: str, **options: Any) -> requests.Response:
        """One request on a connection of its own, redirects not followed; `path` may be a whole URL."""
        url = path if path.startswith("http") else self.address + path
        options.setdefault("timeout", PATIENCE_SECONDS)
        options.setdefault("allow_redirects", False)
        token = options.pop("token", None)
        if token is not None:
            options["headers"] = {"Authorization": f"Bearer {token}", **options.get("headers", {})}
        return requests.request(method, url, **options)

    def get(self, path: str, **options: Any) -> requests.Response:
        return self.request("GET", path, **options)

    def log_in(self, email: str, *, password: str = PASSWORD, **options: Any) -> requests.Response:
        return self.request("POST", f"{AUTH}/login", json={"email": email, "password": password}, **options)

    def token(self, email: str, client_id: str | None = None) -> str:
        """A session token on an account, of a new login."""
        found = self.log_in(email)
        assert found.status_code == 200, found.text
        token: str = found.json()["token"]
        return token if client_id is None else self.switched(token, client_id)

    def switched(self, token: str, client_id: str) -> str:
        """The token of another context."""
        found = self.request("PUT", f"{AUTH}/context", token=token, json={"context": client_id})
        assert found.status_code == 200, found.text
        switched: str = found.json()["data"]["token"]
        return switched

    def answer_second_factor(self, token: str, code: str | None = None) -> requests.Response:
        return self.request("POST", f"{AUTH}/login/callback/mfa", token=token, json={"totp": code or totp_code()})

    def ask(self, token: str, client_id: str, file: str = "campaigns.csv.gz", **options: Any) -> requests.Response:
        """A download request, its redirect not followed."""
        return self.get(f"/download/v1/files/{client_id}/{file}", token=token, **options)

    def link(self, token: str, client_id: str, file: str = "campaigns.csv.gz") -> str:
        """A signed link, on the address where the service listens."""
        found = self.ask(token, client_id, file)
        assert found.status_code == 302, found.text
        return found.headers["Location"].replace(self.base_url, self.address)

    def log_lines(self) -> list[dict[str, Any]]:
        """What the service has logged, parsed."""
        return [json.loads(line) for line in self.program.log().splitlines() if line.startswith("{")]

    def workers(self) -> list[int]:
        """The process ids of the web workers that run."""
        return self.processes("worker")

    def processes(self, kind: str) -> list[int]:
        """The process ids of those that run and have a name that begins so."""
        found: dict[str, int] = {}
        for line in self.log_lines():
            if line["event"] == "started" and line["process"].startswith(kind):
                found[line["process"]] = line["pid"]
        return list(found.values())


@contextlib.contextmanager
def serving(
    world: World,
    *,
    workers: int = 2,
    settings: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
    **options: Any,
) -> Iterator[Service]:
    """Starts `daybreakd serve` on a world that was made. `settings` are keys of the configuration, with dots for
    sections; `before` is put before the command, such as `faketime`.
    """
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    chosen = {
        "base_url": address,
        "listen": f"127.0.0.1:{port}",
        "workers": workers,
        "log_format": "json",
        "state.url": world.state_url,
        "source.location": "platform.duckdb",
        "snapshot.schedule": False,
        # Hours away, so that no test runs across it: files of the day before are late then.
        "snapshot.publish_at": f"{(datetime.now(UTC).hour - 8) % 24:02}:00",
        # Many tests log in from one address; the throttles have tests of their own.
        "access.login_per_seat": "1000/5m",
        "access.login_per_address": "6000/5m",
        **(settings or {}),
    }
    file = world.folder / "daybreak.toml"
    if file.exists():
        # Several nodes may serve one world.
        file = file.with_name(f"daybreak-{port}.toml")
    file.write_text(_toml(chosen))
    command: list[str | Path] = [*before, *DAYBREAKD, "serve", "--config", file]
    with running(command, environment=environment, folder=world.folder, **options) as program:
        program.wait_for_log('"ready"', PATIENCE_SECONDS)
        yield Service(address, str(chosen["base_url"]), world, program)


def _toml(chosen: Mapping[str, Any]) -> str:
    """Dotted keys are TOML already; JSON scalars and lists of them are, too."""
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in chosen.items())


def at_once(work: Callable[[int], Answer], count: int) -> list[Answer]:
    """Runs `work(0)` to `work(count - 1)` at the same time; what they returned, in order."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))
