"""`fetch`, `sync` and `verify` with a service that signs, and with one that is replaced by an attacker."""

import gzip
import hashlib
import json
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from daybreak_client import connection
from daybreak_client.command import every_account, run
from tests.parts.delta_publisher import Publisher, community, publishing
from tests.parts.scripted_service import Reply
from tests.parts.signed_publisher import SignedPublisher
from tests.parts.statement_signer import ACCOUNT, NOW, SERVICE, Signer

OTHER_ACCOUNT = "0d909222-adf5-4547-93e0-e8f60c50f980"
REFUSED = 3
PROVED, EXPIRED, WRONG, UNSIGNED = 0, 4, 6, 7
EARLIER = (NOW - timedelta(minutes=5)).isoformat()


@pytest.fixture
def service(north: Publisher, monkeypatch: pytest.MonkeyPatch) -> SignedPublisher:
    monkeypatch.setattr(connection, "_FIRST_WAIT_SECONDS", 0.001)
    monkeypatch.setattr(every_account, "_POLL_SECONDS", 0.01)
    north.publish({"communities": [community(1, "Fans"), community(2, "Club")]})
    return SignedPublisher(north)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "exports")


def fetch(folder: str, *options: str) -> int:
    return run(["fetch", folder, *options])


def publish_again(service: SignedPublisher) -> None:
    number = len(service.publisher.versions) + 2
    service.publisher.publish({"communities": [community(1, "Fans"), community(number, "Choir")]})


