"""Commands of `daybreakd` on a small platform, with real files, a real state database and a real source."""

import hashlib
import io
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest

from daybreak.bootstrap import open_source, open_state
from daybreak.catalogue.models import load_models
from daybreak.cli import audit
from daybreak.cli.doctor import _source
from daybreak.cli.doctor_deep import check_own_models, run_own_models
from daybreak.cli.main import run
from daybreak.cli.options import state_of
from daybreak.demo.directory import DemoDirectory
from daybreak.demo.emails import OWNER_EMAIL, VISITOR_EMAIL
from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import make_platform
from daybreak.domain.audit import AuditEvent
from daybreak.domain.clock import now_utc
from daybreak.domain.errors import OperatorError
from daybreak.domain.events import Webhook
from daybreak.domain.identity import ApiToken
from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.filestore.file_store import FreeSpace
from daybreak.filestore.local_disk import LocalDisk
from daybreak.settings import load_settings
from daybreak.snapshots.disk_space import RESERVE_BYTES
from daybreak.state.nodes import Node
from daybreak.state.stores import Stores
from tests.parts.demo_service import AS_OF, make_demo_service
from tests.parts.row_faults import ENDLESS_MODEL
from tests.parts.s3 import S3Bucket

UNNEEDED = (
    "alembic",
    "jinja2",
    "obstore",
    "psutil",
    "psycopg",
    "pyarrow",
    "sqlalchemy.dialects.postgresql",
    "starlette",
)
Command = Callable[..., str]


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DemoDirectory]:
    """Create a folder with `init`, a platform of eight Leaders and its directory."""
    folder = tmp_path_factory.mktemp("installation")
    directory = make_demo_service(folder, leaders=8, members=400, messages=1_200)
    return folder, directory


