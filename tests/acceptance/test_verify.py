"""`daybreak verify`, `fetch` and `sync` with a service that signs."""

import csv
import gzip
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import new_installation
from tests.acceptance.daily_builder import Builder
from tests.acceptance.installation import LEADERS, MAYA, NORTH, SOUTH
from tests.acceptance.service import Service, serving
from tests.acceptance.test_client_command import Shell
from tests.acceptance.test_erasure import run
from tests.reference.days import ChangingPlatform

WRONG = 6


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Builder]]:
    """Return a service that signs, after its first signed publication, and its builder."""
    folder = tmp_path_factory.mktemp("verify")
    installation = new_installation(folder)
    builder = Builder(installation, ChangingPlatform(7, leaders=LEADERS, members=60), folder, signing=True)
    builder.publish()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("DAYBREAK_SIGNING__FOLDER", str(folder / "signing"))
        with serving(installation, workers=1) as service:
            yield service, builder


def shell_of(service: Service, folder: Path, account: str = NORTH) -> Shell:
    folder.mkdir()
    variables = {"SERVICE": service.address, "TOKEN": service.token(MAYA, account), "ACCOUNT": account}
    named = {f"DAYBREAK_{name}": value for name, value in variables.items()}
    return Shell(folder, XDG_CACHE_HOME=str(folder / "cache"), **named)


@pytest.mark.release
def test_published_files_are_proved_until_they_are_replaced(published: tuple[Service, Builder], tmp_path: Path) -> None:
    service, builder = published
    north, south = shell_of(service, tmp_path / "north"), shell_of(service, tmp_path / "south", SOUTH)
    database = ("sync", "duckdb:///exports.duckdb", "--require-signed", "--verify", "--json")
    for shell in (north, south):
        shell.run("fetch", "exports", "--require-signed", "--format", "csv,json")
        assert "Proved: 18 files" in shell.run("verify", "exports", "--complete").stderr
        shell.run("verify", "exports", "--complete", "--offline")
    north.run(*database)
    shutil.copytree(south.folder / "exports", north.folder / "other")
    north.run("verify", "other", code=WRONG)

    builder.publish()
    found = json.loads(north.run(*database).stdout)
    assert {each["verified"] for each in found["resources"]} == {"equal"}
    assert "delta" in {each["action"] for each in found["resources"]}
    assert "This profile has seen version" in north.run("verify", "exports", code=WRONG).stderr
    north.run("fetch", "exports", "--format", "csv,json")
    north.run("verify", "exports", "--complete")


@pytest.mark.release
def test_files_from_before_an_erasure_are_refused(published: tuple[Service, Builder], tmp_path: Path) -> None:
    service, builder = published
    shell = shell_of(service, tmp_path / "shell")
    shell.run("fetch", "exports", "--require-signed")
    before = shutil.copytree(shell.folder / "exports", shell.folder / "before")
    text = gzip.decompress((before / "members.csv.gz").read_bytes()).decode()
    member = next(row["MEMBER_ID"] for row in csv.DictReader(io.StringIO(text, newline="")) if row["PHONE_NUMBER"])
    assert "Erased: " in run(builder.installation, "member", "erase", member).stdout
    shell.run("fetch", "exports")
    assert ", revision 2 of " in shell.run("verify", "exports", "--complete").stderr
    assert "Revision 1 of version" in shell.run("verify", "before", code=WRONG).stderr


@pytest.mark.release
def test_rotated_and_revoked_keys(published: tuple[Service, Builder], tmp_path: Path) -> None:
    service, builder = published
    shell = shell_of(service, tmp_path / "shell")
    shell.run("fetch", "exports", "--require-signed")
    recovery = ("--recovery-key", str(builder.folder / "signing" / "recovery"))
    assert run(builder.installation, "trust", "rotate", *recovery).returncode == 0
    done = shell.run("verify", "exports", "--json")
    assert "has a new trust file, version 2, signed by its recovery key" in done.stderr
    version = json.loads(done.stdout)["version"]
    assert run(builder.installation, "trust", "revoke", str(version)).returncode == 0
    for offline in ((), ("--offline",)):
        assert "is revoked" in shell.run("verify", "exports", *offline, code=WRONG).stderr
    builder.publish()
    shell.run("fetch", "exports")
    shell.run("verify", "exports")