def test_first_use_is_announced_once(service: SignedPublisher, folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    for announced in (True, False):
        assert fetch(folder, "--require-signed", "--quiet") == PROVED
        assert (f"First use of {SERVICE}" in capsys.readouterr().err) is announced
    assert run(["verify", folder]) == PROVED
    assert run(["verify", folder, "--offline"]) == PROVED


def test_unknown_service_is_not_verified(service: SignedPublisher, folder: str) -> None:
    assert fetch(folder) == PROVED
    assert service.publisher.count("trust") == 0
    assert run(["verify", folder]) == PROVED
    assert fetch(folder) == PROVED
    assert service.publisher.count("trust") > 0
    assert (Path(folder) / "statement.json.sig").exists()


def test_unsigned_service_is_refused(
    service: SignedPublisher, folder: str, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    service.signs = False
    assert fetch(folder, "--require-signed") == UNSIGNED
    assert run(["sync", target, "--require-signed"]) == UNSIGNED
    assert not Path(folder, "members.csv.gz").exists()
    assert fetch(folder) == PROVED
    capsys.readouterr()
    assert run(["verify", folder]) == UNSIGNED
    assert "has no trust file" in capsys.readouterr().err


def test_removed_signatures_are_noticed(service: SignedPublisher, folder: str) -> None:
    assert fetch(folder, "--require-signed") == PROVED
    service.signs = False
    assert fetch(folder) == UNSIGNED


def test_refused_account_does_not_stop_the_verification_of_others(
    service: SignedPublisher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """DAYBREAK_ACCOUNT selects none of several folders."""
    accounts = tmp_path / "accounts"
    for account in (ACCOUNT, OTHER_ACCOUNT):
        assert fetch(str(accounts / account)) == PROVED
    record = accounts / OTHER_ACCOUNT / "daybreak.json"
    record.write_text(record.read_text().replace(ACCOUNT, OTHER_ACCOUNT))
    answer = service.publisher.before_reply
    refusal = Reply(403, {"code": "not_your_account", "detail": "You have no access."})
    service.publisher.before_reply = lambda request: refusal if OTHER_ACCOUNT in request.path else answer(request)
    capsys.readouterr()
    assert run(["verify", str(accounts), "--json"]) == REFUSED
    printed = capsys.readouterr()
    assert [each["state"] for each in json.loads(printed.out)] == ["refused", "proved"]
    assert f"{accounts / OTHER_ACCOUNT}: You have no access." in printed.err


def test_pinned_trust_is_used_from_the_start(service: SignedPublisher, folder: str, tmp_path: Path) -> None:
    pinned = tmp_path / "trust"
    pinned.write_bytes(Signer().trust())
    assert fetch(folder, "--trust", str(pinned)) == WRONG
    assert not Path(folder, "members.csv.gz").exists()
    pinned.write_bytes(service.signer.trust())
    assert fetch(folder, "--trust", str(pinned)) == PROVED


def test_older_and_second_versions_are_refused(service: SignedPublisher, folder: str, target: str) -> None:
    publish_again(service)
    assert fetch(folder, "--require-signed") == PROVED
    newer = service.publisher.versions.pop()
    assert fetch(folder) == WRONG
    assert run(["sync", target]) == WRONG
    service.publisher.versions.append(replace(newer, as_of="2026-11-09T00:00:00Z"))
    assert fetch(folder) == WRONG
    service.publisher.versions[-1] = newer
    service.revision = 2
    assert fetch(folder) == PROVED
    service.revision = 1
    assert fetch(folder) == WRONG


def test_older_files_of_a_restored_service_are_noted(
    service: SignedPublisher, folder: str, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a trust file they replace the newer ones."""
    publish_again(service)
    for command in (["fetch", folder], ["sync", target]):
        assert run(command) == 0
    assert "restored" not in capsys.readouterr().err
    service.publisher.restore(1)
    for command in (["fetch", folder], ["sync", target]):
        assert run(command) == 0
        assert "Version 1 replaces version 2: the service was restored from a backup." in capsys.readouterr().err
    assert run(["fetch", folder, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["previous_version"] == 1


def test_late_files_are_refused_until_they_are_published(service: SignedPublisher, folder: str) -> None:
    service.changes[1] = {"expires_at": EARLIER}
    assert fetch(folder, "--require-signed") == EXPIRED
    assert fetch(folder, "--require-signed", "--wait", "0s") == EXPIRED
    publish_again(service)
    assert fetch(folder, "--require-signed", "--wait", "1m") == PROVED


def test_replaced_file_is_refused(service: SignedPublisher, folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    service.kept[1] = service.statement(1)
    service.publisher.versions[0].full["communities"] += b'"x"\n'
    assert fetch(folder, "--require-signed") == WRONG
    assert "communities.csv.gz: the service lists another file than the statement" in capsys.readouterr().err


def test_manifest_of_another_version_is_refused(
    service: SignedPublisher, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    signed = service.statement(1)
    publish_again(service)
    service.kept[2] = signed
    assert fetch(folder, "--require-signed") == WRONG
    assert "the files of one version with the statement of another" in capsys.readouterr().err


def test_older_folder_is_refused(service: SignedPublisher, folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert fetch(folder, "--require-signed") == PROVED
    publish_again(service)
    capsys.readouterr()
    assert run(["verify", folder, "--json"]) == WRONG
    assert json.loads(capsys.readouterr().out)["state"] == "wrong"
    assert fetch(folder) == PROVED
    assert run(["verify", folder, "--complete"]) == WRONG  # These statements have no row accounting.


def test_archive_is_proved_next_to_newer_files(service: SignedPublisher, folder: str) -> None:
    at = NOW - timedelta(hours=20)
    service.changes[1] = {"signed_at": (at - timedelta(minutes=1)).isoformat()}
    assert fetch(folder, "--require-signed") == PROVED
    publish_again(service)
    assert run(["verify", folder]) == WRONG
    assert run(["verify", folder, "--at", NOW.isoformat()]) == PROVED
    assert run(["verify", folder, "--at", at.isoformat()]) == WRONG  # The certificate was not valid yet.
    Path(folder, "statement.json.sig").unlink()
    assert run(["verify", folder, "--at", NOW.isoformat()]) == UNSIGNED


def test_rotated_trust_needs_the_recovery_key(
    service: SignedPublisher, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fetch(folder, "--require-signed") == PROVED
    before = service.trust
    service.signer.ca = ec.generate_private_key(ec.SECP256R1())
    service.trust = service.signer.trust(2)
    assert fetch(folder) == WRONG
    service.trust_signature = Signer().sign_trust(service.trust)
    assert fetch(folder) == WRONG
    service.trust_signature = service.signer.sign_trust(service.trust)
    assert fetch(folder) == PROVED
    assert "has a new trust file, version 2, signed by its recovery key" in capsys.readouterr().err
    service.trust = before
    assert fetch(folder) == WRONG
    service.trust = service.signer.trust(2) + b"# other\n"
    assert fetch(folder) == WRONG


def test_pinned_trust_survives_a_rotation(service: SignedPublisher, folder: str, tmp_path: Path) -> None:
    """A job has the first trust file for ever."""
    pinned = tmp_path / "trust"
    pinned.write_bytes(service.trust)
    command = ("--require-signed", "--trust", str(pinned))
    assert fetch(folder, *command) == PROVED
    archive = shutil.copytree(folder, tmp_path / "archive")
    service.signer.ca = ec.generate_private_key(ec.SECP256R1())
    service.trust = service.signer.trust(2)
    service.trust_signature = service.signer.sign_trust(service.trust)
    publish_again(service)
    for _ in range(2):
        assert fetch(folder, *command) == PROVED
    assert run(["verify", folder, "--offline", "--trust", str(pinned)]) == PROVED
    for offline in ((), ("--offline",)):
        assert run(["verify", str(archive), "--at", NOW.isoformat(), *offline]) == WRONG
        assert run(["verify", str(archive), "--at", NOW.isoformat(), "--trust", str(pinned), *offline]) == PROVED
    pinned.write_bytes(Signer().trust())
    assert fetch(folder, *command) == WRONG


def test_other_service_at_the_address_is_refused(service: SignedPublisher, folder: str) -> None:
    assert fetch(folder, "--require-signed") == PROVED
    service.trust = Signer("other.example.org").trust()
    assert fetch(folder) == WRONG


def test_other_service_cannot_revoke_keys(
    service: SignedPublisher, folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fetch(folder, "--require-signed") == PROVED
    with publishing(ACCOUNT) as (publisher,), monkeypatch.context() as there:
        there.setenv("DAYBREAK_SERVICE", publisher.service.url)
        publisher.publish({})
        SignedPublisher(publisher, service.signer, revoked=service.signer.revoked())
        assert fetch(folder + "2", "--require-signed") == WRONG
        assert "which this profile knows from" in capsys.readouterr().err
    assert fetch(folder, "--require-signed") == PROVED


def test_revoked_certificate_is_remembered(service: SignedPublisher, folder: str) -> None:
    service.revoked = service.signer.revoked()
    assert fetch(folder, "--require-signed") == WRONG
    service.revoked = b""
    assert fetch(folder, "--require-signed") == WRONG


@pytest.mark.parametrize("revoked", [b"ssh-ed25519", b"ssh-rsa AAAA", b"<html>", b"\xff", b"#" * 300_000])
def test_invalid_list_of_revoked_keys_is_refused(
    service: SignedPublisher, folder: str, revoked: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    service.revoked = revoked
    assert fetch(folder, "--require-signed") == WRONG
    assert "The list of revoked certificates is invalid." in capsys.readouterr().err


def test_sync_applies_signed_deltas(service: SignedPublisher, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sync", target, "--require-signed"]) == PROVED
    for _ in range(3):
        publish_again(service)
    capsys.readouterr()
    assert run(["sync", target, "--verify", "--json"]) == PROVED
    found = {each["resource"]: each for each in json.loads(capsys.readouterr().out)["resources"]}
    assert (found["communities"]["action"], found["communities"]["verified"]) == ("delta", "equal")


@pytest.mark.parametrize("statement_too", [False, True])
def test_sync_refuses_unsigned_changes(
    service: SignedPublisher, target: str, tmp_path: Path, *, statement_too: bool
) -> None:
    assert run(["sync", target, "--require-signed"]) == PROVED
    publish_again(service)
    publish_again(service)
    service.kept = {number: service.statement(number) for number in (1, 2, 3)}
    content = gzip.decompress(service.publisher.versions[1].deltas["communities.delta.csv.gz"])
    forged = gzip.compress(content.replace(b"Choir", b"Chore"), 1, mtime=0)
    service.publisher.replace_delta(2, "communities", forged, announce=True)
    if statement_too:
        del service.kept[2]
        assert hashlib.sha256(forged).hexdigest().encode() in service.statement(2)
    assert run(["sync", target]) == WRONG
    with duckdb.connect(str(tmp_path / "exports.duckdb")) as database:
        assert database.sql("SELECT DISTINCT version FROM _daybreak_sync").fetchall() == [(1,)]


@pytest.mark.release
def test_sync_loads_full_files_without_older_statements(
    service: SignedPublisher, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sync", target, "--require-signed"]) == PROVED
    publish_again(service)
    publish_again(service)
    service.changes[3] = {"previous": None}
    capsys.readouterr()
    assert run(["sync", target, "--json"]) == PROVED
    actions = {each["resource"]: each["action"] for each in json.loads(capsys.readouterr().out)["resources"]}
    assert actions["communities"] == "full"


@pytest.mark.release
def test_sync_reports_a_service_that_stopped(
    service: SignedPublisher, target: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert run(["sync", target, "--require-signed"]) == PROVED
    assert run(["sync", target]) == PROVED
    assert run(["sync", target]) == PROVED
    seen = tmp_path / "config" / "daybreak" / "proof" / SERVICE / f"{ACCOUNT}.json"
    seen.write_text(json.dumps({**json.loads(seen.read_text()), "expires_at": EARLIER}))
    assert run(["sync", target]) == EXPIRED


def test_damaged_memory_is_named(service: SignedPublisher, folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert fetch(folder, "--require-signed") == PROVED
    for path in Path(folder).parent.glob("config/daybreak/proof/*/*.json"):
        assert path.stat().st_mode & 0o777 == 0o600
        content = path.read_text()
        path.write_text("{")
        assert fetch(folder) == 2
        assert f"{path} is damaged" in capsys.readouterr().err
        path.write_text(content)


def test_memory_that_cannot_be_read_is_not_empty(
    service: SignedPublisher, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fetch(folder, "--require-signed") == PROVED
    seen = Path(folder).parent / "config" / "daybreak" / "proof"
    seen.rename(seen.with_name("moved"))
    seen.touch()
    assert fetch(folder) == 1
    assert str(seen) in capsys.readouterr().err
