"""PgBouncer in transaction mode, in front of the PostgreSQL server of the tests."""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tests.parts.ports import free_port
from tests.parts.postgresql import SUPERUSER, PostgreSQLServer, unprivileged
from tests.parts.presence import absent
from tests.parts.processes import Running, running
from tests.parts.waiting import wait_until

# Startup parameters such as `options` are refused, as by default. Two server connections per database: sessions of the
# tests share them, and see what another one has left behind.
_CONFIGURATION = """\
[databases]
* = host=127.0.0.1 port={server_port} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
max_client_conn = 500
"""


@dataclass(frozen=True)
class PgBouncer:
    """Running PgBouncer. `url(...)` returns the URL of a database through it."""

    port: int
    server: PostgreSQLServer
    program: Running

    def url(self, direct: str) -> str:
        """Return the URL through PgBouncer for a URL of the server."""
        return direct.replace(f":{self.server.port}/", f":{self.port}/")

    def session_settings(self, database: str) -> list[dict[str, str]]:
        """Return what the server connections of a database have left in their sessions, by connection."""
        found: list[dict[str, str]] = []
        with (
            psycopg.connect(self.url(self.server.url(database)), prepare_threshold=None) as one,
            psycopg.connect(self.url(self.server.url(database)), prepare_threshold=None) as other,
        ):
            # Each transaction holds one of the two server connections.
            for client in (one, other):
                rows = client.execute(
                    "SELECT name, setting FROM pg_settings WHERE source = 'session' "
                    "AND name NOT LIKE 'transaction_%' AND name NOT IN "
                    "('application_name', 'client_encoding', 'DateStyle', 'TimeZone', 'standard_conforming_strings') "
                    "UNION ALL SELECT 'prepared statement', name FROM pg_prepared_statements "
                    "UNION ALL SELECT 'cursor', name FROM pg_cursors WHERE is_holdable "
                    "UNION ALL SELECT 'channel', c FROM pg_listening_channels() AS c "
                    "UNION ALL SELECT 'temporary table', relname FROM pg_class "
                    "WHERE relpersistence = 't' AND relnamespace = pg_my_temp_schema() "
                    "UNION ALL SELECT 'lock', locktype FROM pg_locks "
                    "WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
                ).fetchall()
                found.append(dict(rows))
        return found


@pytest.fixture(scope="session")
def pgbouncer(postgresql_server: PostgreSQLServer) -> Iterator[PgBouncer]:
    """Return a PgBouncer for the whole test run."""
    program_file = shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    if program_file is None:
        absent("PgBouncer", "apt-get install pgbouncer")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="daybreak-pgbouncer-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        configuration = folder / "pgbouncer.ini"
        configuration.write_text(
            _CONFIGURATION.format(server_port=postgresql_server.port, user=SUPERUSER, port=port), encoding="ascii"
        )
        with running(
            [program_file, configuration], log_file=folder / "log", folder=Path("/"), **unprivileged()
        ) as program:
            found = PgBouncer(port, postgresql_server, program)

            def answers() -> bool:
                assert program.alive(), f"PgBouncer ended:\n{program.log()}"
                try:
                    with psycopg.connect(found.url(postgresql_server.url()), connect_timeout=10):
                        return True
                except psycopg.OperationalError:
                    return False

            wait_until(answers, 60, what=f"PgBouncer on port {port}")
            yield found
