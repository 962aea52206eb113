"""The command `daybreak fetch` with a scripted service: several accounts, waiting, files of another account."""

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from daybreak_client import connection, folder, provenance
from daybreak_client.command import every_account, run
from daybreak_client.folder import locked, replace_private
from tests.parts.scripted_service import DISCONNECT, Reply, Request, ScriptedService, scripted_service

NORTH, SOUTH = "7d909222-adf5-4547-93e0-e8f60c50f980", "c6b3a8a2-3a45-4b5e-9d35-0f3a1c5b7e11"
RESOURCES = ("communities", "members")
INSTANT = "2026-11-20T04:00:00Z"


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (connection, folder):
        monkeypatch.setattr(module, "_FIRST_WAIT_SECONDS", 0.001)
    monkeypatch.setattr(every_account, "_POLL_SECONDS", 0.01)


def content(client_id: str, resource: str) -> bytes:
    return f"{resource} of {client_id}".encode()


def manifest(client_id: str) -> dict[str, object]:
    def files(resource: str) -> list[dict[str, object]]:
        octets = content(client_id, resource)
        path = f"/download/v1/files/{client_id}/{resource}.csv.gz"
        digest = hashlib.sha256(octets).hexdigest()
        return [{"format": "csv", "path": path, "bytes": len(octets), "sha256": digest, "content_sha256": digest}]

    return {
        **dict.fromkeys(("as_of", "published_at", "next_expected_at"), INSTANT),
        "client_id": client_id,
        "snapshot_id": "c0000000-0000-4000-8000-000000000003",
        "version": 41,
        "late": False,
        "reason": None,
        "resources": [{"resource": each, "title": each, "rows": 1, "files": files(each)} for each in RESOURCES],
    }


def reply(request: Request, accounts: tuple[str, ...]) -> Reply:
    """Answer as a service with accounts that have two files each, for a session."""
    if request.path.endswith("/context") and request.method == "GET":
        names = {"first_name": "An", "last_name": "Account", "current_context": False, "roles": []}
        return Reply(200, {"data": [{"client_id": each, **names} for each in accounts]})
    if request.path.endswith("/context"):
        return Reply(200, {"data": {"token": "session"}})
    place, _, name = request.path.rpartition("/")
    client_id, resource = place.rpartition("/")[2], name.removesuffix(".csv.gz")
    if name == resource:
        return Reply(200, {"data": manifest(name)})
    if place.startswith("/links"):
        return Reply(200, content(client_id, resource))
    digest = hashlib.sha256(content(client_id, resource)).hexdigest()
    return Reply(200, {"data": {"url": f"/links/{client_id}/{name}", "sha256": digest}})


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedService]:
    monkeypatch.setenv("DAYBREAK_TOKEN", "session")
    for name in ("ACCOUNT", "TOKEN_FILE"):
        monkeypatch.delenv(f"DAYBREAK_{name}", raising=False)
    with scripted_service() as found:
        monkeypatch.setenv("DAYBREAK_SERVICE", found.url)
        found.script = lambda request: reply(request, (NORTH, SOUTH))
        yield found


@pytest.mark.parametrize("option", ["--only", "--format"])
@pytest.mark.parametrize("value", ["", " ,"])
def test_empty_list_of_names_is_refused(
    service: ScriptedService, tmp_path: Path, option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fetch", str(tmp_path / "exports"), "--account", NORTH, f"{option}={value}"]) == 2
    assert capsys.readouterr().err == f"daybreak: {option} is empty. Specify a name, or omit the option.\n"
    assert service.requests == []


def test_force_deletes_files_of_another_account(service: ScriptedService, tmp_path: Path) -> None:
    assert run(["fetch", str(tmp_path), "--account", NORTH]) == 0
    assert run(["fetch", str(tmp_path), "--account", SOUTH, "--only", "communities"]) == 2
    assert (tmp_path / "members.csv.gz").exists()
    assert run(["fetch", str(tmp_path), "--account", SOUTH, "--only", "communities", "--force"]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"daybreak.json", "communities.csv.gz"}
    assert (tmp_path / "communities.csv.gz").read_bytes() == content(SOUTH, "communities")


@pytest.mark.release
def test_interrupt_ends_a_stalled_download(service: ScriptedService, tmp_path: Path) -> None:
    stalled, resume = Event(), Event()

    def stall(request: Request) -> Reply:
        if request.path.startswith("/links/"):
            stalled.set()
            resume.wait(60)
            return Reply(DISCONNECT)
        return reply(request, (NORTH, SOUTH))

    service.script = stall
    # A test run in the background ignores the signal, and its processes inherit that.
    command = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from daybreak_client.command import main; main()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", command, "fetch", str(tmp_path), "--account", NORTH], stderr=subprocess.PIPE, text=True
    ) as process:
        assert stalled.wait(30)
        process.send_signal(signal.SIGINT)
        try:
            _, printed = process.communicate(timeout=20)
        finally:
            process.kill()
            resume.set()
    assert (process.returncode, printed) == (130, "daybreak: interrupted\n")


