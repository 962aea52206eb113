"""The published schema: files of a demo are valid against it, and its SQL creates tables that hold them."""

import gzip
import sys
from dataclasses import dataclass
from pathlib import Path

import duckdb
import frictionless
import psycopg
import pytest
import requests

from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.catalogue.table_ddl import DIALECTS, create_tables
from tests.acceptance.service import Service
from tests.parts.ports import free_port
from tests.parts.processes import running

PATIENCE_SECONDS = 240
FRICTIONLESS_LEAVES_FILES_OPEN = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@dataclass(frozen=True)
class Accounts:
    """The CSV files of a demo: a folder per account. `schema` is the document that the service publishes."""

    folders: list[Path]
    schema: dict[str, object]


@pytest.fixture(scope="module")
def accounts(tmp_path_factory: pytest.TempPathFactory) -> Accounts:
    folder, port = tmp_path_factory.mktemp("schema"), free_port()
    sizes = ["--leaders", "5", "--members", "400", "--messages", "1500"]
    command = [sys.executable, "-m", "daybreak.cli.main", "demo", str(folder / "demo"), *sizes, "--port", str(port)]
    # Frictionless reads files by path.
    environment = {"PYTHONUNBUFFERED": "1", "DAYBREAK_SNAPSHOT__PACK_BELOW": "0B"}
    with running(command, environment=environment) as program:
        program.wait_for_log("Daybreak is running", PATIENCE_SECONDS)
        schema = requests.get(f"http://127.0.0.1:{port}/download/v1/schema", timeout=PATIENCE_SECONDS).json()
    (snapshot,) = (folder / "demo" / "files" / "snapshots").iterdir()
    for stored in snapshot.glob("*/*.*.csv.gz"):
        client_id, _, name = stored.name.partition(".")
        account = folder / "accounts" / client_id
        if not account.exists():
            account.mkdir(parents=True)
            # The accounts without rows in a resource share one file.
            for empty in snapshot.glob("empty/*.csv.gz"):
                (account / empty.name).symlink_to(empty)
        (account / name).unlink(missing_ok=True)
        (account / name).symlink_to(stored)
    return Accounts(sorted((folder / "accounts").iterdir()), schema)


@pytest.mark.release
@FRICTIONLESS_LEAVES_FILES_OPEN
def test_demo_files_are_valid(accounts: Accounts) -> None:
    assert len(accounts.folders) == 5
    for folder in accounts.folders:
        package = frictionless.Package.from_descriptor(accounts.schema, basepath=str(folder))
        assert package.resource_names == list(RESOURCE_NAMES)
        report = package.validate()
        assert report.valid, report.flatten(["name", "rowNumber", "fieldName", "type", "note"])[:5]
        assert len(report.tasks) == 9
        assert report.warnings == []


@pytest.mark.release
@FRICTIONLESS_LEAVES_FILES_OPEN
def test_invalid_files_are_found(accounts: Accounts, tmp_path: Path) -> None:
    """A repeated key, a reference to no row, and a missing value: the schema has the constraints."""
    for name in RESOURCE_NAMES:
        rows = duckdb.read_csv(str(accounts.folders[0] / f"{name}.csv.gz"), all_varchar=True)
        if name == "members":
            rows = rows.limit(3).union(rows.limit(1))
        rows.write_csv(str(tmp_path / f"{name}.csv.gz"), compression="gzip")
    report = frictionless.Package.from_descriptor(accounts.schema, basepath=str(tmp_path)).validate()
    assert not report.valid
    found = {(task.name, error.type) for task in report.tasks for error in task.errors}
    assert {("members", "unique-error"), ("members", "primary-key"), ("custom_member_data", "foreign-key")} <= found


@pytest.mark.release
def test_duckdb_tables_hold_every_account(accounts: Accounts) -> None:
    with duckdb.connect() as database:
        database.execute(create_tables("duckdb"))
        for folder in accounts.folders:
            for name in RESOURCE_NAMES:
                database.execute(f"COPY {name} FROM '{folder / name}.csv.gz' (HEADER)")
        for name in RESOURCE_NAMES:
            files = accounts.folders[0].parent / "*" / f"{name}.csv.gz"
            rows = database.read_csv(str(files), all_varchar=True, escapechar='"')
            assert len(database.table(name)) == len(rows) > 0, name


@pytest.mark.release
def test_postgresql_tables_hold_every_account(accounts: Accounts, postgresql_url: str) -> None:
    with psycopg.connect(postgresql_url) as database:
        database.execute(create_tables("postgresql").encode())
        for folder in accounts.folders:
            for name in RESOURCE_NAMES:
                with database.cursor().copy(f"COPY {name} FROM STDIN WITH (FORMAT csv, HEADER)".encode()) as copy:
                    copy.write(gzip.decompress((folder / f"{name}.csv.gz").read_bytes()))
        types: dict[str, str] = dict(
            database.execute(
                "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'campaigns'"
            ).fetchall()
        )
    assert types["CAMPAIGN_ID"] == "uuid"
    assert types["SENT_AT"] == "timestamp with time zone"


@pytest.mark.release
def test_service_returns_statements_of_each_dialect(service: Service) -> None:
    for dialect in DIALECTS:
        found = service.get("/download/v1/schema", params={"dialect": dialect})
        assert found.status_code == 200
        assert found.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert found.text == create_tables(dialect)


@pytest.mark.parametrize("dialect", ["oracle", "", "postgres"])
def test_unknown_dialect_is_refused(service: Service, dialect: str) -> None:
    found = service.get("/download/v1/schema", params={"dialect": dialect})
    assert found.status_code == 400
    assert found.json()["errors"][0]["pointer"] == "?dialect"
    assert "postgresql, duckdb" in found.json()["errors"][0]["detail"]
