"""The figures: each compares the service with a peer that is measured beside it, in turns."""

from __future__ import annotations

import math
import secrets
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import msgspec

from benchmarks.serving.home import EMAILS, PASSWORD, Home
from benchmarks.serving.load import Plan, Seen
from benchmarks.serving.servers import (
    CLIENT_CORE,
    DAYBREAKD,
    Driven,
    Server,
    bare_framework,
    client,
    daybreak,
    drive,
    nginx,
    outcome,
)
from daybreak.domain.snapshot import SnapshotState
from daybreak.state.database import open_state

LINKS_PER_SECOND = 100.0
LOGINS_PER_SECOND = 50.0
_BUILDER_BEGINS_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Compared:
    """The service and its peer, a `Driven` a round."""

    ours: tuple[Driven, ...]
    peer: tuple[Driven, ...]

    def ratio(self, of: Callable[[Driven], float]) -> float:
        """The middle one of the rounds' ratios, ours over the peer's."""
        return statistics.median(of(mine) / of(other) for mine, other in zip(self.ours, self.peer, strict=True))


def get(port: int, path: str, token: str | None = None) -> str:
    """A whole request."""
    authorization = f"Authorization: Bearer {token}\r\n" if token else ""
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: benchmark/1\r\n{authorization}\r\n"


def token_of(server: Server, home: Home, client_id: str) -> str:
    """A session token on an account."""
    base = f"http://127.0.0.1:{server.port}/download/v2/auth"
    # From an address that nobody has logged in from: no throttle counts it.
    address = {"X-Forwarded-For": f"172.16.{secrets.randbelow(256)}.{secrets.randbelow(256)}"}
    login = {"email": home.email, "password": PASSWORD}
    token = httpx.post(f"{base}/login", json=login, headers=address).json()["token"]
    answer = httpx.put(f"{base}/context", json={"context": client_id}, headers={"Authorization": f"Bearer {token}"})
    found: str = answer.json()["data"]["token"]
    return found


def link_path(server: Server, home: Home, client_id: str, file: str) -> str:
    """The path of a new signed link."""
    url = f"http://127.0.0.1:{server.port}/download/v1/files/{client_id}/{file}"
    answer = httpx.get(url, headers={"Authorization": f"Bearer {token_of(server, home, client_id)}"})
    parts = urlsplit(answer.headers["Location"])
    return f"{parts.path}?{parts.query}"


def in_turns(
    ours: Server, mine: Plan, peer: Server, other: Plan, *, rounds: int, statuses: tuple[int, int]
) -> Compared:
    """Each server for its plan, one after the other, `rounds` times, after a round of each that does not count."""
    results: tuple[list[Driven], list[Driven]] = ([], [])
    for number in range(rounds + 1):
        for into, server, plan, expected in (
            (results[0], ours, mine, statuses[0]),
            (results[1], peer, other, statuses[1]),
        ):
            driven = drive(server, plan, expected=expected)
            if number:
                into.append(driven)
    return Compared(tuple(results[0]), tuple(results[1]))


def links(home: Home, *, rounds: int = 3, seconds: float = 4.0) -> Compared:
    """Signed links a second, one worker, beside the framework's hello."""
    with daybreak(home) as ours, bare_framework(home.folder) as peer:
        client_id = home.leaders[0]
        token = token_of(ours, home, client_id)
        mine = get(ours.port, f"/download/v1/files/{client_id}/campaigns.csv.gz", token)
        return in_turns(
            ours, _closed(ours, (mine,), 16, seconds),
            peer, _closed(peer, (get(peer.port, "/"),), 16, seconds),
            rounds=rounds, statuses=(302, 200),
        )  # fmt: skip


def small_files(home: Home, *, rounds: int = 3, seconds: float = 4.0) -> Compared:
    """Files of 20 KB a second by signed link, one worker, beside nginx."""
    with daybreak(home) as ours, nginx(home.folder, home.folder / "files") as peer:
        mine = [get(ours.port, link_path(ours, home, each, "campaigns.csv.gz")) for each in home.leaders[:100]]
        other = [get(peer.port, f"/{path.relative_to(home.folder / 'files')}") for path in home.small[:100]]
        return in_turns(
            ours, _closed(ours, mine, 16, seconds),
            peer, _closed(peer, other, 16, seconds),
            rounds=rounds, statuses=(200, 200),
        )  # fmt: skip


def large_file(home: Home, *, rounds: int = 5, seconds: float = 2.0) -> tuple[Compared, float, float]:
    """One connection that takes 200 MB again and again, beside nginx; and the seconds of the service's very first
    transfer of it and of a later one."""
    with daybreak(home) as ours, nginx(home.folder, home.folder / "files") as peer:
        path = link_path(ours, home, home.leaders[0], "members.csv.gz")
        mine = _closed(ours, (get(ours.port, path),), 1, 0)
        other = _closed(peer, (get(peer.port, f"/{home.large.relative_to(home.folder / 'files')}"),), 1, 0)
        first = drive(ours, mine, expected=200).seen.seconds
        later = drive(ours, mine, expected=200).seen.seconds
        mine, other = (_lasting(plan, seconds) for plan in (mine, other))
        return in_turns(ours, mine, peer, other, rounds=rounds, statuses=(200, 200)), first, later


def _closed(server: Server, requests: Sequence[str], connections: int, seconds: float) -> Plan:
    return Plan(server.port, tuple(requests), seconds, connections=connections, core=CLIENT_CORE, first=True)


def _lasting(plan: Plan, seconds: float) -> Plan:
    return Plan(plan.port, plan.requests, seconds, connections=plan.connections, core=plan.core, first=plan.first)


