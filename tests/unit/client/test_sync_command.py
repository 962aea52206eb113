"""The command `daybreak sync`: output, exit codes, wrong use."""

import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from daybreak_client import WrongUse
from daybreak_client.command import run
from daybreak_client.database_sync.targets import has_password, open_database, place_of
from tests.parts.delta_publisher import NORTH, SOUTH, Publisher, community
from tests.parts.scripted_service import Reply, Request


def test_incomplete_resources_are_named(
    north: Publisher, target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    north.publish({"communities": [community(1, "Fans")]})
    for command in (["sync", target], ["fetch", str(tmp_path / "exports")], ["files"]):
        north.incomplete = "communities"
        assert run(command) == 0
        assert "Incomplete: communities. The platform has malformed rows." in capsys.readouterr().err
        north.incomplete = ""
        assert run(command) == 0
        assert "Incomplete" not in capsys.readouterr().err


def test_changes_are_printed(north: Publisher, target: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    north.publish({"communities": [community(1, "Fans"), community(2, "Club")]})
    assert run(["sync", target]) == 0
    printed = capsys.readouterr()
    lines = [line.split("\t") for line in printed.out.splitlines()]
    assert lines[0] == ["resource", "action", "rows", "inserted", "deleted", "download", "verified"]
    assert len(lines) == 10
    assert ["communities", "full: not in the database", "2"] in [line[:3] for line in lines]
    assert "Loaded version 1 for the first time." in printed.err
    assert (tmp_path / "exports.duckdb").stat().st_mode & 0o777 == 0o600

    north.publish({"communities": [community(1, "Fans"), community(3, "Choir")]})
    assert run(["sync", target, "--dry-run", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert (planned["dry_run"], planned["previous_version"], planned["version"]) == (True, 1, 2)
    assert [each["action"] for each in planned["resources"] if each["action"] != "unchanged"] == ["delta"]

    assert run(["sync", target, "--verify"]) == 0
    printed = capsys.readouterr()
    assert [line.split("\t")[1:5] for line in printed.out.splitlines() if line.startswith("communities")] == [
        ["delta", "2", "1", "1"]
    ]
    assert printed.out.count("equal") == 9
    assert run(["sync", target]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Version 2 is current." in printed.err
    assert run(["sync", target, "--full"]) == 0
    assert "Loaded version 2 again." in capsys.readouterr().err


def test_sync_deletes_old_downloads(north: Publisher, target: str, tmp_path: Path) -> None:
    north.publish({})
    old = tmp_path / "cache" / "daybreak" / "sync" / "0"
    old.mkdir(parents=True)
    os.utime(old, (0, 0))
    assert run(["sync", target, "--quiet", "--dry-run"]) == 0
    assert old.exists()
    assert run(["sync", target, "--quiet"]) == 0
    assert not old.exists()


def test_changed_row_fails_the_verification(
    north: Publisher, target: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    north.publish({"communities": [community(1, "Fans")]})
    assert run(["sync", target, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    with duckdb.connect(str(tmp_path / "exports.duckdb")) as database:
        database.execute("UPDATE communities SET COMMUNITY_NAME = 'Other'")
    assert run(["sync", target, "--verify", "--json"]) == 6
    printed = capsys.readouterr()
    assert "communities: not equal" in printed.err
    verified = {each["resource"]: each["verified"] for each in json.loads(printed.out)["resources"]}
    assert (verified.pop("communities"), set(verified.values())) == ("different", {"equal"})
    assert run(["sync", target, "--full", "--verify", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply(401, {"code": "invalid_token", "detail": "Invalid token."}), 3),
        (Reply(403, {"code": "wrong_context", "detail": "Switch with PUT."}), 3),
        (Reply(404, {"code": "snapshot_not_ready", "detail": "No files yet."}, {"Retry-After": "600"}), 4),
        (Reply(503, {"code": "unavailable", "detail": "Busy."}, {"Retry-After": "600"}), 5),
    ],
    ids=["refused", "wrong context", "late", "unreachable"],
)
def test_exit_code_names_the_cause(
    north: Publisher, target: str, capsys: pytest.CaptureFixture[str], reply: Reply, code: int
) -> None:
    north.before_reply = lambda _: reply
    assert run(["sync", target]) == code
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert ".." not in printed
    assert "PUT" not in printed


def test_database_in_use_has_an_exit_code(
    north: Publisher, target: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    north.publish({})
    program = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program, str(tmp_path / "exports.duckdb")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        assert run(["sync", target, "--lock-timeout", "0s"]) == 8
        assert "is open in another process. Try again later" in capsys.readouterr().err
        other.communicate("")
    assert run(["sync", target]) == 0


@pytest.mark.parametrize(
    "target",
    [
        "",
        "exports.duckdb",
        "duckdb:exports.duckdb",
        "duckdb:///",
        "duckdb:///a?b=c",
        "mysql://user@host/database",
        "duckdb:///:memory:",
        "duckdb:///:memory:exports",
        "duckdb:///~unknown-user/exports.duckdb",
    ],
)
def test_invalid_target_is_refused(target: str) -> None:
    with pytest.raises(WrongUse, match=r"Use one such as duckdb:///exports\.duckdb|~unknown-user"):
        open_database(target, None, read_only=False)


def test_home_folder_is_found(north: Publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    north.publish({})
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    for options in ([], ["--dry-run"], ["--verify"]):
        assert run(["sync", "duckdb:///~/exports.duckdb", "--quiet", *options]) == 0
    assert (tmp_path / "home" / "exports.duckdb").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("name", "content"), [("t.json", '{"a": 1}'), ("t.csv", "a,b\n1,2\n")])
@pytest.mark.parametrize("dry_run", [False, True])
def test_file_of_data_is_refused(
    north: Publisher, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, content: str, dry_run: bool
) -> None:
    """DuckDB would open it as a view in memory."""
    north.publish({})
    path = tmp_path / name
    path.write_text(content)
    assert run(["sync", f"duckdb:///{path}", *["--dry-run"] * dry_run]) == 2
    assert f"{path} is not a DuckDB file." in capsys.readouterr().err
    assert path.read_text() == content


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://ana:secret@127.0.0.1:1/exports", "postgresql://ana@127.0.0.1:1/exports"),
        ("postgresql://ana:sec#secret@127.0.0.1:1/exports", "postgresql://ana@127.0.0.1:1/exports"),
        ("postgresql://ana@127.0.0.1:1/exports?password=secret", "postgresql://ana@127.0.0.1:1/exports"),
        ("postgres://127.0.0.1:1/e?password=secret&user=ana", "postgres://127.0.0.1:1/e?user=ana"),
        ("postgres://127.0.0.1:1/e?user=a@b&sslpassword=secret", "postgres://127.0.0.1:1/e?user=a@b"),
    ],
)
def test_password_in_a_url_is_hidden(
    capsys: pytest.CaptureFixture[str], north: Publisher, url: str, place: str
) -> None:
    assert place_of(url) == place
    assert has_password(url)
    assert not has_password(place)
    assert run(["sync", url]) == 1
    printed = capsys.readouterr().err
    assert "The URL contains a password." in printed
    assert "secret" not in printed


@pytest.mark.parametrize(
    "url",
    [
        "mysql://ana:secret@host/exports", "https://ana:secret@[host/exports", "postgresql://ana:secret@[host/exports",
        "postgresql://ana:secret%zz@host/exports", "postgres:ana:secret", "host=a user=ana password=secret",
        "postgresql://ana:a@secret@127.0.0.1:1/exports", "postgresql://ana:a/secret@127.0.0.1:1/exports",
        "jdbc:postgresql://127.0.0.1:1/exports?user=ana&password=secret", "mysql://ana:a/secret@host/exports",
    ],
)  # fmt: skip
def test_password_in_an_invalid_url_is_hidden(capsys: pytest.CaptureFixture[str], north: Publisher, url: str) -> None:
    assert run(["sync", url]) == 2
    printed = capsys.readouterr().err
    assert "is not the URL of a database" in printed
    assert printed.count("\n") == 1 + has_password(url)
    assert "secret" not in printed


@pytest.mark.parametrize(
    ("target", "package"), [("duckdb:///a.duckdb", "duckdb"), ("postgresql://h/d", "'psycopg[binary]'")]
)
def test_missing_driver_names_the_package(target: str, package: str) -> None:
    program = (
        "import sys; sys.modules['duckdb'] = sys.modules['psycopg'] = None\n"
        "from daybreak_client.command import run; sys.exit(run(sys.argv[1:]))"
    )
    environment = {"DAYBREAK_SERVICE": "http://127.0.0.1:1", "DAYBREAK_TOKEN": "service_api_x", "HOME": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, "-c", program, "sync", target, "--account", NORTH],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 2
    assert f"pip install {package}" in done.stderr


@pytest.mark.parametrize("prune", [False, True])
def test_account_out_of_reach_is_named_or_removed(
    north: Publisher, target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], prune: bool
) -> None:
    """The second account is no longer among those of the user."""
    context = {"first_name": "An", "last_name": "Account", "current_context": False, "roles": []}
    accounts = [NORTH]

    def list_accounts(request: Request) -> Reply | None:
        if not request.path.endswith("/context"):
            return None
        found = [{"client_id": each, **context} for each in accounts]
        return Reply(200, {"data": found if request.method == "GET" else {"token": "session"}})

    north.publish({"communities": [community(1, "Fans")]})
    north.before_reply = list_accounts
    assert run(["sync", target, "--all-accounts", "--quiet"]) == 0
    with duckdb.connect(str(tmp_path / "exports.duckdb")) as database:
        database.execute(f"INSERT INTO communities SELECT * REPLACE ('{SOUTH}' AS LEADER_ID) FROM communities")
        database.execute(f"INSERT INTO _daybreak_sync SELECT '{SOUTH}', * EXCLUDE client_id FROM _daybreak_sync")
    options = ["--prune"] if prune else []
    assert run(["sync", target, "--all-accounts", "--dry-run", *options]) == (0 if prune else 9)
    for _ in range(2 - prune):
        capsys.readouterr()
        assert run(["sync", target, "--all-accounts", "--quiet", "--json", *options]) == (0 if prune else 9)
        printed = capsys.readouterr()
        assert (f"daybreak: {SOUTH}: You can no longer access this account" in printed.err) is not prune
        assert json.loads(printed.out)[1]["client_id"] == SOUTH
    with duckdb.connect(str(tmp_path / "exports.duckdb")) as database:
        counts = [
            database.execute(f"SELECT count(*) FROM {name}").fetchone() for name in ("communities", "_daybreak_sync")
        ]
    assert counts == ([(1,), (9,)] if prune else [(2,), (18,)])
    accounts.clear()
    assert run(["sync", target, "--all-accounts", "--prune"]) == 2
    assert "The service lists no account. Nothing is removed." in capsys.readouterr().err
    assert run(["sync", target, "--prune"]) == 2


def test_new_file_has_the_format_of_an_older_version(north: Publisher, target: str, tmp_path: Path) -> None:
    """DuckDB 1.4 reads formats up to 67."""
    north.publish({})
    assert run(["sync", target, "--quiet"]) == 0
    assert (tmp_path / "exports.duckdb").read_bytes()[8:16] == b"DUCK\x43\0\0\0"
