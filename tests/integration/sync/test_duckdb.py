"""Sync into a DuckDB file: names of its schemas and tables, a full disk, and Ctrl-C."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from daybreak_client import AccountFiles, DatabaseFailed, sync
from tests.parts.churn import Churn
from tests.parts.delta_publisher import NORTH, Publisher
from tests.parts.file_sizes import file_size_limit
from tests.parts.waiting import wait_until

# A test run in the background ignores the signal, and its processes inherit that.
LONG_STATEMENT = """
import signal, sys
from daybreak_client.database_sync.targets import open_database
signal.signal(signal.SIGINT, signal.default_int_handler)
database = open_database(sys.argv[1], None, read_only=False)
# DuckDB checks for signals between the tasks of the main thread. Other threads could take the only one.
database._execute("SET threads = 1")
try:
    with database.transaction():
        print("begun", flush=True)
        database._rows("SELECT count(*) FROM range(1000000000000) WHERE hash(range) = 0")
except KeyboardInterrupt:
    print("interrupted")
print(database.accounts())
"""


@pytest.mark.release
@pytest.mark.parametrize(
    "schemas",
    [("daybreak", "daybreak"), ("Exports", "exports"), ("temp", "temp")],
    ids=["name of the file", "mixed case", "temp"],
)
def test_schemas_are_found_again(tmp_path: Path, north: Publisher, account: AccountFiles, schemas: list[str]) -> None:
    """The file daybreak.duckdb has the catalog `daybreak`. DuckDB ignores the case of names."""
    target, churn = f"duckdb:///{tmp_path}/daybreak.duckdb", Churn(NORTH, seed=13)
    for version, schema in enumerate((*schemas, schemas[0]), start=1):
        north.publish(churn.day())
        result = sync(account, target, schema=schema, verify=True)
        assert result.version == version
        assert {each.verified for each in result.resources} == {"equal"}
        assert not sync(account, target, schema=schema).changed


def test_full_disk_is_reported_with_its_path(tmp_path: Path, north: Publisher, account: AccountFiles) -> None:
    target = f"duckdb:///{tmp_path}/exports.duckdb"
    north.publish(Churn(NORTH, seed=13).day())
    with file_size_limit(100_000), pytest.raises(DatabaseFailed) as caught:
        sync(account, target)
    assert caught.value.message == f'DuckDB: Could not write file "{tmp_path}/exports.duckdb.wal": File too large'
    assert {each.verified for each in sync(account, target, verify=True).resources} == {"equal"}


def test_file_that_cannot_be_opened_is_reported_with_the_reason(
    tmp_path: Path, north: Publisher, account: AccountFiles
) -> None:
    path, target = tmp_path / "exports.duckdb", f"duckdb:///{tmp_path}/exports.duckdb"
    north.publish({})
    sync(account, target)
    # Such as a notebook, which syncs in the process that reads.
    with duckdb.connect(str(path), read_only=True), pytest.raises(DatabaseFailed, match="different configuration"):
        sync(account, target)
    with duckdb.connect() as other:
        other.execute(f"ATTACH '{path}' AS exports")
        with pytest.raises(DatabaseFailed, match="already attached"):
            sync(account, target)
    content = path.read_bytes()
    path.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    with pytest.raises(DatabaseFailed, match=r"Corrupt database file\. Restore a copy, or move the file away"):
        sync(account, target)


def test_ctrl_c_ends_a_statement(tmp_path: Path) -> None:
    # Without the file of a program, DuckDB would show a progress bar.
    program = tmp_path / "long_statement.py"
    program.write_text(LONG_STATEMENT)
    command = [sys.executable, str(program), f"duckdb:///{tmp_path}/exports.duckdb"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        begun = user_ticks(process.pid)
        try:
            wait_until(lambda: user_ticks(process.pid) > begun + 20)
            process.send_signal(signal.SIGINT)
            printed, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (printed, errors) == ("interrupted\n()\n", "")


def user_ticks(pid: int) -> int:
    """Return the processor time of a process in user mode, in units of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) * 100 // os.sysconf("SC_CLK_TCK")
