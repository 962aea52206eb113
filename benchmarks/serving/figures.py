"""Measurements of the service, most of them in comparison with another server, in alternating rounds."""

import math
import secrets
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import msgspec
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from benchmarks.serving.home import EMAILS, PASSWORD, Home
from benchmarks.serving.load import ClientResult, Plan
from benchmarks.serving.servers import (
    CLIENT_CORE,
    RoundResult,
    Server,
    accelerated,
    bare_framework,
    client,
    client_result,
    daybreak,
    nginx,
    run_client,
)
from benchmarks.snapshot_run import DAYBREAKD
from daybreak.credentials.s3_keys import AccessKey
from daybreak.domain.snapshot import SnapshotState
from daybreak.state.database import open_state
from tests.parts.waiting import wait_until

LINKS_PER_SECOND = 100.0
LOGINS_PER_SECOND = 30.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """Results of the service and of the other server, one per round."""

    ours: list[RoundResult]
    peer: list[RoundResult]

    def ratio(self, figure: str) -> float:
        """Median over the rounds of the service's figure divided by the other server's."""
        rounds = zip(self.ours, self.peer, strict=True)
        ratios: list[float] = [getattr(mine, figure) / getattr(other, figure) for mine, other in rounds]
        return statistics.median(ratios)


def get(port: int, path: str, token: str | None = None) -> str:
    """Return a complete GET request."""
    authorization = f"Authorization: Bearer {token}\r\n" if token else ""
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: benchmark/1\r\n{authorization}\r\n"


def token_of(server: Server, client_id: str) -> str:
    """Log in and return a session token for an account."""
    base = f"http://127.0.0.1:{server.port}/download/v2/auth"
    # A new address each time, because logins are rate limited per address.
    address = {"X-Forwarded-For": f"172.16.{secrets.randbelow(256)}.{secrets.randbelow(256)}"}
    login = {"email": EMAILS[0], "password": PASSWORD}
    token = httpx.post(f"{base}/login", json=login, headers=address).json()["token"]
    response = httpx.put(f"{base}/context", json={"context": client_id}, headers={"Authorization": f"Bearer {token}"})
    found: str = response.json()["data"]["token"]
    return found


def link_path(server: Server, token: str, client_id: str, file: str) -> str:
    """Return the path of a new signed link."""
    url = f"http://127.0.0.1:{server.port}/download/v1/files/{client_id}/{file}"
    response = httpx.get(url, headers={"Authorization": f"Bearer {token}"})
    parts = urlsplit(response.headers["Location"])
    return f"{parts.path}?{parts.query}"


def small_file(server: Server, client_id: str) -> str:
    """Return a request for a file of 20 KB by link."""
    return get(server.port, link_path(server, token_of(server, client_id), client_id, "campaigns.csv.gz"))


def in_turns(ours: Server, mine: Plan, peer: Server, other: Plan, *, rounds: int, expected: int = 200) -> Comparison:
    """Run both plans alternately, `rounds` times, after a warm-up round of each. `expected` is the service's status."""
    found = Comparison([], [])
    for number in range(rounds + 1):
        results = run_client(ours, mine, expected=expected), run_client(peer, other, expected=200)
        if number:
            found.ours.append(results[0])
            found.peer.append(results[1])
    return found


def links(home: Home, *, rounds: int) -> Comparison:
    """Measure links issued to an API token by one worker, and responses of the bare framework."""
    with daybreak(home.folder) as ours, bare_framework(home.folder) as peer:
        mine = get(ours.port, f"/download/v1/files/{home.leaders[0]}/campaigns.csv.gz", home.api_token)
        plans = closed_loop(ours, (mine,), 16, 4.0), closed_loop(peer, (get(peer.port, "/"),), 16, 4.0)
        return in_turns(ours, plans[0], peer, plans[1], rounds=rounds, expected=302)


