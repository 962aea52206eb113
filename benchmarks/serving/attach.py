"""The job `attach`: requests to S3 and Iceberg with many accounts, packed files, and 200 MB by S3."""

import argparse
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb

from benchmarks.job import Job, Section, table
from benchmarks.measure import resident_bytes
from benchmarks.serving import figures
from benchmarks.serving.figures import Comparison, closed_loop, get, in_turns, link_path, percentile, signed
from benchmarks.serving.home import Home, make_home
from benchmarks.serving.job import rates_table
from benchmarks.serving.load import Plan
from benchmarks.serving.servers import (
    CLIENT_CORE,
    Server,
    client,
    client_result,
    daybreak,
    nginx,
    nginx_version,
    run_client,
)
from benchmarks.snapshot_run import make_service, snapshot_run
from benchmarks.source import AS_OF
from daybreak.access import api_tokens
from daybreak.credentials import keyring
from daybreak.credentials.s3_keys import AccessKey, static_key
from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import make_platform
from daybreak.domain.identity import Account, ApiToken, Grant, Seat
from daybreak.filestore.packs import DEFAULT_PACKING
from daybreak.state.database import open_state
from daybreak.state.stores import Stores

_VERSIONS = 3
_SAMPLED = 500
_PER_SECOND = 100.0
_TRANSFER_BYTES = 50_000_000
_OBJECT = "latest/campaigns.csv.gz"
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Attached:
    """An account with a token and an access key."""

    client_id: str
    api_token: str
    key: AccessKey


def _run(options: argparse.Namespace) -> Section:
    version = nginx_version()
    parts = [_many_accounts(options, _make_many(options.folder, options.leaders)), _rates(options.out, options.rounds)]
    return Section("\n\n".join(parts), packages=("granian", "starlette", "msgspec"), programs=(version,))


def _make_many(folder: Path, leaders: int) -> Path:
    """Return a service with that many accounts, small files in packs and three versions, which is kept between runs."""
    service, platform = folder / f"attach-{leaders}", folder / f"attach-{leaders}-platform"
    if not (service / ".ready").exists():
        print(f"Building {_VERSIONS} versions of {leaders:,} accounts in {service} ...", flush=True)
        make_platform(platform, PlatformSizes(leaders=leaders, members=10 * leaders, messages=5 * leaders), as_of=AS_OF)
        config = make_service(service)
        for day in range(_VERSIONS):
            snapshot_run(config, platform, AS_OF + day * _DAY, {"SNAPSHOT__FORMATS": "csv,json,parquet"})
        (service / ".ready").touch()
    return service


