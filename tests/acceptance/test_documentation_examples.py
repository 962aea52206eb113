"""Shell and Python blocks of README.md and docs/ run against a demo.

The blocks of a page run in order, in one shell and one empty folder. No argument of a program may be a secret. A block
that cannot run has a comment before it: `<!-- not run: REASON -->`. Addresses and tokens of the examples are replaced
by those of the demo.
"""

import csv
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from daybreak.settings.reference import setting_rows
from tests.acceptance.recorded_arguments import record_arguments
from tests.parts.documentation import OWN_PLATFORM, ROOT, RUN, blocks, runs, script_of
from tests.parts.ports import free_port
from tests.parts.postgresql import SERVER_SETTINGS, PostgreSQLServer, running_postgresql
from tests.parts.presence import absent
from tests.parts.processes import running
from tests.parts.warm import daybreakd

PATIENCE_SECONDS = 240
ACCOUNT = "7d909222-adf5-4547-93e0-e8f60c50f980"
SHOWN = {"caddyfile", "crontab", "html", "ini", "json", "nginx", "sql", "text", "toml", "yaml"}
# Output that the text or a comment of a page describes, and that its blocks must print.
PRINTED = {
    "docs/how-to/fetch-with-curl.md": [
        "members.csv.gz: OK\n",
        "200\n304\n",
        '"COMMUNITY_ID","COMMUNITY_NAME"',
        "204\n",
        "session_ended",
    ],
    "docs/how-to/delta-sharing.md": [" member_communities\n", "live "],
    "docs/how-to/load-into-postgresql.md": ["opted_out", "exports/members.csv.gz: "],
    "docs/how-to/verify-files.md": ["members.csv.gz: OK\n", 'Good "daybreak/', 'Good "daybreak-trust'],
    "docs/tutorial/first-files.md": [
        "exports/members.csv.gz",
        '"MEMBER_ID","LEADER_ID"',
        "SUBSCRIPTION_STATE",
        "exports/member_term_accepts.csv.gz",
    ],
}
# `make test` runs the pages that a new reader opens first. `make test-release` runs all.
FIRST_PAGES = ("README.md", "docs/tutorial/first-files.md")
# Pages that load files. Their blocks run twice, as on two days.
DAILY = {"docs/how-to/load-into-duckdb.md"}


@dataclass(frozen=True)
class Demo:
    """Running demo service and its folder."""

    address: str
    folder: Path


def pages() -> list[Path]:
    found = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return sorted(path for path in found if not path.is_symlink())


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    folder, port = tmp_path_factory.mktemp("documentation") / "demo", free_port()
    sizes = ["--leaders", "9", "--members", "600", "--messages", "2000"]
    command = [sys.executable, "-m", "daybreak.cli.main", "demo", str(folder), *sizes, "--port", str(port)]
    environment = {
        "PYTHONUNBUFFERED": "1",
        "DAYBREAK_SHARING__ENABLED": "true",
        "DAYBREAK_SNAPSHOT__FORMATS": "csv,json,parquet",
    }
    with running(command, environment=environment) as program:
        program.wait_for_log("Daybreak is running", PATIENCE_SECONDS)
        yield Demo(f"http://127.0.0.1:{port}", folder)


@pytest.fixture
def token(demo: Demo, tmp_path: Path) -> Iterator[str]:
    """An API token for one page. It is revoked afterwards, because a seat can have a limited number."""
    config = ("--config", demo.folder / "daybreak.toml")
    created = daybreakd("token", "create", "--seat", "owner@demo.example", "--account", ACCOUNT, *config)
    (found,) = re.findall(r"service_api_\w{38}", created.stdout)
    yield str(found)
    (tmp_path / "token.txt").write_text(found)
    daybreakd("token", "revoke", "--leaked", tmp_path / "token.txt", *config)


def _case(page: Path) -> Any:
    name = page.relative_to(ROOT).as_posix()
    return pytest.param(page, id=name, marks=[] if name in FIRST_PAGES else [pytest.mark.release])