def small_files(home: Home, *, rounds: int) -> Comparison:
    """Measure downloads of files of 20 KB from one worker, and from nginx."""
    with daybreak(home.folder) as ours, nginx(home.folder, home.folder / "files") as peer:
        mine = [small_file(ours, each) for each in home.leaders[:100]]
        other = [get(peer.port, f"/{path.relative_to(home.folder / 'files')}") for path in home.small[:100]]
        plans = closed_loop(ours, mine, 16, 4.0), closed_loop(peer, other, 16, 4.0)
        return in_turns(ours, plans[0], peer, plans[1], rounds=rounds)


def by_link(home: Home, server: Server) -> str:
    """Return a request for the large file by link."""
    service, client_id = server.upstream or server, home.leaders[0]
    return get(server.port, link_path(service, token_of(service, client_id), client_id, "members.csv.gz"))


def by_s3(home: Home, server: Server) -> str:
    """Return a request for the large file by S3."""
    return signed(server.port, home.s3_key, f"/{home.leaders[0]}/latest/members.csv.gz")


def signed(port: int, key: AccessKey, target: str, method: str = "GET") -> str:
    """Return a complete request that is signed for S3, which is accepted for 15 minutes."""
    request = AWSRequest(method, f"http://127.0.0.1:{port}{target}", headers={"User-Agent": "benchmark/1"})
    S3SigV4Auth(Credentials(key.access_key_id, key.secret), "s3", "us-east-1").add_auth(request)
    headers = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
    return f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{headers}\r\n"


def large_file(
    home: Home, request: Callable[[Home, Server], str] = by_link, *, rounds: int
) -> tuple[Comparison, float, float]:
    """Measure repeated downloads of 200 MB on one connection, from the service and from nginx.

    Also return the seconds of the service's first and second transfer of the file.
    """
    with nginx(home.folder, home.folder / "files") as peer, daybreak(home.folder) as ours:
        return _large_file(home, ours, peer, request(home, ours), rounds)


def accelerated_file(home: Home, request: Callable[[Home, Server], str] = by_link, *, rounds: int) -> Comparison:
    """Measure the same downloads through nginx in front of the service, and nginx alone."""
    with accelerated(home.folder) as ours, nginx(home.folder, home.folder / "files") as peer:
        return _large_file(home, ours, peer, request(home, ours), rounds)[0]


def _large_file(home: Home, ours: Server, peer: Server, request: str, rounds: int) -> tuple[Comparison, float, float]:
    once = closed_loop(ours, (request,), 1, 0)
    first, later = (run_client(ours, once, expected=200).client.seconds for _ in range(2))
    mine = closed_loop(ours, (request,), 1, 2.0)
    other = closed_loop(peer, (get(peer.port, f"/{home.large.relative_to(home.folder / 'files')}"),), 1, 2.0)
    return in_turns(ours, mine, peer, other, rounds=rounds), first, later


def closed_loop(server: Server, requests: Sequence[str], connections: int, seconds: float) -> Plan:
    """Return the plan of connections that each send the next request after a response."""
    return Plan(server.port, tuple(requests), seconds, connections=connections, core=CLIENT_CORE, real_time=True)


