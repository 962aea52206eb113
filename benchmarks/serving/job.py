"""The job `serving`: five figures, and the section they make."""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.job import Job, Section, Unavailable
from benchmarks.serving import figures
from benchmarks.serving.figures import Compared, Latency, Start
from benchmarks.serving.home import LARGE_BYTES, SMALL_BYTES, make_home
from benchmarks.serving.servers import NGINX, Driven
from benchmarks.source import make_source

_LEADERS = 100
_RATES_HEAD = (
    "| One worker, one core | Peer | Ours / s | Peer's / s | Ratio | CPU us, ours | Peer's | Times | Core in use "
    "| Client's |"
)
_PACKAGES = ("starlette", "uvicorn", "httptools", "msgspec", "structlog", "prometheus-client", "argon2-cffi")


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=20.0, help="of each round of the latency figure")


def _run(options: argparse.Namespace) -> Section:
    if not Path(NGINX).exists():
        raise Unavailable(f"{NGINX} is not there: it is in the Debian package nginx-light")
    platform = make_source(options.folder.absolute(), 1_000_000, 5_000, 3_000_000, "shuffled")
    folder = options.folder.absolute() / "serving"
    shutil.rmtree(folder, ignore_errors=True)
    home = make_home(folder, [str(uuid.uuid4()) for _ in range(_LEADERS)])
    try:
        parts = [
            _starts(figures.start(home, rounds=2 * options.rounds + 1)),
            _rates(
                figures.links(home, rounds=options.rounds),
                figures.small_files(home, rounds=options.rounds),
                *figures.large_file(home, rounds=options.rounds),
            ),
        ]
        print("\n\n".join(parts), flush=True)
        parts.append(_waits(figures.latency(home, platform, rounds=options.rounds, seconds=options.seconds)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Section("\n\n".join(parts), packages=_PACKAGES, programs=(_nginx_version(),))


def _rates(links: Compared, small: Compared, large: Compared, first: float, later: float) -> str:
    """Answers a second and CPU an answer, ours and the peer's, one worker process on one core."""
    lines = [_RATES_HEAD, "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for what, peer, compared in (
        ("signed links", "the framework's hello", links),
        (f"files of {SMALL_BYTES // 1000} KB by their links", "nginx", small),
        (f"one file of {LARGE_BYTES // 1_000_000} MB by its link", "nginx", large),
    ):
        digits = 1 if compared is large else 0
        lines.append(
            f"| {what} | {peer} | {_middle(compared.ours, _per_second):,.{digits}f} "
            f"| {_middle(compared.peer, _per_second):,.{digits}f} | **{compared.ratio(_per_second):.2f}** "
            f"| {_middle(compared.ours, _microseconds):,.0f} | {_middle(compared.peer, _microseconds):,.0f} "
            f"| {compared.ratio(_microseconds):.1f} "
            f"| {_middle(compared.ours, _busy):.0%}, {_middle(compared.peer, _busy):.0%} "
            f"| {_middle(compared.ours, _client_busy):.0%}, {_middle(compared.peer, _client_busy):.0%} |"
        )
    return (
        "\n".join(lines)
        + f"""

- Each server has one worker process, pinned to one core and first in line there; the client, plain
  sockets, has another core. "Core in use" says how much of its core the server used (ours, then the peer's), the last
  column how much the client used of its own: where the server's is full and the client's is not, the server was
  measured.
- Ours and the peer's take turns. "Ratio" and "times" are the middle ones of the rounds' own, so that what slows the
  machine for a minute slows both: they need not be those of the middle figures beside them.
- The framework's hello is Starlette with one route, run by the service's own worker program with the same settings.
  nginx serves the very same files from the same disk with `sendfile`, kept connections, an access log and
  `open_file_cache`; it asks nobody whether the reader may have them. The service asks its database on each request,
  verifies token or signature, counts, logs, and writes the audit trail.
- Before a worker serves a file for the first time it checks the file's digest: the first transfer of the
  {LARGE_BYTES // 1_000_000} MB took {first:.2f} s where the next took {later:.2f} s."""
    )


def _waits(latency: Latency) -> str:
    """Percentiles of the time a link takes."""
    lines = [
        "| A signed link, ms from when it was meant to leave | Idle | Logins | Times | Logins and a build | Times |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        idle = statistics.median(figures.percentile(one.milliseconds, share) for one in latency.idle)
        logins, build = latency.logins.at(share), latency.build.at(share)
        lines.append(f"| {name} | {idle:.2f} | {logins[0]:.2f} | {logins[1]:.1f} | {build[0]:.2f} | {build[1]:.1f} |")
    samples = min(len(one.milliseconds) for one in (*latency.idle, *latency.logins.busy, *latency.build.busy))
    late = max(latency.logins.late, latency.build.late)
    served, beside_build = latency.logins.served_logins, latency.build.served_logins
    return (
        "\n".join(lines)
        + f"""

- Two workers, no pinning; {figures.LINKS_PER_SECOND:.0f} links a second by the clock, {samples:,} in each of
  {len(latency.idle)} rounds of each kind, which take turns; the middle one of each.
- Logins: {figures.LOGINS_PER_SECOND:.0f} a second arrive, each from another address; a password's hash costs 20 to
  30 ms of a core. {served:.0f} a second were served, beside the builder {beside_build:.0f}; the others were answered
  `503 busy`.
- A build: the service's own builder makes a snapshot (5,000 Leaders, 1,000,000 Members, 3,000,000 messages, every file
  anew) from before the round until after it.
- In busy rounds 99 in 100 requests left this client at most {late:.1f} ms late; that is in the figures."""
    )


def _starts(start: Start) -> str:
    return (
        "| Start | Seconds |\n|---|--:|\n"
        f"| `daybreakd --help` | {start.help:.2f} |\n"
        f"| `daybreakd serve` until `/readyz` answers, two workers and the builder | {start.ready:.2f} |"
    )


def _middle(driven: Sequence[Driven], of: Callable[[Driven], float]) -> float:
    return statistics.median(of(one) for one in driven)


def _per_second(driven: Driven) -> float:
    return driven.per_second


def _microseconds(driven: Driven) -> float:
    return driven.microseconds


def _busy(driven: Driven) -> float:
    return driven.server_busy


def _client_busy(driven: Driven) -> float:
    return driven.seen.cpu_seconds / driven.seen.seconds


def _nginx_version() -> str:
    said = subprocess.run([NGINX, "-v"], stderr=subprocess.PIPE, text=True, check=True).stderr
    return said.strip().removeprefix("nginx version: ").replace("/", " ")


JOB = Job("serving", "Serving", "links and files a second, and how long a link takes", _add_options, _run)
