"""The job `serving`: runs the measurements and formats their section of the page."""

import argparse
import statistics
import uuid

from benchmarks.job import Job, Section, table
from benchmarks.serving import figures
from benchmarks.serving.figures import Comparison, LoadedRounds
from benchmarks.serving.home import LARGE_BYTES, SMALL_BYTES, make_home
from benchmarks.serving.servers import nginx_version
from benchmarks.source import make_source

_LEADERS = 100
_PACKAGES = ("starlette", "granian", "msgspec", "structlog", "prometheus-client", "argon2-cffi")


def _run(options: argparse.Namespace) -> Section:
    version = nginx_version()
    platform = make_source(options.folder, 1_000_000, 5_000, 3_000_000, "shuffled")
    home = make_home(options.out, [str(uuid.uuid4()) for _ in range(_LEADERS)])
    parts = [
        _start_table(*figures.start(home, rounds=2 * options.rounds + 1)),
        _rate_table(
            figures.links(home, rounds=options.rounds),
            figures.small_files(home, rounds=options.rounds),
            *figures.large_file(home, rounds=options.rounds),
            figures.accelerated_file(home, rounds=options.rounds),
        ),
    ]
    print("\n\n".join(parts), flush=True)
    parts.append(_latency_table(*figures.latency(home, platform, rounds=options.rounds, seconds=options.seconds)))
    return Section("\n\n".join(parts), packages=_PACKAGES, programs=(version,))


def _rate_table(
    links: Comparison, small: Comparison, large: Comparison, first: float, later: float, accelerated: Comparison
) -> str:
    """Return the table of responses per second and CPU time per response."""
    rows = rates_table(
        ("links issued to an API token", "hello of the framework", links, 0),
        (f"links opened, files of {SMALL_BYTES // 1000} KB", "nginx", small, 0),
        (f"link opened, {LARGE_BYTES // 1_000_000} MB", "nginx", large, 1),
        (f"link opened, {LARGE_BYTES // 1_000_000} MB, `files.accelerate`", "nginx", accelerated, 1),
    )
    pair = sum(statistics.median(one.microseconds for one in each.ours) for each in (links, small))
    return f"""{rows}

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


def rates_table(*rows: tuple[str, str, Comparison, int]) -> str:
    """Return the table of comparisons, each with its name, the other server, and the digits of its rates."""
    headings = ["One worker, one core", "Compared with", "Per second", "Other", "**Ratio**", "CPU, µs", "Other"]
    return table([*headings, "Ratio", "Core used", "Client's core"], (_rates(*each) for each in rows), 2)


def _rates(label: str, peer: str, comparison: Comparison, digits: int) -> list[str]:
    def medians(figure: str, form: str) -> list[str]:
        servers = comparison.ours, comparison.peer
        return [format(statistics.median(getattr(one, figure) for one in each), form) for each in servers]

    return [
        label,
        peer,
        *medians("per_second", f",.{digits}f"),
        f"**{comparison.ratio('per_second'):.2f}**",
        *medians("microseconds", ",.0f"),
        f"{comparison.ratio('microseconds'):.1f}",
        ", ".join(medians("server_busy", ".0%")),
        ", ".join(medians("client_busy", ".0%")),
    ]


def _latency_table(logins: LoadedRounds, build: LoadedRounds) -> str:
    """Return the table of the time to issue a link."""
    rows = []
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        idle = statistics.median(figures.percentile(one.milliseconds, share) for one in logins.idle)
        with_logins, with_run = logins.at(share), build.at(share)
        cells = f"{with_logins[0]:.2f}", f"{with_logins[1]:.1f}", f"{with_run[0]:.2f}", f"{with_run[1]:.1f}"
        rows.append((name, f"{idle:.2f}", *cells))
    headings = ("Time to issue a link, ms", "Idle", "Logins", "Ratio", "Logins and a run", "Ratio")
    samples = min(len(one.milliseconds) for one in (*logins.idle, *logins.busy, *build.busy))
    delay = max(logins.client_delay, build.client_delay)
    return f"""{table(headings, rows)}

- Two workers on all cores. {figures.LINKS_PER_SECOND:.0f} links per second at a fixed rate, {samples:,} in each of
  {len(logins.idle)} rounds of each kind, which take turns; medians of the rounds. Times count from the scheduled time.
- Logins: {figures.LOGINS_PER_SECOND:.0f} per second, each from another address. {logins.served_logins:.0f} per second
  succeeded, {build.served_logins:.0f} during a run; the others received `503 busy`.
- A run: the builder builds a full snapshot (5,000 Leaders, 1,000,000 Members, 3,000,000 messages) throughout the round.
- The load generator sent 99 % of the requests with a delay of at most {delay:.1f} ms, which is part of the times."""


def _start_table(help_seconds: float, ready_seconds: float) -> str:
    serve = "`daybreakd serve` with two workers, until `/readyz` answers"
    rows = ("`daybreakd --help`", f"{help_seconds:.2f}"), (serve, f"{ready_seconds:.2f}")
    return table(("Start", "Seconds"), rows)


JOB = Job(
    "serving",
    "Serving",
    "links and files a second, and how long a link takes",
    {"seconds": (20.0, "duration of each round of the latency figure")},
    _run,
)