def test_refused_token_ends_the_accounts(
    service: ScriptedService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    accounts = (NORTH, SOUTH, *(f"d0000000-0000-4000-8000-00000000000{number}" for number in range(5)))
    refusal = Reply(401, {"code": "invalid_token", "detail": "The token is not valid."})
    service.script = lambda request: (
        refusal if (tmp_path / NORTH / "daybreak.json").exists() else reply(request, accounts)
    )
    assert run(["fetch", str(tmp_path), "--all-accounts", "--json"]) == 3
    printed = capsys.readouterr()
    fetched, failed = json.loads(printed.out)
    assert (fetched["client_id"], failed["client_id"], failed["error"]["code"]) == (NORTH, SOUTH, "invalid_token")
    assert printed.err.splitlines()[-1] == "daybreak: The remaining accounts are left out."


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_closed_pipe_does_not_stop_the_work(
    service: ScriptedService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unbuffered: str
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-c", "from daybreak_client.command import main; main()", "fetch", str(tmp_path)]
    done = subprocess.run([*command, "--all-accounts"], check=False, stdout=writer, stderr=writer)
    os.close(writer)
    assert done.returncode == 0
    assert {path.parent.name for path in tmp_path.rglob("members.csv.gz")} == {NORTH, SOUTH}


def test_full_standard_error_does_not_stop_the_work(service: ScriptedService, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from daybreak_client.command import main; main()", "fetch", str(tmp_path)]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run([*command, "--all-accounts"], check=False, stdout=subprocess.DEVNULL, stderr=full)
    assert done.returncode == 0
    assert {path.parent.name for path in tmp_path.rglob("members.csv.gz")} == {NORTH, SOUTH}


@pytest.mark.parametrize("selection", [["--account", NORTH], ["--all-accounts"]])
def test_wait_includes_sign_in_to_the_service(
    service: ScriptedService, tmp_path: Path, selection: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    service.script = lambda request: Reply(DISCONNECT) if len(service.requests) < 12 else reply(request, (NORTH, SOUTH))
    assert run(["fetch", str(tmp_path / "exports"), *selection, "--wait", "1m"]) == 0
    assert capsys.readouterr().err.count("Waiting for the service. ") == 1
    service.requests.clear()
    assert run(["fetch", str(tmp_path / "exports"), *selection]) == 5


def test_wait_includes_the_transfer(service: ScriptedService, tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        links = sum(each.path.startswith("/links") for each in service.requests)
        is_cut = request.path.startswith("/links") and links <= 6
        return Reply(DISCONNECT) if is_cut else reply(request, (NORTH,))

    service.script = script
    assert run(["fetch", str(tmp_path), "--account", NORTH, "--only", "members"]) == 5
    service.requests.clear()
    assert run(["fetch", str(tmp_path), "--account", NORTH, "--only", "members", "--wait", "1m"]) == 0


@pytest.mark.parametrize(
    "refusal",
    [
        Reply(403, {"code": "link_revoked", "detail": "This file has been replaced."}),
        Reply(403, {"code": "link_expired", "detail": "The link has expired."}),
        Reply(403, b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>"),
        Reply(404, b"<Error><Code>NoSuchKey</Code></Error>"),
    ],
    ids=["replaced", "expired", "expired in a bucket", "not in a bucket"],
)
def test_refused_link_is_requested_again(
    service: ScriptedService, tmp_path: Path, capsys: pytest.CaptureFixture[str], refusal: Reply
) -> None:
    refusals = [refusal] * 2
    service.script = lambda request: (
        refusals.pop() if refusals and request.path.startswith("/links") else reply(request, (NORTH,))
    )
    assert run(["fetch", str(tmp_path), "--account", NORTH, "--only", "members"]) == 0
    service.script = lambda request: refusal if request.path.startswith("/links") else reply(request, (NORTH,))
    assert run(["fetch", str(tmp_path), "--account", NORTH, "--only", "communities"]) == 5
    assert "Check the URL" not in capsys.readouterr().err


@pytest.mark.parametrize("accounts", [(NORTH, SOUTH), (NORTH,)])
def test_unwritable_folder_does_not_stop_other_accounts(
    service: ScriptedService, tmp_path: Path, accounts: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    service.script = lambda request: reply(request, accounts)
    (tmp_path / NORTH).touch()
    assert run(["fetch", str(tmp_path), "--all-accounts", "--json"]) == 1
    printed = capsys.readouterr()
    failed, *fetched = json.loads(printed.out)
    assert (failed["client_id"], failed["error"]["code"]) == (NORTH, "NotADirectoryError")
    assert [each["client_id"] for each in fetched] == list(accounts[1:])
    assert f"daybreak: An Account ({NORTH}): {tmp_path}/{NORTH}/daybreak.json: Not a directory" in printed.err


def test_full_disk_does_not_stop_other_accounts(
    service: ScriptedService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write = replace_private

    def fail_for_north(path: Path, text: str) -> None:
        if path.parent.name == NORTH:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, text)

    monkeypatch.setattr(provenance, "replace_private", fail_for_north)
    assert run(["fetch", str(tmp_path), "--all-accounts"]) == 1
    assert f"{tmp_path}/{NORTH}: No space left on device" in capsys.readouterr().err
    assert (tmp_path / SOUTH / "daybreak.json").exists()


def test_wait_for_late_files_is_announced_once(
    service: ScriptedService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late = Reply(404, {"code": "snapshot_not_ready", "detail": "Next attempt at 04:10 UTC."})
    service.script = lambda request: (
        late if len(service.requests) < 5 and request.method == "GET" else reply(request, (NORTH, SOUTH))
    )
    assert run(["fetch", str(tmp_path), "--account", NORTH, "--wait", "1m"]) == 0
    *announcements, _ = capsys.readouterr().err.splitlines()
    assert announcements == ["Waiting for today's files. Next attempt at 04:10 UTC."]


def test_notes_name_the_account(service: ScriptedService, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fetch", str(tmp_path), "--all-accounts"]) == 0
    notes = capsys.readouterr().err.splitlines()
    assert [note.split(" ")[:2] for note in notes] == [[f"{NORTH}:", "2"], [f"{SOUTH}:", "2"]]


def test_folder_of_an_account_out_of_reach_is_named_or_removed(
    service: ScriptedService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fetch", str(tmp_path), "--all-accounts", "--quiet"]) == 0
    (tmp_path / SOUTH / "notes.txt").touch()
    other = tmp_path / "c0000000-0000-4000-8000-000000000001"
    other.mkdir()
    (tmp_path / "c0000000-0000-4000-8000-000000000002").symlink_to(tmp_path / SOUTH)
    (other / "daybreak.json").write_text(json.dumps({"service": "https://other.example", "client_id": other.name}))
    service.script = lambda request: reply(request, (NORTH,))
    for options in (["--quiet"], ["--dry-run"]):
        assert run(["fetch", str(tmp_path), "--all-accounts", *options]) == 9
        assert f"daybreak: {SOUTH}: You can no longer access this account" in capsys.readouterr().err
    assert run(["fetch", str(tmp_path), "--all-accounts", "--prune", "--dry-run"]) == 0
    assert "would be removed" in capsys.readouterr().err
    assert (tmp_path / SOUTH / "members.csv.gz").exists()
    assert run(["fetch", str(tmp_path), "--all-accounts", "--prune"]) == 0
    assert f"{SOUTH}: removed from {tmp_path}." in capsys.readouterr().err
    assert [path.name for path in (tmp_path / SOUTH).iterdir()] == ["notes.txt"]
    assert (other / "daybreak.json").exists()
    assert (tmp_path / NORTH / "members.csv.gz").exists()
    assert run(["fetch", str(tmp_path), "--all-accounts", "--quiet"]) == 0


def test_busy_folder_has_an_exit_code(
    service: ScriptedService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with locked(tmp_path):
        assert run(["fetch", str(tmp_path), "--account", NORTH, "--lock-timeout", "0s"]) == 8
    assert "another process updates this folder. Try again later" in capsys.readouterr().err


def test_home_folder_is_found(service: ScriptedService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(["fetch", "~/exports", "--account", NORTH, "--quiet"]) == 0
    assert (tmp_path / "exports" / "members.csv.gz").exists()
    assert run(["fetch", "~unknown-user/exports", "--account", NORTH]) == 2
