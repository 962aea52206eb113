"""The job `telemetry`: CPU time of links with and without OpenTelemetry."""

import argparse
import statistics
import uuid
from collections.abc import Mapping
from contextlib import ExitStack

from benchmarks.job import Job, Section, table
from benchmarks.serving.figures import closed_loop, get
from benchmarks.serving.home import make_home
from benchmarks.serving.servers import daybreak, run_client
from tests.parts.webhook_receiver import Receiver

_OFF = "off"


def _run(options: argparse.Namespace) -> Section:
    with Receiver().running() as collector, ExitStack() as stack:
        home, url = make_home(options.out, [str(uuid.uuid4())]), collector.url("")
        shares: Mapping[str, Mapping[str, object]] = {
            _OFF: {},
            "one request in ten": {"telemetry.url": url, "telemetry.request_share": 0.1},
            "all requests": {"telemetry.url": url, "telemetry.request_share": 1.0},
        }
        servers = {name: stack.enter_context(daybreak(options.out, settings=each)) for name, each in shares.items()}
        found: dict[str, list[float]] = {name: [] for name in servers}
        for number in range(options.rounds + 1):
            for name, server in servers.items():
                path = f"/download/v1/files/{home.leaders[0]}/campaigns.csv.gz"
                plan = closed_loop(server, (get(server.port, path, home.api_token),), 16, options.seconds)
                result = run_client(server, plan, expected=302)
                if number:
                    found[name].append(result.microseconds)
    rows = []
    for name, each in found.items():
        ratio = statistics.median(one / off for one, off in zip(each, found[_OFF], strict=True))
        rows.append((name, f"{statistics.median(each):,.0f}", f"{ratio:.2f}"))
    body = f"""{table(("Traced", "CPU of a link, µs", "Ratio"), rows)}

One worker, 16 connections. The servers take turns after a warm-up round; medians of the rounds."""
    return Section(body, packages=("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"))


JOB = Job(
    "telemetry",
    "OpenTelemetry",
    "CPU time of links with and without OpenTelemetry",
    {"seconds": (2.0, "duration of each round")},
    _run,
)
