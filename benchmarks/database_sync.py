"""`daybreak sync` of one large Leader into DuckDB and PostgreSQL: a delta, and the full files of the same day."""

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import duckdb

from benchmarks.job import Job, Section, Unavailable, table
from benchmarks.measure import ProcessUsage, run_program
from benchmarks.postgresql import SETTINGS
from benchmarks.snapshot_run import DAYBREAKD, make_service, snapshot_run
from benchmarks.source import AS_OF, Shape, changed_copy, make_shape
from tests.parts.ports import free_port
from tests.parts.postgresql import running_postgresql
from tests.parts.processes import running

_DAYBREAK = str(Path(sys.executable).with_name("daybreak"))
_SEAT = "owner@example.org"


def _run(options: argparse.Namespace) -> Section:
    folder = options.out
    shape = Shape(f"one-leader-{options.members}", f"{options.members:,} Members of one Leader", 1,
                  f"SELECT n, 0 AS leader FROM range({options.members}) AS t(n)")  # fmt: skip
    first = make_shape(options.folder, shape)
    changed_rows = f"hash(one) % 1000000 < {int(options.churn * 1e6)}"
    second = changed_copy(first, f"churn-{options.churn}", changed_rows, ["members"])
    config = make_service(folder / "service")
    account = _account_of(first)
    token = _add_account(config, account)
    snapshot_run(config, first, AS_OF)
    rows = []
    try:
        with running_postgresql(SETTINGS) as server, _served(config, first) as address:
            server.execute("CREATE DATABASE exports TEMPLATE template0")
            targets = {"DuckDB": f"duckdb:///{folder}/exports.duckdb", "PostgreSQL": server.url("exports")}
            environment = {**os.environ, "DAYBREAK_SERVICE": address, "DAYBREAK_TOKEN": token,
                           "DAYBREAK_ACCOUNT": account, "XDG_CACHE_HOME": str(folder / "cache")}  # fmt: skip
            for step, arguments in (("first load", ()), ("delta", ()), ("full load", ("--full",))):
                if step == "delta":
                    snapshot_run(config, second, AS_OF + timedelta(days=1))
                for name, target in targets.items():
                    servers = [server.program.pid] if name == "PostgreSQL" else []
                    command = [_DAYBREAK, "sync", target, "--json", *arguments]
                    usage = run_program(command, environment=environment, servers=servers)
                    rows.append([step, name, *_cells(usage)])
                    print(rows[-1], flush=True)
            for target in targets.values():
                run_program([_DAYBREAK, "sync", target, "--verify"], environment=environment)
            print("both databases equal the published files", flush=True)
    except LookupError as error:
        raise Unavailable("PostgreSQL is not installed (apt-get install postgresql)") from error
    body = (
        f"One Leader with {options.members:,} Members, of whom {100 * options.churn:.1f} % changed between two days. "
        "The first load creates the tables. Service, database and client share the machine; CPU seconds are those of "
        "the client and of PostgreSQL.\n\n"
    )
    headings = ("Step", "Database", "Seconds", "CPU seconds", "Downloaded MB", "Peak MB")
    return Section(body + table(headings, rows, 2), packages=("duckdb", "psycopg"))


def _cells(usage: ProcessUsage) -> list[str]:
    size = sum(each["size_bytes"] for each in json.loads(usage.output)["resources"])
    seconds = [f"{usage.wall_seconds:.1f}", f"{usage.cpu_seconds:.1f}"]
    return [*seconds, f"{size / 1e6:.1f}", f"{usage.peak_bytes / 1e6:.0f}"]


def _account_of(source: Path) -> str:
    query = f"SELECT CAST(leader_id AS VARCHAR) FROM '{source}/leaders.parquet'"
    with duckdb.connect() as connection:
        [(account,)] = connection.execute(query).fetchall()
    return str(account)


def _add_account(config: Path, account: str) -> str:
    """Create the account and a seat, and return an API token."""
    accounts = config.with_name("accounts.json")
    access = {"client_id": account, "roles": ["owner"], "data_export": True, "async_rest_api": True}
    accounts.write_text(
        json.dumps(
            {
                "accounts": [{"client_id": account, "first_name": "Large", "last_name": "", "api_tokens_enabled": True,
                              "phone_number": "+15550100000", "phone_number_type": "toll_free"}],
                "seats": [{"seat_id": account, "email": _SEAT, "access": [access]}],
            }
        )
    )  # fmt: skip
    run_program([DAYBREAKD, "directory", "import", str(accounts), "--config", str(config)])
    created = run_program(
        [DAYBREAKD, "token", "create", "--seat", _SEAT, "--account", account, "--config", str(config)]
    )
    (token,) = re.findall(r"service_api_\w{38}", created.output)
    return str(token)


@contextmanager
def _served(config: Path, source: Path) -> Iterator[str]:
    """Run the web workers of the service."""
    address = f"127.0.0.1:{free_port()}"
    environment = {"DAYBREAK_LISTEN": address, "DAYBREAK_BASE_URL": f"http://{address}", "DAYBREAK_LOG_FORMAT": "json",
                   "DAYBREAK_SOURCE__LOCATION": str(source), "DAYBREAK_WORKERS": "1"}  # fmt: skip
    command = [DAYBREAKD, "web", "--config", str(config)]
    with running(command, environment=environment) as program:
        program.wait_for_log('"ready"', 120)
        yield f"http://{address}"


JOB = Job(
    "sync",
    "Sync into a database",
    "delta and full load of one large Leader into DuckDB and PostgreSQL",
    {"members": (5_000_000, "Members"), "churn": (0.001, "share of the Members that change")},
    _run,
    rounds=1,
)
