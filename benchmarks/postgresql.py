r"""The members job with PostgreSQL as the source, beside psql's `\copy` of each Leader into a compressor.

Both sides read the same table of the same server on this machine. `\copy` gets an index on the Leader, two sessions
with an even share of the rows, a script for each so that psql starts twice in all, and rows in any order.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

import psycopg

from benchmarks.comparison import picture, table
from benchmarks.job import Job, Section, Unavailable
from benchmarks.measure import Measured, measure, measured, run
from benchmarks.source import AS_OF, make_source
from benchmarks.verify import check, content_of_source
from daybreak.catalogue.models import load_models
from daybreak.sources.dialects import in_dialect
from tests.parts.postgresql import PostgreSQLServer, running_postgresql
from tests.parts.postgresql_tables import fill_tables

_OURS = "daybreak-postgresql"
WAYS = {
    _OURS: "Daybreak (igzip 2)",
    "pigz-6": r"\copy into pigz -6",
    "pigz-1": r"\copy into pigz -1",
}
_COMPRESSORS = {"pigz-6": "pigz -6 -p 1", "pigz-1": "pigz -1 -p 1"}
"""One thread each: more would cost a twentieth more, as two sessions keep both cores busy."""
_SETTINGS = {
    "shared_buffers": "512MB",
    "work_mem": "64MB",
    "maintenance_work_mem": "256MB",
    "effective_cache_size": "4GB",
    "max_wal_size": "4GB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "fsync": "off",
    "autovacuum": "off",
    "dynamic_shared_memory_type": "mmap",
    "timezone": "UTC",
}
_SESSIONS = 2


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=1_000_000, help="Members")
    parser.add_argument("--leaders", type=int, default=5_000)
    parser.add_argument("--ways", default=",".join(WAYS), help="some of: " + ", ".join(WAYS))


def _run(options: argparse.Namespace) -> Section:
    if shutil.which("pigz") is None:
        raise Unavailable("pigz is not installed (apt-get install pigz)")
    source = make_source(options.folder, options.rows, options.leaders, 1_000_000, "shuffled")
    try:
        with running_postgresql(_SETTINGS) as server:
            fill_tables(server.url(), source)
            server.execute("CREATE INDEX ON members (leader_id)", "VACUUM ANALYZE")
            found = _rounds(options, server, source)
            with psycopg.connect(server.url()) as connection:
                version = connection.info.parameter_status("server_version")
    except LookupError as error:
        raise Unavailable("PostgreSQL is not installed (apt-get install postgresql)") from error
    body = (
        f"{options.rows:,} Members of {options.leaders:,} Leaders in a table of PostgreSQL on the same machine; "
        f"a CSV and a JSON file, gzipped, of every Leader.\n\n{table(found, WAYS, _OURS)}\n\n"
        f"![Seconds by way](images/benchmarks-postgresql.svg)\n{_NOTES}"
    )
    pictures = {"benchmarks-postgresql": picture("Members from PostgreSQL: seconds on the wall", found, WAYS, _OURS)}
    return Section(body, pictures, ("duckdb", "adbc-driver-postgresql", "isal"), (f"PostgreSQL {version}",))


def _rounds(options: argparse.Namespace, server: PostgreSQLServer, source: Path) -> dict[str, list[Measured]]:
    """What each way used, round by round; the first round's rows are compared with the source."""
    ways = options.ways.split(",")
    found: dict[str, list[Measured]] = {way: [] for way in ways}
    expected = content_of_source(source)
    outs = options.folder.absolute() / "out"
    shutil.rmtree(outs, ignore_errors=True)
    for number in range(options.rounds):
        for way in ways:
            # Nothing is removed before the end: for minutes after, ext4 takes longer to make files.
            out = outs / f"{way}-{number}"
            out.mkdir(parents=True)
            found[way].append(_measure(way, server, out, options.folder.absolute()))
            if number == 0:
                check(out, expected)
            print(f"round {number + 1}, {WAYS[way]}: {found[way][-1].wall_seconds:.1f} s", flush=True)
    shutil.rmtree(outs, ignore_errors=True)
    return found


def _measure(way: str, server: PostgreSQLServer, out: Path, folder: Path) -> Measured:
    servers = [server.program.pid]
    if way == _OURS:
        address = folder / "server-address"
        address.write_text(server.url(), "utf-8")
        return measure(way, address, out, servers=servers)
    return measured(run(_copies(way, server, out, folder), servers=servers), out, {})


def _copies(way: str, server: PostgreSQLServer, out: Path, folder: Path) -> Sequence[str]:
    own = server.binaries / "psql"
    psql = str(own) if own.exists() else "psql"
    sessions = []
    for number, leaders in enumerate(_even_shares(server)):
        script = folder / f"copy-{number}.sql"
        script.write_text(_script(leaders, out, _COMPRESSORS[way]), "utf-8")
        sessions.append(f"'{psql}' -X -q -v ON_ERROR_STOP=1 -d '{server.url()}' -f '{script}' & pids+=($!)")
    return ["bash", "-c", "\n".join([*sessions, 'for pid in "${pids[@]}"; do wait "$pid" || exit 1; done'])]


def _even_shares(server: PostgreSQLServer) -> list[list[str]]:
    """Leaders for each session, the largest first, so that both have as many rows."""
    with psycopg.connect(server.url()) as connection:
        counted = connection.execute(
            "SELECT leader_id::text, count(*) FROM members GROUP BY leader_id ORDER BY count(*) DESC"
        ).fetchall()
    shares: list[list[str]] = [[] for _ in range(_SESSIONS)]
    rows = [0] * _SESSIONS
    for leader, count in counted:
        least = rows.index(min(rows))
        shares[least].append(leader)
        rows[least] += count
    return shares


def _script(leaders: Sequence[str], out: Path, compressor: str) -> str:
    """All of a session's files, one command a line, as psql wants it, in one transaction."""
    model = " ".join(in_dialect(load_models()["members"].at(AS_OF), "postgres").split())
    # PostgreSQL's text format would double backslashes; these characters stand in no text.
    as_it_is = r"(FORMAT csv, QUOTE e'\x01', DELIMITER e'\x02')"
    lines = ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"]
    for leader in leaders:
        rows = f"SELECT * FROM ({model}) AS model WHERE \"LEADER_ID\" = '{leader}'"
        into = f"TO PROGRAM 'exec {compressor} > {out}/{leader}"
        lines += [
            f"\\copy ({rows}) {into}.csv.gz' (FORMAT csv, HEADER)",
            f"\\copy (SELECT row_to_json(row) FROM ({rows}) AS row) {into}.json.gz' {as_it_is}",
        ]
    return "\n".join([*lines, "COMMIT;", ""])


_NOTES = """
- CPU counts the server's processes too; memory is that of the programs alone. The server has an index on the Leader,
  was analysed, and holds the table in its memory.
- `\\copy` runs in two psql sessions with an even share of the rows, each fed by one script: a Leader costs two
  statements and two compressors. Its rows come in any order and its JSON has one record a line; Daybreak's are in
  order and stand in an array. Every cell was read back and compared with the source.
- Daybreak's seconds include start-up, fingerprints and checks of the rows, SHA-256 of file and content, and one sync
  of everything at the end. `\\copy` neither sums nor syncs.
"""

JOB = Job(
    "postgresql",
    "From PostgreSQL",
    r"the Members of every Leader from PostgreSQL, beside \copy into pigz",
    _add_options,
    _run,
)