@dataclass(frozen=True, slots=True)
class Busy:
    """Rounds of links by the clock while something else is done, each after an idle one, and their logins."""

    idle: tuple[Seen, ...]
    busy: tuple[Seen, ...]
    logins: tuple[Seen, ...]

    def at(self, share: float) -> tuple[float, float]:
        """A percentile: the middle one of the busy rounds, and of their ratios to the idle ones."""
        idle = [percentile(one.milliseconds, share) for one in self.idle]
        busy = [percentile(one.milliseconds, share) for one in self.busy]
        return statistics.median(busy), statistics.median(high / low for low, high in zip(idle, busy, strict=True))

    @property
    def served_logins(self) -> float:
        """Logins answered with a session, a second."""
        return sum(one.statuses.get(200, 0) for one in self.logins) / sum(one.seconds for one in self.logins)

    @property
    def late(self) -> float:
        """Milliseconds by which 99 in 100 requests left at most too late: the client's own part."""
        return statistics.median(percentile(one.late_milliseconds, 0.99) for one in self.busy)


@dataclass(frozen=True, slots=True)
class Latency:
    """Idle rounds, and those that follow them: while logins arrive, and while they do and a snapshot is made."""

    idle: tuple[Seen, ...]
    logins: Busy
    build: Busy


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of all do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def latency(home: Home, platform: Path, *, rounds: int = 3, seconds: float = 20.0) -> Latency:
    """Links at a steady pace, in turns while the service has nothing else to do, while logins arrive, and while its
    builder makes a snapshot of the platform as well, every file anew. Raises RuntimeError when the builder was done too
    early."""
    idle: list[Seen] = []
    logins: list[tuple[Seen, Seen]] = []
    build: list[tuple[Seen, Seen]] = []
    for _ in range(rounds):
        with daybreak(home, workers=2, core=None) as server:
            idle.append(drive(server, _links_by_the_clock(server, home, seconds), expected=302).seen)
            logins.append(_beside_logins(server, home, seconds))
        soon = datetime.now(UTC) + timedelta(minutes=9)
        settings = {
            "source.location": str(platform),
            "snapshot.schedule": True,
            # Within the margin: a service that starts now makes this day's snapshot at once.
            "snapshot.publish_at": f"{soon:%H:%M}",
        }
        with daybreak(home, workers=2, core=None, settings=settings) as server:
            before = _build_begun(home)
            build.append(_beside_logins(server, home, seconds))
            if _build(home) != before:
                raise RuntimeError("the snapshot was done before the round was: take a larger platform")
    rounds_of_idle = tuple(idle)
    return Latency(
        rounds_of_idle,
        *(
            Busy(rounds_of_idle, tuple(links for links, _ in seen), tuple(logged_in for _, logged_in in seen))
            for seen in (logins, build)
        ),
    )


def _beside_logins(server: Server, home: Home, seconds: float) -> tuple[Seen, Seen]:
    """Links by the clock, and the logins that arrive meanwhile."""
    count = int(seconds * LOGINS_PER_SECOND)
    plan = Plan(
        server.port, _login_requests(server.port, count), seconds, connections=100, per_second=LOGINS_PER_SECOND
    )
    links = _links_by_the_clock(server, home, seconds)
    with client(plan) as logins:
        return drive(server, links, expected=302).seen, outcome(logins)


def _links_by_the_clock(server: Server, home: Home, seconds: float) -> Plan:
    """Links of a few accounts, after some that are not counted."""
    requests = tuple(
        get(server.port, f"/download/v1/files/{each}/campaigns.csv.gz", token_of(server, home, each))
        for each in home.leaders[:3]
    )
    plan = Plan(server.port, requests, seconds, connections=32, per_second=LINKS_PER_SECOND, first=True)
    drive(server, msgspec.structs.replace(plan, seconds=1.0), expected=302)
    return plan


def _build_begun(home: Home) -> str:
    """The snapshot that is being made, once it is. Raises RuntimeError after a minute without."""
    until = time.monotonic() + _BUILDER_BEGINS_SECONDS
    while time.monotonic() < until:
        found = _build(home)
        if found is not None:
            return found
        time.sleep(0.2)
    raise RuntimeError(f"no snapshot is being made: see {home.folder / 'daybreak.log'}")


def _build(home: Home) -> str | None:
    """The snapshot that is being made."""
    state = open_state(f"sqlite:///{home.folder / 'state.db'}")
    try:
        newest = state.read(lambda stores: stores.snapshots.recent(1))[0]
    finally:
        state.close()
    return newest.snapshot_id if newest.state is SnapshotState.BUILDING else None


def _login_requests(port: int, count: int) -> tuple[str, ...]:
    """Logins from as many addresses as there are requests, so that no throttle refuses them."""
    found = []
    for number in range(count):
        body = msgspec.json.encode({"email": EMAILS[number % len(EMAILS)], "password": PASSWORD}).decode()
        address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        found.append(
            f"POST /download/v2/auth/login HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Forwarded-For: {address}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds, the middle one of the rounds."""

    help: float
    ready: float


def start(home: Home, *, rounds: int = 7) -> Start:
    """`daybreakd --help`; and `daybreakd serve`, two workers and the builder, until /readyz answers well."""
    helps, readies = [], []
    for _ in range(rounds):
        began = time.perf_counter()
        subprocess.run([*DAYBREAKD, "--help"], stdout=subprocess.DEVNULL, check=True)
        helps.append(time.perf_counter() - began)
        began = time.perf_counter()
        with daybreak(home, workers=2, core=None):
            readies.append(time.perf_counter() - began)
    return Start(statistics.median(helps), statistics.median(readies))