@pytest.fixture
def command(
    installation: tuple[Path, DemoDirectory], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    """Return a function that runs a command in that folder and returns its output. `code` is the expected exit code."""
    capsys.readouterr()
    # The command would lower the priority of the test process.
    monkeypatch.setattr("daybreak.snapshots.builder.take_low_priority", lambda: None)

    def call(*arguments: str, code: int = 0) -> str:
        found = run([*arguments, "--config", str(installation[0] / "daybreak.toml")])
        printed = capsys.readouterr()
        assert found == code, printed.err
        return printed.out if code == 0 else printed.out + printed.err

    return call


def lines(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.splitlines()]


def test_init_creates_private_files_once(
    installation: tuple[Path, DemoDirectory], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = installation
    for name in ("daybreak.toml", "keyring.json", "state.db"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600, name
    before = (folder / "daybreak.toml").read_bytes()
    assert run(["init", str(folder)]) == 1
    assert "already" in capsys.readouterr().err
    assert (folder / "daybreak.toml").read_bytes() == before
    assert b'location = "platform"' in before
    assert b"# publish_at" in before


def test_init_names_its_configuration_if_a_value_is_invalid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", str(tmp_path), "--base-url", "ftp://x"]) == 2
    assert f'{tmp_path}/daybreak.toml: one setting is invalid\n  base_url: "ftp://x"' in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_snapshot_show_explains_that_there_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", str(tmp_path / "new")]) == 0
    assert run(["snapshot", "show", "-c", str(tmp_path / "new/daybreak.toml")]) == 1
    assert "There is no run yet" in capsys.readouterr().err


def test_migrate_needs_only_the_url_of_the_state_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["migrate"]) == 2
    assert "daybreak.toml does not exist" in capsys.readouterr().err
    monkeypatch.setenv("DAYBREAK_STATE__URL", f"sqlite:///{tmp_path / 'own.db'}")
    assert run(["migrate"]) == 0
    assert (tmp_path / "own.db").exists()


def test_doctor_reports_second_factors_of_another_keyring(
    installation: tuple[Path, DemoDirectory], command: Command
) -> None:
    with closing(open_state(load_settings(installation[0] / "daybreak.toml", {}))) as state:

        def enrol(stores: Stores) -> None:
            seat = stores.seats.by_email(VISITOR_EMAIL)
            assert seat is not None
            stores.seats.begin_second_factor(seat.seat_id, "1.0badc0de.00.00", now_utc())
            stores.seats.confirm_second_factor(seat.seat_id, 0, (), now_utc())

        state.write(enrol)
    assert "lacks the key 0badc0de, which encrypts second factors" in command("doctor", code=1)
    command("seat", "reset-second-factor", VISITOR_EMAIL)
    assert "ok    keyring:" in command("doctor")


@pytest.mark.release
def test_doctor_explains_how_to_replace_a_lost_keyring(
    installation: tuple[Path, DemoDirectory], command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAYBREAK_KEYS__FILE", str(tmp_path / "keyring.json"))
    report = command("doctor", code=1)
    assert f"FAULT keyring: keys.file: {tmp_path}/keyring.json does not exist" in report
    assert "use the keyring.json that `daybreakd init FOLDER` creates" in report
    assert run(["init", str(tmp_path / "FOLDER")]) == 0
    (tmp_path / "FOLDER/keyring.json").rename(tmp_path / "keyring.json")
    assert "ok    keyring:" in command("doctor")


def test_importing_an_export_changes_nothing(
    installation: tuple[Path, DemoDirectory], command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, directory = installation
    command("directory", "import", str(folder / "directory.json"))
    exported = command("directory", "export")
    assert {seat["email"] for seat in json.loads(exported)["seats"]} == {seat.email for seat in directory.seats}
    assert "password" not in exported
    monkeypatch.setattr("sys.stdin", io.StringIO("\ufeff" + exported))
    assert command("directory", "import", "-") == ""
    assert command("directory", "import", str(folder / "directory.json")) == ""
    document = json.loads(exported)
    document["seats"][0]["disabled"] = True
    (tmp_path / "changed.json").write_text(json.dumps(document), "utf-8")
    changed = command("directory", "import", str(tmp_path / "changed.json"), "--dry-run")
    assert document["seats"][0]["email"] in changed
    assert command("directory", "export") == exported
    document["seats"][0]["email"] = 7
    (tmp_path / "changed.json").write_text(json.dumps(document), "utf-8")
    refused = command("directory", "import", str(tmp_path / "changed.json"), code=1)
    assert "$.seats[0].email" in refused
    assert str(tmp_path / "changed.json") in refused


def test_run_is_published_listed_shown_and_verified(installation: tuple[Path, DemoDirectory], command: Command) -> None:
    folder, _ = installation
    first = command("snapshot", "run", "--as-of", "2026-11-20T04:00:00Z").split()
    assert first[1] == "published:"
    listed = lines(command("snapshot", "list"))
    assert listed[0][:2] == ["SNAPSHOT", "STATE"]
    assert listed[1][:2] == [first[0], "published"]
    as_json = json.loads(command("snapshot", "list", "--json"))
    assert as_json[0]["snapshot_id"] == first[0]
    assert as_json[0]["as_of"] == "2026-11-20T04:00:00Z"
    shown = command("snapshot", "show", first[0][:8])
    assert command("snapshot", "show") == shown
    assert "2026-11-20 04:00:00" in shown
    for verb, prefix in (("show", first[0][:3]), ("verify", "x"), ("publish", first[0][:1]), ("discard", "x")):
        assert f"{prefix!r} is too short. Use at least the first 4 char" in command("snapshot", verb, prefix, code=2)
    assert "members\t400\t" in shown
    assert " 0 damaged" in command("snapshot", "verify")
    assert " 0 faults" in command("snapshot", "verify", "--deltas")
    damaged = max((folder / "files").rglob("*.pack"), key=lambda path: path.stat().st_size)
    content = damaged.read_bytes()
    damaged.chmod(0o600)
    damaged.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    report = command("snapshot", "verify", first[0], code=1)
    assert "its SHA-256 does not match" in report
    assert " 1 damaged" in report
    assert "add --repair" in report
    doctor = command("doctor", code=1)
    assert f"FAULT lost files: 1 file of the published snapshot {first[0][:8]} lost or damaged since" in doctor
    damaged.unlink()
    assert command("snapshot", "verify", first[0], code=1).count("damaged: ") == 1, "one line for the pack"
    damaged.write_bytes(content)
    command("snapshot", "verify", first[0])
    assert "ok    lost files" in command("doctor", code=1), "the files are late"
    assert "No snapshot starts" in command("snapshot", "show", "ffffffff", code=1)
    assert "Only a complete or held snapshot" in command("snapshot", "discard", first[0], code=1)
    assert "instant" in command("snapshot", "run", "--as-of", "yesterday", code=2)
    assert "is in the future" in command("snapshot", "run", "--as-of", "9999-01-01", code=1)
    assert "would not be published" in command("snapshot", "run", "--as-of", "2026-11-20T03:59:59Z", code=1)
    assert lines(command("snapshot", "list")) == listed, "refused commands create no snapshot"
    for words in (("snapshot", "list"), ("audit",)):
        assert "--limit" in command(*words, "--limit", "-1", code=2)
    assert command("snapshot", "watch") == ""


@pytest.mark.release
def test_piped_run_logs_json_at_low_priority(installation: tuple[Path, DemoDirectory]) -> None:
    """Modules that it does not need are not imported."""
    script = (
        "import os, sys\n"
        "from daybreak.cli.main import run\n"
        f"code = run(['snapshot', 'run', '--config', {str(installation[0] / 'daybreak.toml')!r}])\n"
        f"print(code, os.nice(0), sorted(set({UNNEEDED!r}) & set(sys.modules)))\n"
    )
    before = os.nice(0)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"0 {min(before + 10, 19)} []"
    logged = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["event"] for line in logged if line["event"] not in {"run.progress", "deltas.not_made"}] == [
        "run.started",
        "snapshot.signed",
        "run.published",
    ]
    progress = [line for line in logged if line["event"] == "run.progress"]
    assert [line["phase"] for line in progress][-1] == "complete"
    assert {line["resource_number"] for line in progress if "resource" in line} == set(range(1, 10))
    assert progress[-1]["rows"] == logged[-1]["rows"]


@pytest.mark.release
def test_list_and_watch_report_failed_and_lapsed_runs(
    installation: tuple[Path, DemoDirectory],
    command: Command,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def output(*arguments: str, code: int = 0) -> tuple[str, str]:
        assert run([*arguments, "--config", str(installation[0] / "daybreak.toml")]) == code
        printed = capsys.readouterr()
        return printed.out, printed.err

    with monkeypatch.context() as missing_source:
        missing_source.setenv("DAYBREAK_SOURCE__LOCATION", str(tmp_path / "away"))
        command("snapshot", "run", code=1)
    for verb in ("list", "watch"):
        assert f"failed: source.location: {tmp_path}/away does not exist" in output("snapshot", verb)[1]
    settings = load_settings(installation[0] / "daybreak.toml", {})
    state = open_state(settings)
    killed = Snapshot(str(uuid.uuid4()), SnapshotState.BUILDING, AS_OF, now_utc(), builder="node-7:12")
    long_ago = now_utc() - timedelta(hours=1)
    try:
        state.write(lambda stores: stores.snapshots.begin_manual(killed, long_ago, 120))
        listed, notes = output("snapshot", "list")
        assert lines(listed)[1][:2] == [killed.snapshot_id, "lapsed"]
        assert (
            f"{killed.snapshot_id} lapsed: no heartbeat from node-7:12 since {long_ago:%Y-%m-%d %H:%M:%S} UTC." in notes
        )
        assert "No run is in progress." in output("snapshot", "watch")[1]
        state.write(lambda stores: stores.snapshots.lapse(now_utc()))
    finally:
        state.close()
    # The builder of a run dies while `snapshot watch` follows the run.
    dying = replace(killed, snapshot_id=str(uuid.uuid4()), started_at=now_utc())
    state = open_state(settings)
    try:
        state.write(lambda stores: stores.snapshots.begin_manual(dying, now_utc(), 2))
        assert f"{dying.snapshot_id} lapsed" in output("snapshot", "watch", code=1)[1]
        state.write(lambda stores: stores.snapshots.lapse(now_utc()))
    finally:
        state.close()
    command("snapshot", "run")


@pytest.mark.release
def test_held_snapshot_waits_for_a_decision(
    installation: tuple[Path, DemoDirectory], command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = command("snapshot", "run").split()[0]
    make_platform(tmp_path / "smaller", PlatformSizes(leaders=8, members=40, messages=120), as_of=AS_OF)
    monkeypatch.setenv("DAYBREAK_SOURCE__LOCATION", str(tmp_path / "smaller"))
    held = [command("snapshot", "run", code=1).split()[0] for _ in range(2)]
    assert "finding: members: 40 rows, down from 400 (-90 %, limit 30 %)." in command("snapshot", "show", held[0])
    states = {line[0]: line[1] for line in lines(command("snapshot", "list"))}
    assert [states[each] for each in (served, *held)] == ["published", "held", "held"]
    assert "--accept" in command("snapshot", "publish", held[0], code=1)
    assert "is discarded" in command("snapshot", "discard", held[1])
    assert "published:" in command("snapshot", "publish", held[0], "--accept", "a small test platform")
    assert "a small test platform" in command("snapshot", "show", held[0])
    monkeypatch.delenv("DAYBREAK_SOURCE__LOCATION")
    command("snapshot", "run")
    monkeypatch.setenv("DAYBREAK_SOURCE__LOCATION", str(tmp_path / "smaller"))
    assert "published:" in command("snapshot", "run", "--force", "small on purpose")
    monkeypatch.delenv("DAYBREAK_SOURCE__LOCATION")
    command("snapshot", "run")


@pytest.mark.release
def test_unexpected_source_data_is_reported(
    installation: tuple[Path, DemoDirectory],
    command: Command,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    platform, odd = installation[0] / "platform", tmp_path / "odd"
    shutil.copytree(platform, odd)
    leaders, members = f"'{odd}/leaders.parquet'", f"'{platform}/members.parquet'"
    one = f"member_id = (SELECT max(member_id) FROM {members} SEMI JOIN {leaders} USING (leader_id))"
    with duckdb.connect() as engine:
        engine.execute(f"COPY (SELECT * FROM '{platform}/leaders.parquet' ORDER BY ALL OFFSET 1) TO {leaders}")
        engine.execute(
            f"COPY (SELECT * REPLACE (if({one}, 'robot', gender) AS gender, if({one}, NULL, subscription_state) "
            f"AS subscription_state) FROM {members}) TO '{odd}/members.parquet'"
        )
        without_leader = f"SELECT count(*) FROM {members} ANTI JOIN {leaders} USING (leader_id)"
        ((rows_without_leader,),) = engine.execute(without_leader).fetchall()
    monkeypatch.setenv("DAYBREAK_SOURCE__LOCATION", str(odd))
    monkeypatch.setenv("DAYBREAK_GUARD__UNKNOWN_SHARE", "1")
    assert run(["snapshot", "run", "--config", str(installation[0] / "daybreak.toml")]) == 0
    printed = capsys.readouterr()
    snapshot_id = printed.out.split()[0]
    assert f"See `daybreakd snapshot show {snapshot_id}`" in printed.err
    shown = command("snapshot", "show", snapshot_id)
    assert rows_without_leader
    assert (
        f"warning: members: {rows_without_leader} rows of members in no file: the Leader is not in table leaders."
        in shown
    )
    assert "warning: members: GENDER has an unlisted value in 1 row." in shown
    assert "warning: members: SUBSCRIPTION_STATE is NULL in 1 row. The column is required." in shown
    monkeypatch.delenv("DAYBREAK_SOURCE__LOCATION")
    assert "warning:" not in command("snapshot", "show", command("snapshot", "run").split()[0])


def test_tokens_are_created_listed_and_revoked(
    installation: tuple[Path, DemoDirectory], command: Command, tmp_path: Path
) -> None:
    _, directory = installation
    owner, visitor = directory.seat(OWNER_EMAIL), directory.seat(VISITOR_EMAIL)
    account = ("--seat", owner.email, "--account", owner.client_ids[0])
    secret = command("token", "create", *account, "--name", "nightly", "--expires", "90d").strip()
    assert secret.startswith("service_api_")
    other = command("token", "create", *account).strip()
    listed = json.loads(command("token", "list", "--seat", owner.email, "--json"))
    by_name = {token["name"]: token["token_id"] for token in listed if token["state"] == "live"}
    assert by_name.keys() == {"nightly", "created by the operator"}
    assert secret not in json.dumps(listed)
    assert "is revoked" in command("token", "revoke", by_name["nightly"])
    assert "already" in command("token", "revoke", by_name["nightly"])
    (tmp_path / "report.txt").write_text(f"found in repo: {other}\nand {secret}", "utf-8")
    leaked = ("--leaked", str(tmp_path / "report.txt"), "--reason", "published in a log")
    assert by_name["created by the operator"] in command("token", "revoke", *leaked)
    tokens = json.loads(command("token", "list", "--json"))
    assert {token["state"] for token in tokens} == {"revoked"}
    reasons = {token["name"]: token["revoke_reason"] for token in tokens if token["token_id"] in by_name.values()}
    assert reasons == {"nightly": "revoked by the operator", "created by the operator": "published in a log"}
    refused = command("token", "create", "--seat", visitor.email, "--account", visitor.client_ids[0], code=1)
    assert "data_export" in refused
    assert "no access" in command("token", "create", "--seat", visitor.email, "--account", owner.client_ids[-1], code=1)
    assert "--leaked" in command("token", "revoke", code=2)


def test_followed_audit_trail_misses_no_event(
    installation: tuple[Path, DemoDirectory], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event that is recorded after the first read is among the events that are followed."""
    event, found = AuditEvent(now_utc(), "test.followed", "ok", "operator"), list[AuditEvent]()

    def record(events: list[AuditEvent], *, as_lines: bool) -> None:
        assert (events, as_lines) == ([], True)
        with state_of(installation[0] / "daybreak.toml") as state:
            state.write(lambda stores: stores.audit.append(event))

    monkeypatch.setattr(audit, "_print_events", record)
    monkeypatch.setattr(audit, "_follow", lambda read, last_id: found.extend(read(after_id=last_id, limit=10)))
    command("audit", "--follow", "--action", "test.followed")
    assert [each.action for each in found] == ["test.followed"]


def test_allowed_addresses_of_a_token_are_changed(installation: tuple[Path, DemoDirectory], command: Command) -> None:
    owner = installation[1].seat(OWNER_EMAIL)
    account = ("--seat", owner.email, "--account", owner.client_ids[2])

    def listed() -> tuple[str, list[str]]:
        (found,) = json.loads(command("token", "list", *account, "--json"))
        return found["name"], found["allowed_networks"]

    command("token", "create", *account, "--name", "one", "--allow", "203.0.113.7", "--allow", "2001:db8::/32")
    assert listed() == ("one", ["203.0.113.7/32", "2001:db8::/32"])
    (token,) = json.loads(command("token", "list", *account, "--json"))
    change = ("token", "change", token["token_id"])
    command(*change, "--name", "two")
    assert listed() == ("two", ["203.0.113.7/32", "2001:db8::/32"])
    command(*change, "--allow", "10.0.0.0/8")
    assert listed() == ("two", ["10.0.0.0/8"])
    command(*change, "--allow-any")
    assert listed() == ("two", [])
    assert "Use 10.0.0.0/8" in command(*change, "--allow", "10.0.0.5/8", code=1)
    assert "--allow-any" in command(*change, code=2)
    assert "--allow-any" in command(*change, "--allow", "10.0.0.0/8", "--allow-any", code=2)
    assert "Unknown token" in command("token", "change", str(uuid.uuid4()), "--name", "three", code=1)


def test_expiring_tokens_are_listed_soonest_first(installation: tuple[Path, DemoDirectory], command: Command) -> None:
    folder, directory = installation
    owner = directory.seat(OWNER_EMAIL)
    account = ("--seat", owner.email, "--account", owner.client_ids[1])
    for name, expires in (("later", "13d"), ("soon", "2d"), ("next year", "300d"), ("revoked", "3d")):
        command("token", "create", *account, "--name", name, "--expires", expires)
    command("token", "create", *account, "--name", "without expiry")
    past = now_utc() - timedelta(days=1)
    expired = ApiToken(str(uuid.uuid4()), "0a" * 32, owner.seat_id, owner.client_ids[1], "expired", "0a0a", past, past)
    with closing(open_state(load_settings(folder / "daybreak.toml", {}))) as state:
        state.write(lambda stores: stores.api_tokens.add(expired))
    ids = {token["name"]: token["token_id"] for token in json.loads(command("token", "list", *account, "--json"))}
    command("token", "revoke", ids["revoked"])
    listed = json.loads(command("token", "list", *account, "--expiring", "14d", "--json"))
    assert [token["name"] for token in listed] == ["soon", "later"]
    assert listed[0].keys() == json.loads(command("token", "list", "--json"))[0].keys()
    header, *rows = lines(command("token", "list", *account, "--expiring", "14d"))
    shown = [dict(zip(header, row, strict=True)) for row in rows]
    assert [(row["NAME"], row["SEAT"], row["ACCOUNT"]) for row in shown] == [
        (name, owner.email, owner.client_ids[1]) for name in ("soon", "later")
    ]
    assert all(row["EXPIRES (UTC)"] for row in shown)
    assert "--expiring" in command("token", "list", "--expiring", "soon", code=2)
    for token_id in ids.values():
        command("token", "revoke", token_id)


def test_seats_are_managed_from_the_command_line(
    installation: tuple[Path, DemoDirectory], command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    email = installation[1].seat(VISITOR_EMAIL).email
    monkeypatch.setattr("sys.stdin", io.StringIO("nine lanterns in the fog\n"))
    assert "Set mail.url" in command("seat", "invite", email, code=1)
    assert "/dashboard/reset-password?token=reset_" in command("seat", "reset-password", email)
    assert "is set" in command("seat", "set-password", email)
    by_email = {line[0]: line[1:5] for line in lines(command("seat", "list"))[1:]}
    assert by_email[email] == ["live", "set", "off", "no"]
    (listed,) = [seat for seat in json.loads(command("seat", "list", "--json")) if seat["email"] == email]
    assert listed.keys() == {"seat_id", "email", "disabled", "password", "second_factor", "operator", "identities"}
    monkeypatch.setattr("sys.stdin", io.StringIO("aaaaaaaaaaaa\n"))
    assert "different characters" in command("seat", "set-password", email, code=1)
    breached = tmp_path / "breached.txt"
    breached.write_text(hashlib.sha1(b"nine lanterns in the fog").hexdigest().upper() + ":3\n")
    with monkeypatch.context() as changed:
        changed.setenv("DAYBREAK_ACCESS__BREACHED_PASSWORDS", str(breached))
        changed.setattr("sys.stdin", io.StringIO("nine lanterns in the fog\n"))
        assert "data breach" in command("seat", "set-password", email, code=1)
    assert command("seat", "disable", email) == f"{email} is disabled.\n"
    with monkeypatch.context() as changed:
        for query in ("ACCOUNTS", "SEATS", "ACCESS"):
            changed.setenv(f"DAYBREAK_DIRECTORY__{query}", "SELECT 1")
        assert "The next sync of the directory enables it" in command("seat", "disable", email)
    assert "is enabled" in command("seat", "enable", email)
    assert f"daybreakd seat enrol {email}" in command("seat", "grant-operator", email, code=1)
    with monkeypatch.context() as changed:
        changed.setenv("DAYBREAK_ACCESS__OPERATOR_SECOND_FACTOR", "false")
        assert "is an operator" in command("seat", "grant-operator", email)
    assert "no longer an operator" in command("seat", "revoke-operator", email)
    monkeypatch.setattr("sys.stdin", io.StringIO("000000\n"))
    command("seat", "enrol", email, code=1)
    assert "is removed" in command("seat", "reset-second-factor", email)
    for issuer in ("login.example.org", "http://login.example.org", "https://["):
        refused = command("seat", "bind", email, "7", "--issuer", issuer, code=2)
        assert re.search("--issuer: Use (the )?https", refused)
    assert "is bound" in command("seat", "bind", email, "7", "--issuer", "https://login.example.org")
    assert "is unbound" in command("seat", "unbind", email)
    assert "is signed out. 0 sessions ended." in command("seat", "sign-out", email)
    assert "0 seats signed out. 0 sessions ended." in command("seat", "sign-out", "--all")
    for wrong in ((), (email, "--all")):
        assert "or --all" in command("seat", "sign-out", *wrong, code=2)
    for unknown in ("enable", "sign-out"):
        assert "No seat" in command("seat", unknown, "nobody@example.org", code=1)
    trail = [json.loads(line) for line in command("audit", "--seat", email, "--json").splitlines()]
    actions = [event["action"] for event in trail]
    assert "password.set" in actions
    assert trail[0]["at"] <= trail[-1]["at"]
    assert all(
        event["action"] == "password.set"
        for event in map(json.loads, command("audit", "--action", "password.set").splitlines())
    )
    assert command("audit", "--until", "2020-01-01T00:00:00Z") == ""


def test_rotation_makes_the_next_key_the_signing_key(
    installation: tuple[Path, DemoDirectory], command: Command
) -> None:
    listed = lines(command("keys", "list"))[1:]
    assert [key["kid"] for key in json.loads(command("keys", "list", "--json"))] == [kid for kid, *_ in listed]
    before = {state: kid for kid, state, *_ in listed}
    assert f"{before['next']} signs now" in command("keys", "rotate")
    after = {kid: state for kid, state, *_ in lines(command("keys", "list"))[1:]}
    assert after[before["next"]] == "signing"
    assert after[before["signing"]] == "verify_only"
    assert sorted(after.values())[:3] == ["next", "signing", "verify_only"]
    assert stat.S_IMODE((installation[0] / "keyring.json").stat().st_mode) == 0o600


def test_doctor_reports_faults(
    installation: tuple[Path, DemoDirectory], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = installation
    command("snapshot", "run")
    healthy = command("doctor")
    assert "FAULT" not in healthy
    assert "8 Leaders" in healthy
    (folder / "files/snapshots").rename(folder / "unmounted")
    unmounted = command("doctor", code=1)
    (folder / "files/snapshots").rmdir()
    (folder / "unmounted").rename(folder / "files/snapshots")
    assert "Check files.url and that its disk is mounted" in unmounted
    assert "`daybreakd snapshot run`" in unmounted
    (folder / "keyring.json").chmod(0o644)
    monkeypatch.setenv("DAYBREAK_SOURCE__LOCATION", str(folder / "nowhere"))
    monkeypatch.setenv("DAYBREAK_BASE_URL", "http://export.example.org")
    faulty = command("doctor", code=1)
    (folder / "keyring.json").chmod(0o600)
    faults = [line for line in faulty.splitlines() if line.startswith("FAULT")]
    assert [line.split()[1].rstrip(":") for line in faults] == ["addresses", "keyring", "source"]
    assert "chmod 600" in faulty
    assert "does not exist. Set it to a DuckDB file" in faulty
    monkeypatch.delenv("DAYBREAK_SOURCE__LOCATION")
    settings = folder / "daybreak.toml"
    text, mode = settings.read_text(), settings.stat().st_mode
    with_secret = text.replace('# username = ""', 'username = "daybreak"').replace('# password = ""', 'password = "x"')
    settings.write_text(with_secret)
    for readable in (0o640, 0o604):
        settings.chmod(readable)
        report = command("doctor", code=1)
        assert f"contains a secret in mail.password, and other users can read it (mode {readable:04o})" in report
    settings.chmod(0o600)
    assert "ok    configuration:" in command("doctor", code=1), "base_url is plain HTTP"
    settings.write_text(text)
    settings.chmod(mode)
    monkeypatch.setenv("DAYBREAK_BASE_URL", "http://localhost:9999")
    assert "the service listens on 127.0.0.1:8400, so links lead nowhere" in command("doctor", code=1)
    proxied = (("DAYBREAK_TRUSTED_PROXIES", "127.0.0.1"), ("DAYBREAK_LISTEN", f"unix:{folder}/socket"))
    for base_url in ("http://localhost:9999", "https://export.example.org"):
        monkeypatch.setenv("DAYBREAK_BASE_URL", base_url)
        for name, value in proxied:
            with pytest.MonkeyPatch.context() as behind_a_proxy:
                behind_a_proxy.setenv(name, value)
                assert "ok    addresses:" in command("doctor")
    assert "FAULT addresses: base_url is HTTPS" in command("doctor", code=1)


def test_deep_doctor_runs_own_models(
    installation: tuple[Path, DemoDirectory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAYBREAK_SNAPSHOT__MODELS_DIR", str(tmp_path))
    own = load_models()["communities"].sql.replace("COALESCE(belonging.member_count, 0)", "c.community_name")
    (tmp_path / "communities.sql").write_text(own)
    settings = load_settings(installation[0] / "daybreak.toml", os.environ)
    assert "communities.sql" not in _source(settings), "the types of the columns are right"
    with pytest.raises(OperatorError, match=r"communities\.sql .*Could not convert string"):
        check_own_models(settings)
    (tmp_path / "communities.sql").write_text(load_models()["communities"].sql)
    assert check_own_models(settings) == "1 model run for up to 1,000 rows"
    (tmp_path / "campaigns.sql").write_text(ENDLESS_MODEL.sql)
    source = open_source(load_settings(installation[0] / "daybreak.toml", os.environ))
    expected = f"2 models run for up to 1,000 rows. Stopped after 2.0 s: {tmp_path}/campaigns.sql"
    assert run_own_models(source, now_utc(), 2) == expected
    (tmp_path / "communities.sql").write_text(own)
    with pytest.raises(OperatorError, match=r"(?s)communities\.sql .*Stopped after 2\.0 s: .*campaigns\.sql"):
        run_own_models(open_source(load_settings(installation[0] / "daybreak.toml", os.environ)), now_utc(), 2)


@pytest.mark.release
def test_deep_doctor_checks_a_large_file_and_the_other_nodes(
    installation: tuple[Path, DemoDirectory], command: Command, s3_bucket: S3Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, directory = installation
    command("snapshot", "run")
    kept = sorted(path.name for path in (folder / "files/snapshots").iterdir())
    checks = {each["check"]: each for each in map(json.loads, command("doctor", "--deep", "--json").splitlines())}
    assert "20.0 MB written and read" in checks["large file"]["detail"]
    assert checks["webhook hosts"]["detail"] == "0 hosts resolved"
    assert sorted(path.name for path in (folder / "files/snapshots").iterdir()) == kept
    now = now_utc()
    other = Node("n1", "host-b", "0.0.1", now, now + timedelta(hours=1), ("web",), "other")
    account = directory.seat(OWNER_EMAIL).client_ids[0]
    webhook = Webhook("e1", account, "https://*/", "k.sealed", now, "seat", OWNER_EMAIL)
    with closing(open_state(load_settings(folder / "daybreak.toml", {}))) as state:
        state.write(lambda stores: stores.nodes.record_heartbeat(other))
        state.write(lambda stores: stores.webhooks.add(webhook))
        for name, value in s3_bucket.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("DAYBREAK_FILES__URL", s3_bucket.url)
        monkeypatch.setenv("DAYBREAK_FILES__PATH_STYLE", "true")
        report = command("doctor", "--deep", code=1)
        state.write(lambda stores: stores.nodes.delete_before(now + timedelta(hours=2)))
        state.write(lambda stores: stores.webhooks.remove("e1"))
    assert "ok    large file: 20.0 MB written and read" in report
    assert "FAULT nodes: host-b (web) runs version 0.0.1" in report
    assert "host-b (web) has another keyring" in report
    assert "FAULT webhook hosts: The webhook host * cannot be resolved" in report


@pytest.mark.release
def test_doctor_reports_a_full_file_store(
    installation: tuple[Path, DemoDirectory], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalDisk, "free_space", lambda _store: FreeSpace(RESERVE_BYTES))
    assert f"ok    file store: file://{installation[0]}/files, 67.1 MB free" in command("doctor")
    monkeypatch.setattr(LocalDisk, "free_space", lambda _store: FreeSpace(RESERVE_BYTES, 1_000))
    assert "files, 67.1 MB and 1,000 inodes free" in command("doctor")
    monkeypatch.setattr(LocalDisk, "free_space", lambda _store: FreeSpace(RESERVE_BYTES, 999))
    assert f"FAULT file store: Only 999 free inodes in file://{installation[0]}/files" in command("doctor", code=1)
    monkeypatch.setattr(LocalDisk, "free_space", lambda _store: FreeSpace(3_000_000))
    report = command("doctor", code=1)
    assert f"FAULT file store: Only 3.0 MB free in file://{installation[0]}/files." in report
    assert "Free some space, or keep fewer snapshots (snapshot.keep)." in report


@pytest.mark.release
def test_doctor_names_snapshots_of_another_instance(installation: tuple[Path, DemoDirectory], command: Command) -> None:
    command("snapshot", "run")
    assert "not in the state database" not in command("doctor")
    others = [f"{place}1111111-1111-4111-8111-111111111111" for place in range(4)]
    places = ("snapshots", "snapshots", "deltas", "staging")
    folders = [installation[0] / "files" / place / other for place, other in zip(places, others, strict=True)]
    for folder in folders:
        (folder / "7d").mkdir(parents=True)
    report = command("doctor")
    for folder in folders:
        shutil.rmtree(folder)
    (line,) = [line for line in report.splitlines() if "not in the state database" in line]
    assert line.startswith("ok    file store: ")
    assert line.endswith(f": {', '.join(others[:3])} and 1 more")


@pytest.mark.release
def test_doctor_reports_late_files_in_sentences(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    command("snapshot", "run")
    two_days_later = now_utc().replace(hour=12) + timedelta(days=2)
    monkeypatch.setattr("daybreak.cli.doctor.now_utc", lambda: two_days_later)
    tomorrow = two_days_later + timedelta(days=1)
    assert (
        "FAULT freshness: The run for today's files has not started. It starts as soon as possible. "
        f"Next files expected {tomorrow:%Y-%m-%d} 04:00:00 UTC.\n"
    ) in command("doctor", code=1)


@pytest.mark.release
def test_libraries_print_nothing_at_exit(installation: tuple[Path, DemoDirectory]) -> None:
    """Runs in a separate process, because libraries print when it ends."""
    command = [sys.executable, "-m", "daybreak.cli.main", "doctor", "-c", str(installation[0] / "daybreak.toml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert "source: duckdb" in done.stdout
    assert done.stderr == ""


def test_errors_name_the_cause_and_the_fix(
    installation: tuple[Path, DemoDirectory], command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unavailable component, an unusable path, a port in use, a repeated init."""
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"not a database, but long enough to be read" * 100)
    monkeypatch.setenv("DAYBREAK_STATE__URL", f"sqlite:///{broken}")
    assert "damaged or not a SQLite database" in command("seat", "list", code=1)
    doctor = command("doctor", code=1)
    assert "\n        state.url: file is not a database" in doctor
    assert "FAULT clock: not checked, see state database\n" in doctor
    checks = [json.loads(line) for line in command("doctor", "--json", code=1).splitlines()]
    # The checks that read the state database, and no other.
    failures = {check["check"] for check in checks if not check["ok"]}
    assert failures >= {"state database", "keyring", "background tasks", "clock", "freshness"}
    assert failures.isdisjoint({"configuration", "addresses", "file store", "source", "disk", "encoder", "mail"})
    (failed,) = [check for check in checks if check["check"] == "state database"]
    assert "file is not a database" in failed["detail"]
    monkeypatch.setenv("DAYBREAK_STATE__URL", f"sqlite:///{tmp_path}/unmounted/state.db")
    assert "unmounted/state.db does not exist or is empty. Check state.url" in command("serve", code=1)
    assert not (tmp_path / "unmounted").exists()
    monkeypatch.delenv("DAYBREAK_STATE__URL")
    assert f"{tmp_path} cannot be read" in command("directory", "import", str(tmp_path), code=1)
    (tmp_path / "file").touch()
    monkeypatch.setenv("DAYBREAK_SNAPSHOT__TEMP_DIR", str(tmp_path / "file" / "below"))
    unusable = f"FAULT disk: The spill folder {tmp_path}/file/below cannot be used: {tmp_path}/file is not a folder."
    assert unusable in command("doctor", code=1)
    monkeypatch.setenv("DAYBREAK_FILES__URL", str(tmp_path / "file" / "below"))
    for process in ("web", "builder"):
        failure = command(process, code=1)
        assert failure == f"daybreakd: files.url: the folder {tmp_path}/file/below cannot be used: Not a directory.\n"
    monkeypatch.delenv("DAYBREAK_FILES__URL")
    assert run(["init", str(tmp_path / "file" / "below")]) == 1
    for engine, code in (("oracle", 2), ("duckdb", 0)):
        assert run(["init", str(tmp_path / "again"), "--engine", engine]) == code
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run(["demo", str(tmp_path / "demo"), "--port", str(taken.getsockname()[1])]) == 1
    assert not (tmp_path / "demo").exists()


def test_state_is_copied_to_another_database(
    installation: tuple[Path, DemoDirectory], command: Command, tmp_path: Path
) -> None:
    exported = command("directory", "export")
    target = f"sqlite:///{tmp_path}/moved.db"
    assert run(["state", "copy", f"sqlite:///{installation[0]}/state.db", target]) == 0
    assert run(["state", "copy", "mysql://x", target]) == 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAYBREAK_STATE__URL", target)
        assert command("directory", "export").splitlines()[-1] == exported.splitlines()[-1]


@pytest.mark.release
def test_directory_is_synchronized_with_the_platform(
    installation: tuple[Path, DemoDirectory], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight Leaders become accounts, one seat has a grant. A sync that removes too much is refused."""
    folder, _ = installation
    command("directory", "import", str(folder / "directory.json"))
    seat = str(uuid.uuid4())
    new, renamed = f"new-{seat}@example.org", f"renamed-{seat}@example.org"
    monkeypatch.setenv(
        "DAYBREAK_DIRECTORY__ACCOUNTS",
        "SELECT leader_id AS client_id, leader_name AS first_name, '' AS last_name, '+15550100000' AS phone_number, "
        "'long_code' AS phone_number_type, 'active' AS status FROM leaders",
    )
    monkeypatch.setenv("DAYBREAK_DIRECTORY__SEATS", f"SELECT '{seat}' AS seat_id, '{new}' AS email")
    monkeypatch.setenv(
        "DAYBREAK_DIRECTORY__ACCESS",
        f"SELECT '{seat}' AS seat_id, min(leader_id::VARCHAR) AS client_id, "
        "'owner' AS roles, true AS data_export, true AS async_rest_api FROM leaders",
    )
    before = command("directory", "export")
    with monkeypatch.context() as wrong:
        wrong.setenv("DAYBREAK_DIRECTORY__SEATS", "SELEC 1")
        assert "daybreakd: directory.seats: " in command("directory", "sync", code=1)
        wrong.setenv("DAYBREAK_DIRECTORY__SEATS", f"SELECT 7 AS seat_id, '{new}' AS email")
        assert "seats row 1: seat_id must be a UUID" in command("directory", "sync", code=1), "why seats are removed"
    assert "max_removed_share" in command("directory", "sync", code=1)
    assert f"+ seat {new}" in command("directory", "sync", "--dry-run", "--accept-removals")
    assert command("directory", "export") == before
    command("directory", "sync", "--accept-removals")
    after = {seat["email"]: seat["disabled"] for seat in json.loads(command("directory", "export"))["seats"]}
    assert after.pop(new) is False
    assert set(after.values()) == {True}
    assert command("directory", "sync") == ""
    monkeypatch.setenv("DAYBREAK_DIRECTORY__SEATS", f"SELECT '{seat}' AS seat_id, '{renamed}' AS email")
    command("snapshot", "run")
    assert renamed in command("directory", "export"), "every run synchronizes the directory first"
    monkeypatch.setenv("DAYBREAK_DIRECTORY__SEATS", "SELECT nothing")
    assert " published:" in command("snapshot", "run"), "a failed query does not stop the run"


@pytest.mark.release
def test_files_are_copied_and_a_snapshot_is_forgotten(
    installation: tuple[Path, DemoDirectory], command: Command, tmp_path: Path
) -> None:
    folder, _ = installation
    first, second = (command("snapshot", "run").split()[0] for _ in range(2))
    target, inside = tmp_path / "copy", folder / "files" / "copy"
    assert "Create it, or mount its disk" in command("files", "copy", str(target), code=2)
    target.mkdir()
    assert "; 0 were there; 0 deleted; 0 faults" in command("files", "copy", str(target))
    assert command("files", "copy", str(target)).startswith("0 files copied")
    assert "has other files" in command("files", "copy", str(folder), code=2)
    for unsuitable in (folder / "files", inside):
        assert "is the store of files.url, or in it" in command("files", "copy", str(unsuitable), code=2)
    assert not inside.exists()
    assert "is not a folder or bucket" in command("files", "copy", "s3:/typo", code=2)
    assert "Its files are in use" in command("snapshot", "forget", second, code=1)
    assert f"{first} is forgotten" in command("snapshot", "forget", first)
    assert "has no files any more" in command("snapshot", "forget", first, code=1)
