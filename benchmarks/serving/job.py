"""The job `serving`: runs the measurements and formats their section of the page."""

import argparse
import shutil
import statistics
import subprocess
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.job import Job, Section, Unavailable
from benchmarks.serving import figures
from benchmarks.serving.figures import Comparison, Latency, Start
from benchmarks.serving.home import LARGE_BYTES, SMALL_BYTES, make_home
from benchmarks.serving.servers import NGINX, RoundResult
from benchmarks.source import make_source

_LEADERS = 100
RATES_HEAD = (
    "| One worker, one core | Compared with | Per second | Other | **Ratio** | CPU, µs | Other | Ratio | Core used "
    "| Client's core |"
)
_PACKAGES = ("starlette", "granian", "msgspec", "structlog", "prometheus-client", "argon2-cffi")


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=20.0, help="duration of each round of the latency figure")


def _run(options: argparse.Namespace) -> Section:
    if not Path(NGINX).exists():
        raise Unavailable(f"{NGINX} is missing. Install the Debian package nginx-light")
    platform = make_source(options.folder.absolute(), 1_000_000, 5_000, 3_000_000, "shuffled")
    folder = options.folder.absolute() / "serving"
    shutil.rmtree(folder, ignore_errors=True)
    home = make_home(folder, [str(uuid.uuid4()) for _ in range(_LEADERS)])
    try:
        parts = [
            _start_table(figures.start(home, rounds=2 * options.rounds + 1)),
            _rate_table(
                figures.links(home, rounds=options.rounds),
                figures.small_files(home, rounds=options.rounds),
                *figures.large_file(home, rounds=options.rounds),
                figures.accelerated_file(home, rounds=options.rounds),
            ),
        ]
        print("\n\n".join(parts), flush=True)
        parts.append(_latency_table(figures.latency(home, platform, rounds=options.rounds, seconds=options.seconds)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Section("\n\n".join(parts), packages=_PACKAGES, programs=(nginx_version(),))


def _rate_table(
    links: Comparison, small: Comparison, large: Comparison, first: float, later: float, accelerated: Comparison
) -> str:
    """Return the table of responses per second and CPU time per response."""
    lines = [RATES_HEAD, "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for label, peer, comparison in (
        ("links issued to an API token", "hello of the framework", links),
        (f"links opened, files of {SMALL_BYTES // 1000} KB", "nginx", small),
        (f"link opened, {LARGE_BYTES // 1_000_000} MB", "nginx", large),
        (f"link opened, {LARGE_BYTES // 1_000_000} MB, `files.accelerate`", "nginx", accelerated),
    ):
        lines.append(rate_line(label, peer, comparison, 1 if comparison in (large, accelerated) else 0))
    pair = _median(links.ours, _microseconds) + _median(small.ours, _microseconds)
    return (
        "\n".join(lines)
        + f"""

- Each server has one worker process with real-time priority on one core; the load generator has another core. "Core
  used" is the share of its core that the server used (Daybreak, the other). "Client's core" is that of the load
  generator. Where the first is near 100 % and the second is not, the server is the limit.
- The two servers take turns. Ratios are medians of the ratios of the rounds, so that changes of the machine's speed
  cancel out.
- A link that is issued and opened takes {pair:,.0f} µs of CPU: {1e6 / pair:,.0f} per second and core.
- "hello" is Starlette with one route, on the same HTTP server with the same settings. nginx serves the same files with
  `sendfile`, persistent connections, an access log and `open_file_cache`, to every client. Daybreak queries its
  database for each request, verifies the token or the signature, counts, logs, and writes the audit trail.
- With `files.accelerate`, nginx is in front of Daybreak and both use one core.
- A worker checks the digest of a file before it serves it for the first time: the first transfer of the
  {LARGE_BYTES // 1_000_000} MB took {first:.2f} s, the second {later:.2f} s."""
    )


def rate_line(label: str, peer: str, comparison: Comparison, digits: int) -> str:
    """Return the line of a comparison, with rates of that many digits."""
    return (
        f"| {label} | {peer} | {_median(comparison.ours, _per_second):,.{digits}f} "
        f"| {_median(comparison.peer, _per_second):,.{digits}f} | **{comparison.ratio(_per_second):.2f}** "
        f"| {_median(comparison.ours, _microseconds):,.0f} | {_median(comparison.peer, _microseconds):,.0f} "
        f"| {comparison.ratio(_microseconds):.1f} "
        f"| {_median(comparison.ours, _busy):.0%}, {_median(comparison.peer, _busy):.0%} "
        f"| {_median(comparison.ours, _client_busy):.0%}, {_median(comparison.peer, _client_busy):.0%} |"
    )


def _latency_table(latency: Latency) -> str:
    """Return the table of the time to issue a link."""
    lines = [
        "| Time to issue a link, ms | Idle | Logins | Ratio | Logins and a run | Ratio |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        idle = statistics.median(figures.percentile(one.milliseconds, share) for one in latency.idle)
        logins, build = latency.logins.at(share), latency.build.at(share)
        lines.append(f"| {name} | {idle:.2f} | {logins[0]:.2f} | {logins[1]:.1f} | {build[0]:.2f} | {build[1]:.1f} |")
    samples = min(len(one.milliseconds) for one in (*latency.idle, *latency.logins.busy, *latency.build.busy))
    delay = max(latency.logins.client_delay, latency.build.client_delay)
    served, served_during_run = latency.logins.served_logins, latency.build.served_logins
    return (
        "\n".join(lines)
        + f"""

- Two workers on all cores. {figures.LINKS_PER_SECOND:.0f} links per second at a fixed rate, {samples:,} in each of
  {len(latency.idle)} rounds of each kind, which take turns; medians of the rounds. Times count from the scheduled time.
- Logins: {figures.LOGINS_PER_SECOND:.0f} per second, each from another address. {served:.0f} per second succeeded,
  {served_during_run:.0f} during a run; the others received `503 busy`.
- A run: the builder builds a full snapshot (5,000 Leaders, 1,000,000 Members, 3,000,000 messages) throughout the round.
- The load generator sent 99 % of the requests with a delay of at most {delay:.1f} ms, which is part of the times."""
    )


def _start_table(start: Start) -> str:
    return (
        "| Start | Seconds |\n|---|--:|\n"
        f"| `daybreakd --help` | {start.help:.2f} |\n"
        f"| `daybreakd serve` with two workers, until `/readyz` answers | {start.ready:.2f} |"
    )


def _median(results: Sequence[RoundResult], of: Callable[[RoundResult], float]) -> float:
    return statistics.median(of(one) for one in results)


def _per_second(result: RoundResult) -> float:
    return result.per_second


def _microseconds(result: RoundResult) -> float:
    return result.microseconds


def _busy(result: RoundResult) -> float:
    return result.server_busy


def _client_busy(result: RoundResult) -> float:
    return result.client.cpu_seconds / result.client.seconds


def nginx_version() -> str:
    """Return the installed version, such as `nginx 1.22.1`."""
    output = subprocess.run([NGINX, "-v"], stderr=subprocess.PIPE, text=True, check=True).stderr
    return output.strip().removeprefix("nginx version: ").replace("/", " ")


JOB = Job("serving", "Serving", "links and files a second, and how long a link takes", _add_options, _run)