@pytest.mark.release
@pytest.mark.parametrize("page", [_case(page) for page in pages() if runs(page) and page != OWN_PLATFORM])
def test_documented_examples_run(
    page: Path, demo: Demo, token: str, postgresql_server: PostgreSQLServer, tmp_path: Path
) -> None:
    if any(block.language == "r" for block in runs(page)) and shutil.which("Rscript") is None:
        absent("R", "apt-get install r-base-core")
    database = postgresql_server.fresh_database()
    programs = [Path(sys.executable).parent, postgresql_server.binaries]
    path = os.pathsep.join([*map(str, programs), os.environ["PATH"]])
    recorded = record_arguments(tmp_path / "programs", path)
    environment = {
        "PATH": path,
        "HOME": str(tmp_path),
        "DLT_DATA_DIR": str(tmp_path / "dlt"),
        "LC_ALL": "C.UTF-8",
        "DAYBREAK_CONFIG": str(demo.folder / "daybreak.toml"),
        "DATABASE_URL": postgresql_server.url(database),
        "WAIT_MINUTES": "0",
    }
    script = script_of(runs(page)) * (2 if page.relative_to(ROOT).as_posix() in DAILY else 1)
    for example, real in (
        ("http://127.0.0.1:8400", demo.address),
        ("https://export.example.org", demo.address),
        ("service_api_...", token),
    ):
        script = script.replace(example, real)
    work = tmp_path / "work"
    work.mkdir()
    (work / "daybreak-demo").symlink_to(demo.folder)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=work,
        env={**environment, "PATH": f"{recorded.parent}{os.pathsep}{path}"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    missing = [text for text in PRINTED.get(page.relative_to(ROOT).as_posix(), []) if text not in done.stdout]
    assert missing == [], done.stdout
    secrets = re.findall(
        r"service_api_\w+|eyJ[\w.-]+|Bearer .*|\w+-\w+-\w+-\d{4}\b|totp.*", recorded.read_text("utf-8")
    )
    assert secrets == [], "users of the machine can list the arguments of a process"


@pytest.mark.release
def test_tutorial_for_operators_runs(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        try:
            server = stack.enter_context(running_postgresql(SERVER_SETTINGS, extension="uuid-ossp"))
        except LookupError:
            absent("PostgreSQL with its extensions", "apt-get install postgresql")
        path = os.pathsep.join([str(Path(sys.executable).parent), str(server.binaries), os.environ["PATH"]])
        environment = {
            "PATH": path,
            "HOME": str(tmp_path),
            "LC_ALL": "C.UTF-8",
            "DATABASE_URL": server.url(server.fresh_database()),
            "DAYBREAK_LISTEN": address,
            "DAYBREAK_BASE_URL": f"http://{address}",
        }
        script = script_of(runs(OWN_PLATFORM)).replace("127.0.0.1:8400", address)
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-4000:]
    with gzip.open(tmp_path / "exports/members.csv.gz", "rt", encoding="utf-8", newline="") as file:
        members = list(csv.DictReader(file))
    states = Counter(member["SUBSCRIPTION_STATE"] for member in members)
    assert states == {"live": 200, "opted_out": 40, "deleted": 10}
    assert {member["EMAIL"] for member in members if member["SUBSCRIPTION_STATE"] == "deleted"} == {""}
    assert "Fan2@Example.org" in {member["EMAIL"] for member in members}
    assert "erased" in done.stdout.lower()


def test_every_block_names_its_language() -> None:
    unknown = [block.place for page in pages() for block in blocks(page) if block.language not in RUN | SHOWN]
    assert unknown == []


def test_blocks_that_do_not_run_parse() -> None:
    """JSON may leave out values as `...` in strings only."""
    known = {tuple(row.key.split(".")) for row in setting_rows()}
    for page in pages():
        for block in blocks(page):
            if block.language == "json":
                json.loads(block.text)
            elif block.language == "toml":
                assert unknown_settings(tomllib.loads(block.text), known) == [], block.place


def unknown_settings(values: dict[str, Any], known: set[tuple[str, ...]]) -> list[str]:
    found = []
    for name, value in values.items():
        if (name,) in known:
            continue
        inner = value if isinstance(value, dict) else {}
        found += [f"{name}.{key}" for key in inner if (name, key) not in known] if inner else [name]
    return found


def test_unknown_settings_are_found() -> None:
    known: set[tuple[str, ...]] = {("state", "url")}
    assert unknown_settings({"state": {"url": "", "color": ""}, "shape": 1}, known) == ["state.color", "shape"]


def test_markers_and_languages_are_parsed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```sh\nls\n```\n\n<!-- not run: a reason -->\n```python\n1\n```\n\n1. A\n\n   ```sh\n   if x\n     y\n   ```\n"
    )
    found = [(block.language, block.text, block.reason) for block in blocks(page)]
    assert found == [("sh", "ls", ""), ("python", "1", "a reason"), ("sh", "if x\n  y", "")]
