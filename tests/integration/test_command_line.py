"""The operator's day on a small platform: each verb against real files, a real state database, a real source."""

import io
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from daybreak.bootstrap import now_utc, open_state
from daybreak.cli.main import run
from daybreak.demo.directory import OWNER_EMAIL, VISITOR_EMAIL, DemoDirectory, make_directory
from daybreak.demo.platform import make_platform
from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.settings import load_settings

AS_OF = datetime(2026, 11, 20, 4, tzinfo=UTC)
NEEDLESS = (
    "alembic",
    "cryptography",
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
def house(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DemoDirectory]:
    """A folder made by `init`, with a platform of eight Leaders and its directory imported."""
    folder = tmp_path_factory.mktemp("house")
    make_platform(folder / "platform", leaders=8, members=400, messages=1_200, as_of=AS_OF)
    directory = make_directory(folder / "platform", seed=7)
    (folder / "directory.json").write_text(directory.document, "utf-8")
    assert run(["init", str(folder)]) == 0
    assert run(["directory", "import", str(folder / "directory.json"), "-c", str(folder / "daybreak.toml")]) == 0
    return folder, directory


@pytest.fixture
def command(
    house: tuple[Path, DemoDirectory], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    """Runs a verb in that folder and gives what it printed; `code` is the exit code it must have."""
    capsys.readouterr()
    # The tests' own process would keep it.
    monkeypatch.setattr("daybreak.snapshots.builder.take_low_priority", lambda: None)

    def call(*arguments: str, code: int = 0) -> str:
        found = run([*arguments, "--config", str(house[0] / "daybreak.toml")])
        printed = capsys.readouterr()
        assert found == code, printed.err
        return printed.out if code == 0 else printed.out + printed.err

    return call


def lines(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.splitlines()]


def test_init_writes_private_files_and_never_overwrites(
    house: tuple[Path, DemoDirectory], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = house
    for name in ("daybreak.toml", "keyring.json", "state.db"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600, name
    before = (folder / "daybreak.toml").read_bytes()
    assert run(["init", str(folder)]) == 1
    assert "already" in capsys.readouterr().err
    assert (folder / "daybreak.toml").read_bytes() == before
    assert b'location = "platform"' in before
    assert b"# publish_at" in before


def test_a_keyring_that_is_lost_is_made_anew_as_told(
    house: tuple[Path, DemoDirectory], command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAYBREAK_KEYS__FILE", str(tmp_path / "keyring.json"))
    told = command("doctor", code=1)
    assert f"FAULT keyring: keys.file: {tmp_path}/keyring.json is not there" in told
    assert "the keyring.json of a folder that `daybreakd init FOLDER` makes" in told
    assert run(["init", str(tmp_path / "FOLDER")]) == 0
    (tmp_path / "FOLDER/keyring.json").rename(tmp_path / "keyring.json")
    assert "ok    keyring:" in command("doctor")


def test_importing_what_was_exported_changes_nothing(
    house: tuple[Path, DemoDirectory], command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, directory = house
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


def test_a_run_is_published_listed_shown_and_verified(house: tuple[Path, DemoDirectory], command: Command) -> None:
    folder, _ = house
    first = command("snapshot", "run", "--as-of", "2026-11-20T04:00:00Z").split()
    assert first[1] == "published:"
    listed = lines(command("snapshot", "list"))
    assert listed[0][:2] == ["SNAPSHOT", "STATE"]
    assert listed[1][:2] == [first[0], "published"]
    as_json = json.loads(command("snapshot", "list", "--json"))
    assert as_json[0]["snapshot_id"] == first[0]
    assert as_json[0]["as_of"] == "2026-11-20T04:00:00Z"
    shown = command("snapshot", "show", first[0][:8])
    assert "2026-11-20 04:00:00" in shown
    assert "members\t400\t" in shown
    assert " 0 damaged" in command("snapshot", "verify")
    damaged = max((folder / "files").rglob("*.gz"), key=lambda path: path.stat().st_size)
    content = damaged.read_bytes()
    damaged.chmod(0o600)
    damaged.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    told = command("snapshot", "verify", first[0], code=1)
    assert "its SHA-256 is another" in told
    assert " 1 damaged" in told
    assert "`daybreakd snapshot run --full`" in told
    damaged.write_bytes(content)
    assert "no snapshot begins" in command("snapshot", "show", "ffffffff", code=1)
    assert "only a complete or held one" in command("snapshot", "discard", first[0], code=1)
    assert "instant" in command("snapshot", "run", "--as-of", "yesterday", code=2)
    assert "lies ahead" in command("snapshot", "run", "--as-of", "9999-01-01", code=1)
    assert "would not be published" in command("snapshot", "run", "--as-of", "2026-11-20T03:59:59Z", code=1)
    assert lines(command("snapshot", "list")) == listed, "nothing was run for these"
    for words in (("snapshot", "list"), ("audit",)):
        assert "--limit" in command(*words, "--limit", "-1", code=2)
    assert command("snapshot", "watch") == ""


def test_a_run_in_a_pipe_writes_log_lines_alone_and_lets_others_go_first(house: tuple[Path, DemoDirectory]) -> None:
    script = (
        "import os\n"
        "from daybreak.cli.main import run\n"
        f"code = run(['snapshot', 'run', '--config', {str(house[0] / 'daybreak.toml')!r}])\n"
        "print(code, os.nice(0))\n"
    )
    before = os.nice(0)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-2:] == ["0", str(min(before + 10, 19))]
    logged = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["event"] for line in logged if line["event"] != "run.progress"] == ["run.started", "run.published"]
    told = [line for line in logged if line["event"] == "run.progress"]
    assert [line["phase"] for line in told][-1] == "complete"
    assert {line["resource_number"] for line in told if "resource" in line} == set(range(1, 10))
    assert told[-1]["rows"] == logged[-1]["rows"]


def test_a_run_loads_nothing_that_it_has_no_use_for(house: tuple[Path, DemoDirectory]) -> None:
    script = (
        "import sys\n"
        "from daybreak.cli.main import run\n"
        f"code = run(['snapshot', 'run', '--config', {str(house[0] / 'daybreak.toml')!r}])\n"
        f"print(code, sorted(set({NEEDLESS!r}) & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"


def test_list_and_watch_say_what_became_of_a_run_that_failed_or_was_killed(
    house: tuple[Path, DemoDirectory],
    command: Command,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def told(*arguments: str, code: int = 0) -> tuple[str, str]:
        assert run([*arguments, "--config", str(house[0] / "daybreak.toml")]) == code
        printed = capsys.readouterr()
        return printed.out, printed.err

    with monkeypatch.context() as away:
        away.setenv("DAYBREAK_SOURCE__LOCATION", str(tmp_path / "away"))
        command("snapshot", "run", code=1)
    for verb in ("list", "watch"):
        assert f"failed: source.location: {tmp_path}/away is not there" in told("snapshot", verb)[1]
    settings = load_settings(house[0] / "daybreak.toml", {})
    state = open_state(settings)
    killed = Snapshot(str(uuid.uuid4()), SnapshotState.BUILDING, AS_OF, now_utc(), builder="node-7:12")
    long_ago = now_utc() - timedelta(hours=1)
    try:
        state.write(lambda stores: stores.snapshots.begin_manual(killed, long_ago, 120))
        listed, said = told("snapshot", "list")
        assert lines(listed)[1][:2] == [killed.snapshot_id, "lapsed"]
        assert f"{killed.snapshot_id} lapsed: node-7:12 was last heard of at {long_ago:%Y-%m-%d %H:%M:%S} UTC." in said
        assert "No run is under way." in told("snapshot", "watch")[1]
        state.write(lambda stores: stores.snapshots.lapse(now_utc()))
    finally:
        state.close()
    # One whose builder dies while it is watched.
    dying = replace(killed, snapshot_id=str(uuid.uuid4()), started_at=now_utc())
    state = open_state(settings)
    try:
        state.write(lambda stores: stores.snapshots.begin_manual(dying, now_utc(), 2))
        assert f"{dying.snapshot_id} lapsed" in told("snapshot", "watch", code=1)[1]
        state.write(lambda stores: stores.snapshots.lapse(now_utc()))
    finally:
        state.close()
    command("snapshot", "run")


def test_a_suspicious_snapshot_waits_for_a_decision(
    house: tuple[Path, DemoDirectory], command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = command("snapshot", "run").split()[0]
    make_platform(tmp_path / "smaller", leaders=8, members=40, messages=120, as_of=AS_OF)
    monkeypatch.setenv("DAYBREAK_SOURCE__LOCATION", str(tmp_path / "smaller"))
    held = [command("snapshot", "run", code=1).split()[0] for _ in range(2)]
    assert "suspicious: members has" in command("snapshot", "show", held[0])
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


def test_what_is_odd_in_the_source_is_told(
    house: tuple[Path, DemoDirectory],
    command: Command,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    platform, odd = house[0] / "platform", tmp_path / "odd"
    shutil.copytree(platform, odd)
    kept, members = f"'{odd}/leaders.parquet'", f"'{platform}/members.parquet'"
    one = f"member_id = (SELECT max(member_id) FROM {members} SEMI JOIN {kept} USING (leader_id))"
    with duckdb.connect() as engine:
        engine.execute(f"COPY (SELECT * FROM '{platform}/leaders.parquet' ORDER BY ALL OFFSET 1) TO {kept}")
        engine.execute(
            f"COPY (SELECT * REPLACE (if({one}, 'robot', gender) AS gender, if({one}, NULL, subscription_state) "
            f"AS subscription_state) FROM {members}) TO '{odd}/members.parquet'"
        )
        homeless = f"SELECT count(*) FROM {members} ANTI JOIN {kept} USING (leader_id)"
        ((homeless_rows,),) = engine.execute(homeless).fetchall()
    monkeypatch.setenv("DAYBREAK_SOURCE__LOCATION", str(odd))
    assert run(["snapshot", "run", "--config", str(house[0] / "daybreak.toml")]) == 0
    made = capsys.readouterr()
    snapshot_id = made.out.split()[0]
    assert f"see `daybreakd snapshot show {snapshot_id}`" in made.err
    shown = command("snapshot", "show", snapshot_id)
    assert homeless_rows
    assert f"odd: members: {homeless_rows} rows are in no file, as table leaders does not have their Leader." in shown
    assert "odd: members: GENDER has a value that is not one of the listed in 1 rows." in shown
    assert "odd: members: SUBSCRIPTION_STATE is NULL in 1 rows, where it should never be." in shown
    monkeypatch.delenv("DAYBREAK_SOURCE__LOCATION")
    assert "odd:" not in command("snapshot", "show", command("snapshot", "run").split()[0])


def test_tokens_are_made_listed_and_revoked(
    house: tuple[Path, DemoDirectory], command: Command, tmp_path: Path
) -> None:
    _, directory = house
    owner, visitor = directory.seat(OWNER_EMAIL), directory.seat(VISITOR_EMAIL)
    account = ("--seat", owner.email, "--account", owner.client_ids[0])
    secret = command("token", "create", *account, "--name", "nightly", "--expires", "90d").strip()
    assert secret.startswith("service_api_")
    other = command("token", "create", *account).strip()
    listed = json.loads(command("token", "list", "--seat", owner.email, "--json"))
    by_name = {token["name"]: token["token_id"] for token in listed if token["state"] == "live"}
    assert by_name.keys() == {"nightly", "made by the operator"}
    assert secret not in json.dumps(listed)
    assert "is revoked" in command("token", "revoke", by_name["nightly"])
    assert "before" in command("token", "revoke", by_name["nightly"])
    (tmp_path / "report.txt").write_text(f"found in repo: {other}\nand {secret}", "utf-8")
    assert by_name["made by the operator"] in command("token", "revoke", "--leaked", str(tmp_path / "report.txt"))
    states = {token["state"] for token in json.loads(command("token", "list", "--json"))}
    assert states == {"revoked"}
    refused = command("token", "create", "--seat", visitor.email, "--account", visitor.client_ids[0], code=1)
    assert "data_export" in refused
    assert "no access" in command("token", "create", "--seat", visitor.email, "--account", owner.client_ids[-1], code=1)
    assert "--leaked" in command("token", "revoke", code=2)


def test_seats_get_passwords_roles_and_second_factors(
    house: tuple[Path, DemoDirectory], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    email = house[1].seat(VISITOR_EMAIL).email
    monkeypatch.setattr("sys.stdin", io.StringIO("nine lanterns in the fog\n"))
    assert "is set" in command("seat", "set-password", email)
    by_email = {line[0]: line[1:5] for line in lines(command("seat", "list"))[1:]}
    assert by_email[email] == ["live", "set", "off", "no"]
    (listed,) = [seat for seat in json.loads(command("seat", "list", "--json")) if seat["email"] == email]
    assert listed.keys() == {"seat_id", "email", "disabled", "password", "second_factor", "operator"}
    monkeypatch.setattr("sys.stdin", io.StringIO("aaaaaaaaaaaa\n"))
    assert "more different characters" in command("seat", "set-password", email, code=1)
    assert "is disabled" in command("seat", "disable", email)
    assert "is enabled" in command("seat", "enable", email)
    assert "is an operator" in command("seat", "grant-operator", email)
    assert "no operator" in command("seat", "revoke-operator", email)
    monkeypatch.setattr("sys.stdin", io.StringIO("000000\n"))
    command("seat", "enrol", email, code=1)
    assert "no second factor" in command("seat", "reset-second-factor", email)
    assert "no seat" in command("seat", "enable", "nobody@example.org", code=1)
    trail = [json.loads(line) for line in command("audit", "--seat", email, "--json").splitlines()]
    actions = [event["action"] for event in trail]
    assert "password.set" in actions
    assert trail[0]["at"] <= trail[-1]["at"]
    assert all(
        event["action"] == "password.set"
        for event in map(json.loads, command("audit", "--action", "password.set").splitlines())
    )
    assert command("audit", "--until", "2020-01-01T00:00:00Z") == ""


def test_keys_rotate_step_by_step(house: tuple[Path, DemoDirectory], command: Command) -> None:
    listed = lines(command("keys", "list"))[1:]
    assert [key["kid"] for key in json.loads(command("keys", "list", "--json"))] == [kid for kid, *_ in listed]
    before = {state: kid for kid, state, *_ in listed}
    assert f"{before['next']} signs now" in command("keys", "rotate")
    after = {kid: state for kid, state, *_ in lines(command("keys", "list"))[1:]}
    assert after[before["next"]] == "signing"
    assert after[before["signing"]] == "verify_only"
    assert sorted(after.values())[:3] == ["next", "signing", "verify_only"]
    assert stat.S_IMODE((house[0] / "keyring.json").stat().st_mode) == 0o600


def test_doctor_finds_what_is_wrong(
    house: tuple[Path, DemoDirectory], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = house
    command("snapshot", "run")
    healthy = command("doctor")
    assert "FAULT" not in healthy
    assert "8 Leaders" in healthy
    (folder / "files/snapshots").rename(folder / "unmounted")
    unmounted = command("doctor", code=1)
    (folder / "files/snapshots").rmdir()
    (folder / "unmounted").rename(folder / "files/snapshots")
    assert "see that files.url is right and its disk mounted" in unmounted
    assert "`daybreakd snapshot run --full`" in unmounted
    (folder / "keyring.json").chmod(0o644)
    monkeypatch.setenv("DAYBREAK_SOURCE__LOCATION", str(folder / "nowhere"))
    monkeypatch.setenv("DAYBREAK_BASE_URL", "http://export.example.org")
    sick = command("doctor", code=1)
    (folder / "keyring.json").chmod(0o600)
    faults = [line for line in sick.splitlines() if line.startswith("FAULT")]
    assert [line.split()[1].rstrip(":") for line in faults] == ["addresses", "keyring", "source"]
    assert "chmod 600" in sick
    assert "is not there: name a DuckDB file" in sick


def test_a_command_ends_without_a_word_of_its_libraries(house: tuple[Path, DemoDirectory]) -> None:
    """In a process of its own: what a library says when the process ends is no error of the operator's."""
    command = [sys.executable, "-m", "daybreak.cli.main", "doctor", "-c", str(house[0] / "daybreak.toml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert "source: duckdb" in done.stdout
    assert done.stderr == ""


def test_what_operators_are_told(
    house: tuple[Path, DemoDirectory], command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part that is away, with its cause; a path that cannot be had; a port that is taken; an init that may be
    tried again.
    """
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"not a database, but long enough to be looked at" * 100)
    monkeypatch.setenv("DAYBREAK_STATE__URL", f"sqlite:///{broken}")
    assert "its file is no SQLite database" in command("seat", "list", code=1)
    doctor = command("doctor", code=1)
    assert "\n        state.url: file is not a database" in doctor
    assert "FAULT clock: not looked at, see state database\n" in doctor
    checks = [json.loads(line) for line in command("doctor", "--json", code=1).splitlines()]
    assert [check["check"] for check in checks if not check["ok"]] == ["state database", "clock", "freshness"]
    assert "file is not a database" in checks[3]["detail"]
    monkeypatch.setenv("DAYBREAK_STATE__URL", f"sqlite:///{tmp_path}/unmounted/state.db")
    assert "unmounted/state.db is empty or not there: see that state.url is right" in command("serve", code=1)
    assert not (tmp_path / "unmounted").exists()
    monkeypatch.delenv("DAYBREAK_STATE__URL")
    assert f"{tmp_path} cannot be read" in command("directory", "import", str(tmp_path), code=1)
    (tmp_path / "file").touch()
    monkeypatch.setenv("DAYBREAK_SNAPSHOT__TEMP_DIR", str(tmp_path / "file" / "below"))
    assert f"FAULT disk: nothing can be spilled in {tmp_path}/file/below" in command("doctor", code=1)
    assert run(["init", str(tmp_path / "file" / "below")]) == 1
    for engine, code in (("oracle", 2), ("duckdb", 0)):
        assert run(["init", str(tmp_path / "again"), "--engine", engine]) == code
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run(["demo", str(tmp_path / "demo"), "--port", str(taken.getsockname()[1])]) == 1
    assert not (tmp_path / "demo").exists()


def test_the_state_moves_to_another_database(
    house: tuple[Path, DemoDirectory], command: Command, tmp_path: Path
) -> None:
    exported = command("directory", "export")
    target = f"sqlite:///{tmp_path}/moved.db"
    assert run(["state", "copy", f"sqlite:///{house[0]}/state.db", target]) == 0
    assert run(["state", "copy", "mysql://x", target]) == 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAYBREAK_STATE__URL", target)
        assert command("directory", "export").splitlines()[-1] == exported.splitlines()[-1]


def test_the_directory_comes_from_the_platform(
    house: tuple[Path, DemoDirectory], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight Leaders become accounts; one seat reaches the first. Then a query that loses most of them is refused."""
    folder, _ = house
    command("directory", "import", str(folder / "directory.json"))
    seat = str(uuid.uuid4())
    new, renamed = f"new-{seat}@example.org", f"renamed-{seat}@example.org"
    monkeypatch.setenv(
        "DAYBREAK_DIRECTORY__ACCOUNTS",
        "SELECT leader_id AS client_id, leader_name AS first_name, '' AS last_name, '+15550100000' AS phone_number, "
        "'long_code' AS phone_number_type, 'active' AS status FROM leaders",
    )
    monkeypatch.setenv(
        "DAYBREAK_DIRECTORY__SEATS",
        f"SELECT '{seat}' AS seat_id, '{new}' AS email",
    )
    monkeypatch.setenv(
        "DAYBREAK_DIRECTORY__ACCESS",
        f"SELECT '{seat}' AS seat_id, min(leader_id::VARCHAR) AS client_id, "
        "'owner' AS roles, true AS data_export, true AS async_rest_api FROM leaders",
    )
    before = command("directory", "export")
    with monkeypatch.context() as wrong:
        wrong.setenv("DAYBREAK_DIRECTORY__SEATS", "SELEC 1")
        assert "daybreakd: directory.seats: " in command("directory", "sync", code=1)
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
    assert renamed in command("directory", "export"), "every run brings the directory in line first"
    monkeypatch.setenv("DAYBREAK_DIRECTORY__SEATS", "SELECT nothing")
    assert " published:" in command("snapshot", "run"), "a query that fails does not cost the day's files"
