"""A running service and requests to it."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypeVar

import requests

from tests.acceptance.api_contract import ApiContract
from tests.acceptance.installation import PASSWORD, Installation, totp_code
from tests.parts.ports import free_port
from tests.parts.processes import Running, is_running, running
from tests.parts.waiting import wait_until
from tests.parts.warm import running_warm

Answer = TypeVar("Answer")
# Much longer than any step takes. A test that waits this long has found a defect.
PATIENCE_SECONDS = 180
AUTH = "/download/v2/auth"
DAYBREAKD = (sys.executable, "-c", "from daybreak.cli.main import main; main()")


@dataclass(frozen=True)
class Service:
    """Running service. `address` is where it listens, `base_url` its public URL."""

    address: str
    base_url: str
    installation: Installation
    program: Running
    metrics_port: int

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def request(self, method: str, path: str, **options: Any) -> requests.Response:
        """Send a request on a new connection and compare the response with the OpenAPI document.

        Redirects are not followed. `path` may be a whole URL.
        """
        url = path if path.startswith("http") else self.address + path
        options.setdefault("timeout", PATIENCE_SECONDS)
        options.setdefault("allow_redirects", False)
        token = options.pop("token", None)
        if token is not None:
            options["headers"] = {"Authorization": f"Bearer {token}", **options.get("headers", {})}
        found = requests.request(method, url, **options)
        if self.contract is not None:
            self.contract.check(found)
        return found

    @cached_property
    def contract(self) -> ApiContract | None:
        """The OpenAPI document of the service; None if the service refuses plain HTTP."""
        found = requests.get(f"{self.address}/openapi.json", timeout=PATIENCE_SECONDS)
        return ApiContract(found.json()) if found.status_code == 200 else None

    def get(self, path: str, **options: Any) -> requests.Response:
        return self.request("GET", path, **options)

    def log_in(self, email: str, *, password: str = PASSWORD, **options: Any) -> requests.Response:
        return self.request("POST", f"{AUTH}/login", json={"email": email, "password": password}, **options)

    def token(self, email: str, client_id: str | None = None) -> str:
        """Sign in and return a session token, for the account `client_id` if it is passed."""
        found = self.log_in(email)
        assert found.status_code == 200, found.text
        token: str = found.json()["token"]
        return token if client_id is None else self.switch_account(token, client_id)

    def switch_account(self, token: str, client_id: str) -> str:
        """Return a token of the same session for another account."""
        found = self.request("PUT", f"{AUTH}/context", token=token, json={"context": client_id})
        assert found.status_code == 200, found.text
        switched: str = found.json()["data"]["token"]
        return switched

    def answer_second_factor(self, token: str, code: str | None = None) -> requests.Response:
        return self.request("POST", f"{AUTH}/login/callback/mfa", token=token, json={"totp": code or totp_code()})

    def request_file(
        self, token: str, client_id: str, file: str = "campaigns.csv.gz", **options: Any
    ) -> requests.Response:
        """Request a file without following the redirect."""
        return self.get(f"/download/v1/files/{client_id}/{file}", token=token, **options)

    def link(self, token: str, client_id: str, file: str = "campaigns.csv.gz") -> str:
        """Return a signed link that points to the address where the service listens."""
        found = self.request_file(token, client_id, file)
        assert found.status_code == 302, found.text
        return found.headers["Location"].replace(self.base_url, self.address)

    def metrics(self) -> str:
        """Return the metrics of all workers in the Prometheus text format."""
        found = requests.get(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=PATIENCE_SECONDS)
        assert found.status_code == 200
        return found.text

    def log_lines(self) -> list[dict[str, Any]]:
        """Return the log of the service, parsed."""
        return [json.loads(line) for line in self.program.log().splitlines() if line.startswith("{")]

    def logged(self, request_id: str) -> dict[str, Any]:
        """Wait for the log line of a request, which is written after the response."""

        def found() -> list[dict[str, Any]]:
            return [line for line in self.log_lines() if line.get("request_id") == request_id]

        (line,) = wait_until(found, PATIENCE_SECONDS, what=f"a line with {request_id}")
        return line

    def workers(self) -> list[int]:
        """Return the process ids of the running web workers."""
        return self.processes("worker")

    def processes(self, kind: str) -> list[int]:
        """Return the ids of the running processes of a kind: `worker` or `builder`."""
        started = [line["pid"] for line in self.log_lines() if line["event"] == "started" and line["process"] == kind]
        return [pid for pid in started if is_running(pid)]


@contextlib.contextmanager
def serving(
    installation: Installation,
    *,
    command: str = "serve",
    workers: int = 2,
    settings: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
    warm: bool = True,
    **options: Any,
) -> Iterator[Service]:
    """Start `daybreakd serve` or another command on an installation.

    Args:
        installation: Where it runs.
        command: Command of `daybreakd`.
        workers: Number of web workers.
        settings: Keys of the configuration, with dots for sections.
        environment: Further variables.
        before: Words before the command, such as `faketime`.
        warm: Fork a process that has imported the service. False for tests of the start and of memory.
        **options: Arguments of `subprocess.Popen`.
    """
    port, metrics_port = free_port(), free_port()
    address = f"http://127.0.0.1:{port}"
    values = {
        "base_url": address,
        "listen": f"127.0.0.1:{port}",
        "workers": workers,
        "metrics.listen": f"127.0.0.1:{metrics_port}",
        "log_format": "json",
        "state.url": installation.state_url,
        "source.location": "platform.duckdb",
        "snapshot.schedule": False,
        # Without schedule, webhooks and mail, no builder process is started.
        "events.webhooks": False,
        # Hours away, because after that time the files of the previous day would be late.
        "snapshot.publish_at": f"{(datetime.now(UTC).hour - 8) % 24:02}:00",
        # Many tests sign in from one address. Rate limits have their own tests.
        "access.login_per_seat": "1000/5m",
        "access.login_per_address": "6000/5m",
        **(settings or {}),
    }
    file = installation.folder / "daybreak.toml"
    if file.exists():
        # Several nodes may serve one installation.
        file = file.with_name(f"daybreak-{port}.toml")
    file.write_text(_toml(values))
    arguments, folder = (command, "--config", str(file)), installation.folder
    # Python reads some variables only when it starts.
    as_usual = all(name.startswith(("DAYBREAK_", "AWS_", "AZURE_")) for name in environment or ())
    with (
        running_warm(arguments, environment=environment or {}, folder=folder)
        if warm and as_usual and not before and not options
        else running([*before, *DAYBREAKD, *arguments], environment=environment, folder=folder, **options)
    ) as program:
        program.wait_for_log('"ready"', PATIENCE_SECONDS, count=workers)
        service = Service(address, str(values["base_url"]), installation, program, metrics_port)
        yield service


def _toml(values: Mapping[str, Any]) -> str:
    """Format settings as TOML. JSON scalars and lists of them are valid TOML."""
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())


def run_in_parallel(work: Callable[[int], Answer], count: int) -> list[Answer]:
    """Run `work(0)` to `work(count - 1)` at the same time and return their results in order."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))
