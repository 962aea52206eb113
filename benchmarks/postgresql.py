r"""Export of the Members from PostgreSQL, by Daybreak and by psql's `\copy` of each Leader into a compressor.

Both read the same table. `\copy` has an index on the Leader and two sessions with an equal share of the rows. Each
session runs one script, so that psql starts only twice.
"""

import argparse
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import psycopg

from benchmarks.comparison import comparison_chart, comparison_table
from benchmarks.job import Job, Section, Unavailable
from benchmarks.measure import Measurement, measure_method, measurement_of, run_program
from benchmarks.members import measure_in_turns
from benchmarks.source import make_source, members_model
from tests.parts.postgresql import SERVER_SETTINGS, PostgreSQLServer, running_postgresql
from tests.parts.postgresql_tables import fill_tables

_BASELINE = "daybreak-postgresql"
METHODS = {
    _BASELINE: "Daybreak (igzip 2)",
    "pigz-6": r"\copy into pigz -6",
    "pigz-1": r"\copy into pigz -1",
}
_COMPRESSORS = {"pigz-6": "pigz -6 -p 1", "pigz-1": "pigz -1 -p 1"}
"""One thread each, because two sessions use both cores. More threads took 5 % more time."""
SETTINGS = SERVER_SETTINGS | {
    "shared_buffers": "512MB",
    "work_mem": "64MB",
    "maintenance_work_mem": "256MB",
    "effective_cache_size": "4GB",
    "max_wal_size": "4GB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
}
"""Settings of a server for much data."""
_SESSIONS = 2


def _run(options: argparse.Namespace) -> Section:
    if shutil.which("pigz") is None:
        raise Unavailable("pigz is not installed (apt-get install pigz)")
    source = make_source(options.folder, options.rows, options.leaders, 1_000_000, "shuffled")
    try:
        with running_postgresql(SETTINGS) as server:
            fill_tables(server.url(), source)
            server.execute("CREATE INDEX ON members (leader_id)", "VACUUM ANALYZE")
            measure = partial(_measure, server=server, folder=options.folder)
            measurements = measure_in_turns(options, options.methods.split(","), source, measure)
            with psycopg.connect(server.url()) as connection:
                version = connection.info.parameter_status("server_version")
    except LookupError as error:
        raise Unavailable("PostgreSQL is not installed (apt-get install postgresql)") from error
    body = (
        f"{options.rows:,} Members of {options.leaders:,} Leaders in PostgreSQL on the same machine, exported as one "
        f"gzip CSV and one gzip JSON file per Leader.\n\n{comparison_table(measurements, METHODS, _BASELINE)}\n\n"
        f"![Seconds by method](../images/benchmarks-postgresql.svg)\n{_NOTES}"
    )
    chart = comparison_chart("Members from PostgreSQL: seconds", measurements, METHODS, _BASELINE)
    return Section(
        body, {"benchmarks-postgresql": chart}, ("duckdb", "adbc-driver-postgresql", "isal"), (f"PostgreSQL {version}",)
    )


def _measure(method: str, server: PostgreSQLServer, out: Path, folder: Path) -> Measurement:
    servers = [server.program.pid]
    if method == _BASELINE:
        url_file = folder / "server-address"
        url_file.write_text(server.url(), "utf-8")
        return measure_method(method, url_file, out, servers=servers)
    return measurement_of(run_program(_copy_command(method, server, out, folder), servers=servers), out, {})


def _copy_command(method: str, server: PostgreSQLServer, out: Path, folder: Path) -> Sequence[str]:
    bundled = server.binaries / "psql"
    psql = str(bundled) if bundled.exists() else "psql"
    sessions = []
    for number, leaders in enumerate(_even_shares(server)):
        script = folder / f"copy-{number}.sql"
        script.write_text(_script(leaders, out, _COMPRESSORS[method]), "utf-8")
        sessions.append(f"'{psql}' -X -q -v ON_ERROR_STOP=1 -d '{server.url()}' -f '{script}' & pids+=($!)")
    return ["bash", "-c", "\n".join([*sessions, 'for pid in "${pids[@]}"; do wait "$pid" || exit 1; done'])]


def _even_shares(server: PostgreSQLServer) -> list[list[str]]:
    """Distribute Leaders over the sessions, largest first, so that all have about the same number of rows."""
    with psycopg.connect(server.url()) as connection:
        leader_counts = connection.execute(
            "SELECT leader_id::text, count(*) FROM members GROUP BY leader_id ORDER BY count(*) DESC"
        ).fetchall()
    shares: list[list[str]] = [[] for _ in range(_SESSIONS)]
    rows = [0] * _SESSIONS
    for leader, count in leader_counts:
        smallest = rows.index(min(rows))
        shares[smallest].append(leader)
        rows[smallest] += count
    return shares


def _script(leaders: Sequence[str], out: Path, compressor: str) -> str:
    """Return the psql script of a session: one command per line, in one transaction."""
    model = " ".join(members_model().split())
    # The text format would double backslashes. These two characters occur in no text.
    unquoted = r"(FORMAT csv, QUOTE e'\x01', DELIMITER e'\x02')"
    lines = ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"]
    for leader in leaders:
        rows = f"SELECT * FROM ({model}) AS model WHERE \"LEADER_ID\" = '{leader}'"
        into = f"TO PROGRAM 'exec {compressor} > {out}/{leader}"
        lines += [
            f"\\copy ({rows}) {into}.csv.gz' (FORMAT csv, HEADER)",
            f"\\copy (SELECT row_to_json(row) FROM ({rows}) AS row) {into}.json.gz' {unquoted}",
        ]
    return "\n".join([*lines, "COMMIT;", ""])


_NOTES = """
- CPU time includes the server's processes; memory is that of the programs only. The table is indexed by Leader,
  analyzed, and in the server's memory.
- `\\copy` runs in two psql sessions with an equal share of the rows. Each Leader takes two statements and two
  compressors. Its rows are not sorted, and its JSON has one record per line; Daybreak's rows are sorted and in an
  array. Every cell was read back and compared with the source.
- Daybreak's time includes start-up, fingerprints and checks of the rows, SHA-256 of file and content, and one sync at
  the end. `\\copy` does none of these.
"""

JOB = Job(
    "postgresql",
    "From PostgreSQL",
    r"the Members of every Leader from PostgreSQL, with \copy into pigz",
    {
        "rows": (1_000_000, "Members"),
        "leaders": (5_000, "Leaders"),
        "methods": (",".join(METHODS), "some of: " + ", ".join(METHODS)),
    },
    _run,
)