def add_tokens(service: Path, platform: Path) -> list[Attached]:
    """Add all accounts of the platform, and a token to some. The first one has the most Members."""
    rows = (
        duckdb.connect()
        .execute(
            f"SELECT leader_id::VARCHAR FROM '{platform}/leaders.parquet' LEFT JOIN "
            f"(SELECT leader_id, count(*) AS members FROM '{platform}/members.parquet' GROUP BY 1) "
            "USING (leader_id) ORDER BY members DESC NULLS LAST, leader_id"
        )
        .fetchall()
    )
    leaders = [leader for (leader,) in rows]
    seat, now, ring = str(uuid.uuid4()), datetime.now(UTC), keyring.load(service / "keyring.json")
    found: list[Attached] = []

    def work(stores: Stores) -> None:
        stores.directory.put_accounts(
            *(Account(each, "Account", each, "+12125550100", "toll_free", api_tokens_enabled=True) for each in leaders)
        )
        stores.directory.put_seats(Seat(seat, f"{seat}@example.org"))
        for client_id in leaders[:: max(1, len(leaders) // _SAMPLED)]:
            secret, token_id = api_tokens.generate(os.urandom), str(uuid.uuid4())
            stores.directory.put_grants(Grant(seat, client_id, ("owner",), data_export=True, async_rest_api=True))
            digest = api_tokens.digest(secret)
            stores.api_tokens.add(ApiToken(token_id, digest, seat, client_id, "benchmark", secret[-4:], now))
            found.append(Attached(client_id, secret, static_key(token_id, keyring=ring)))

    state = open_state(f"sqlite:///{service / 'state.db'}")
    try:
        state.write(work)
    finally:
        state.close()
    return found


def _requests(port: int, accounts: list[Attached]) -> Mapping[str, tuple[str, ...]]:
    table = "/iceberg/v1/{}/namespaces/daybreak/tables/members"
    return {
        "S3, list of one object": tuple(
            signed(port, each.key, f"/{each.client_id}?list-type=2&prefix={_OBJECT.replace('/', '%2F')}")
            for each in accounts
        ),
        "S3, head": tuple(signed(port, each.key, f"/{each.client_id}/{_OBJECT}", "HEAD") for each in accounts),
        "S3, get": tuple(signed(port, each.key, f"/{each.client_id}/{_OBJECT}") for each in accounts),
        "Iceberg, `loadTable`": tuple(get(port, table.format(each.client_id), each.api_token) for each in accounts),
    }


def _many_accounts(options: argparse.Namespace, service: Path) -> str:
    """Return the table of latencies, next to transfers."""
    accounts = add_tokens(service, Path(f"{service}-platform"))
    rows = []
    with daybreak(service) as server:
        memory = []
        transfers = _transfers(server, accounts[0], options.seconds)
        for name, requests in _requests(server.port, accounts).items():
            alone = run_client(server, closed_loop(server, requests, 16, options.seconds / 2), expected=200)
            plan = Plan(server.port, requests, options.seconds, 32, _PER_SECOND, core=CLIENT_CORE, real_time=True)
            with client(transfers) as background:
                times = run_client(server, plan, expected=200).client.milliseconds
                moved = client_result(background)
            cells = [f"{each:.1f}" for each in (percentile(times, 0.5), percentile(times, 0.99), max(times))]
            cells += [f"{moved.octets / moved.seconds / 1e6:.0f}", f"{alone.microseconds:,.0f}"]
            rows.append([name, *cells])
            memory.append((alone.client.responses + len(times), resident_bytes(server.pid) / 1e6))
    count = sum(responses for responses, _ in memory)
    headings = ("Request", "p50, ms", "p99, ms", "Largest, ms", "MB/s of transfers", "CPU, µs")
    return f"""{table(headings, rows)}

- {options.leaders:,} accounts with nine files in three formats and {_VERSIONS} versions, the small ones in packs.
- One worker with real-time priority on one core. Requests of {len(accounts):,} accounts in turn, {_PER_SECOND:.0f} per
  second at a fixed rate, next to downloads by link at a fixed rate. Times count from the scheduled time.
- The CPU time is that without downloads, with 16 connections.
- Memory of all processes after {memory[0][0]:,} requests: {memory[0][1]:,.0f} MB; after {count:,}:
  {memory[-1][1]:,.0f} MB."""


def _transfers(server: Server, account: Attached, seconds: float) -> Plan:
    """Return the plan of downloads that together transfer 50 MB a second."""
    path = link_path(server, account.api_token, account.client_id, "members.json.gz")
    size = run_client(server, closed_loop(server, (get(server.port, path),), 1, 0), expected=200).client.octets
    rate = _TRANSFER_BYTES / size
    return Plan(server.port, (get(server.port, path),), seconds + 1, 32, rate, core=CLIENT_CORE)


def _rates(folder: Path, rounds: int) -> str:
    """Return the table of 200 MB by S3 and of small files in packs."""
    leaders = [str(uuid.uuid4()) for _ in range(100)]
    home, packed = make_home(folder / "files", leaders), make_home(folder / "packed", leaders, DEFAULT_PACKING)
    in_bucket, redirect = _bucket_file(home, rounds)
    accelerated = figures.accelerated_file(home, figures.by_s3, rounds=rounds)
    rows = rates_table(
        ("S3, 200 MB", "nginx", figures.large_file(home, figures.by_s3, rounds=rounds)[0], 1),
        ("S3, 200 MB, `files.accelerate`", "nginx", accelerated, 1),
        ("S3, 200 MB in a bucket", "the bucket", in_bucket, 1),
        ("link, 20 KB in a pack", "20 KB in a file", _packed(packed, home, rounds), 0),
    )
    return f"""{rows}

- The columns are those of [Serving](#serving).
- The bucket is nginx with the same files, on the core of the service. S3 tools follow no redirects, so that the service
  reads the file from the bucket and sends it.
- A link is a redirect to the bucket, which takes {redirect:,.0f} µs of CPU. Then the bucket sends the file."""


def _bucket_file(home: Home, rounds: int) -> tuple[Comparison, float]:
    """Measure 200 MB by S3 from a bucket that nginx serves, and from the bucket. Also return the CPU time of a link."""
    os.environ |= {"AWS_ACCESS_KEY_ID": "benchmark", "AWS_SECRET_ACCESS_KEY": "benchmark"}
    with nginx(home.folder, home.folder) as bucket:
        endpoint = f"http://127.0.0.1:{bucket.port}"
        settings = {"files.url": "s3://files", "files.endpoint": endpoint, "files.path_style": True}
        # The bucket is read only, so that the service is not ready.
        with daybreak(home.folder, settings=settings, ready="/healthz") as ours:
            mine = closed_loop(ours, (figures.by_s3(home, ours),), 1, 2.0)
            other = closed_loop(bucket, (get(bucket.port, f"/{home.large.relative_to(home.folder)}"),), 1, 2.0)
            found = in_turns(ours, mine, bucket, other, rounds=rounds)
            links = closed_loop(ours, (figures.by_link(home, ours),), 16, 2.0)
            return found, run_client(ours, links, expected=302).microseconds


def _packed(packed: Home, home: Home, rounds: int) -> Comparison:
    """Measure files of 20 KB by link, in packs and not."""
    with daybreak(packed.folder) as ours, daybreak(home.folder) as peer:
        plans = [
            closed_loop(server, [figures.small_file(server, each) for each in one.leaders], 16, 4.0)
            for server, one in ((ours, packed), (peer, home))
        ]
        return in_turns(ours, plans[0], peer, plans[1], rounds=rounds)


JOB = Job(
    "attach",
    "S3 and Iceberg",
    "S3 and Iceberg with 100,000 accounts, packed files, 200 MB by S3",
    {"leaders": (100_000, "accounts"), "seconds": (10.0, "duration of each measurement of latency")},
    _run,
)