@dataclass(frozen=True, slots=True)
class LoadedRounds:
    """Rounds of links at a fixed rate under other load, each with the logins at the same time, and the idle rounds."""

    idle: list[ClientResult]
    loaded: list[tuple[ClientResult, ClientResult]] = field(default_factory=list)

    @property
    def busy(self) -> list[ClientResult]:
        """The links of the rounds."""
        return [links for links, _ in self.loaded]

    def at(self, share: float) -> tuple[float, float]:
        """Return the median percentile of the busy rounds, and the median of their ratios to the idle rounds."""
        idle = [percentile(one.milliseconds, share) for one in self.idle]
        busy = [percentile(one.milliseconds, share) for one in self.busy]
        return statistics.median(busy), statistics.median(high / low for low, high in zip(idle, busy, strict=True))

    @property
    def served_logins(self) -> float:
        """Successful logins per second."""
        logins = [each for _, each in self.loaded]
        return sum(one.statuses.get(200, 0) for one in logins) / sum(one.seconds for one in logins)

    @property
    def client_delay(self) -> float:
        """Delay of the client, in milliseconds: 99 % of the requests were sent with at most this delay."""
        return statistics.median(percentile(one.delay_milliseconds, 0.99) for one in self.busy)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that `share` of all values do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def latency(home: Home, platform: Path, *, rounds: int, seconds: float) -> tuple[LoadedRounds, LoadedRounds]:
    """Measure links at a fixed rate with logins, and with logins while the builder builds a full snapshot.

    Raises TimeoutError if the builder does not start a run, RuntimeError if it finishes before the round.
    """
    idle: list[ClientResult] = []
    logins, build = LoadedRounds(idle), LoadedRounds(idle)
    for _ in range(rounds):
        with daybreak(home.folder, workers=2, core=None) as server:
            idle.append(run_client(server, _fixed_rate_links(server, home, seconds), expected=302).client)
            logins.loaded.append(_links_during_logins(server, home, seconds))
        publish_time = datetime.now(UTC) + timedelta(minutes=9)
        settings = {
            "source.location": str(platform),
            "snapshot.schedule": True,
            # Within the safety margin, so that the run starts immediately.
            "snapshot.publish_at": f"{publish_time:%H:%M}",
        }
        with daybreak(home.folder, workers=2, core=None, settings=settings) as server:
            before = wait_until(partial(_running_snapshot, home), 60, what="a snapshot run", every=0.2)
            build.loaded.append(_links_during_logins(server, home, seconds))
            if _running_snapshot(home) != before:
                raise RuntimeError("the snapshot was complete before the end of the round. Use a larger platform.")
    return logins, build


def _links_during_logins(server: Server, home: Home, seconds: float) -> tuple[ClientResult, ClientResult]:
    """Measure links at a fixed rate, and logins at the same time."""
    count = int(seconds * LOGINS_PER_SECOND)
    plan = Plan(
        server.port, _login_requests(server.port, count), seconds, connections=100, per_second=LOGINS_PER_SECOND
    )
    links = _fixed_rate_links(server, home, seconds)
    with client(plan) as logins:
        return run_client(server, links, expected=302).client, client_result(logins)


def _fixed_rate_links(server: Server, home: Home, seconds: float) -> Plan:
    """Return the plan for links of three accounts, after a warm-up."""
    requests = tuple(
        get(server.port, f"/download/v1/files/{each}/campaigns.csv.gz", token_of(server, each))
        for each in home.leaders[:3]
    )
    plan = Plan(server.port, requests, seconds, connections=32, per_second=LINKS_PER_SECOND, real_time=True)
    run_client(server, msgspec.structs.replace(plan, seconds=1.0), expected=302)
    return plan


def _running_snapshot(home: Home) -> str | None:
    """Return the id of the snapshot that is being built, None without a run."""
    state = open_state(f"sqlite:///{home.folder / 'state.db'}")
    try:
        newest = state.read(lambda stores: stores.snapshots.recent(1))[0]
    finally:
        state.close()
    return newest.snapshot_id if newest.state is SnapshotState.BUILDING else None


def _login_requests(port: int, count: int) -> tuple[str, ...]:
    """Return login requests. Each has another client address, because logins are rate limited per address."""
    found = []
    for number in range(count):
        body = msgspec.json.encode({"email": EMAILS[number % len(EMAILS)], "password": PASSWORD}).decode()
        address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        found.append(
            f"POST /download/v2/auth/login HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Forwarded-For: {address}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        )
    return tuple(found)


def start(home: Home, *, rounds: int) -> tuple[float, float]:
    """Return the median seconds of `daybreakd --help`, and of `daybreakd serve` with two workers until it is ready."""
    helps, readies = [], []
    for _ in range(rounds):
        began = time.perf_counter()
        subprocess.run([DAYBREAKD, "--help"], stdout=subprocess.DEVNULL, check=True)
        helps.append(time.perf_counter() - began)
        began = time.perf_counter()
        with daybreak(home.folder, workers=2, core=None):
            readies.append(time.perf_counter() - began)
    return statistics.median(helps), statistics.median(readies)
