"""`daybreak verify`: each attack is tried with it and with `ssh-keygen`."""

import base64
import csv
import gzip
import hashlib
import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from daybreak_client.command import run
from daybreak_client.errors import Busy, NotProved
from daybreak_client.folder import locked
from daybreak_client.proof.completeness import read_figures
from daybreak_client.proof.statement import SignedFile
from tests.parts.presence import absent
from tests.parts.statement_signer import (
    ACCOUNT,
    CONTENTS,
    NOW,
    OTHER_ACCOUNT,
    SERVICE,
    Signer,
    completeness,
    csv_files,
    statement,
    write_folder,
)

PROVED, EXPIRED, WRONG, UNSIGNED = 0, 4, 6, 7


@pytest.fixture(autouse=True)
def profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("SERVICE", "TOKEN", "TOKEN_FILE", "ACCOUNT", "PROFILE"):
        monkeypatch.delenv(f"DAYBREAK_{name}", raising=False)


@dataclass
class Consumer:
    """A folder with signed files, and both ways to check it."""

    home: Path
    signer: Signer = field(default_factory=Signer)
    files: dict[str, bytes] = field(default_factory=csv_files)

    def __post_init__(self) -> None:
        self.folder, self.trust = self.home / "exports", self.home / "trust"
        self.revoked: Path | None = None
        self.home.mkdir(exist_ok=True)
        self.trust.write_bytes(self.signer.trust())
        self.publish()

    def publish(self, content: bytes | None = None, signature: bytes | None = None) -> None:
        content = statement(self.files) if content is None else content
        write_folder(self.folder, self.files, content, self.signer.sign(content) if signature is None else signature)

    def daybreak(self, *options: str) -> int:
        return run(
            ["verify", str(self.folder), "--offline", "--trust", str(self.trust), "--account", ACCOUNT, *options]
        )

    def ssh_keygen(self) -> bool:
        """Verify with the commands of the documentation."""
        if shutil.which("ssh-keygen") is None:
            absent("ssh-keygen", "apt-get install openssh-client")
        revoked = ("-r", str(self.revoked)) if self.revoked else ()
        command = ["ssh-keygen", "-Y", "verify", "-f", str(self.trust), "-I", SERVICE, "-n", f"daybreak/{ACCOUNT}",
                   "-s", str(self.folder / "statement.json.sig"), *revoked]  # fmt: skip
        content = (self.folder / "statement.json").read_bytes()
        signed = subprocess.run(command, input=content, capture_output=True, check=False).returncode == 0
        subjects = json.loads(content)["subject"] if signed else []
        sums = "".join(f"{each['digest']['sha256']}  {each['name']}\n" for each in subjects)
        files = subprocess.run(
            ["sha256sum", "-c", "--quiet"], input=sums, text=True, capture_output=True, check=False, cwd=self.folder
        )
        return signed and files.returncode == 0


@pytest.fixture
def consumer(tmp_path: Path) -> Consumer:
    return Consumer(tmp_path)


def test_published_files_are_proved(consumer: Consumer, capsys: pytest.CaptureFixture[str]) -> None:
    assert consumer.ssh_keygen()
    assert consumer.daybreak() == PROVED
    assert f"Proved: 9 files of account {ACCOUNT}, version 48 of {SERVICE}." in capsys.readouterr().err


def flip_bit(consumer: Consumer) -> None:
    path = consumer.folder / "members.csv.gz"
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)


def edit_statement(consumer: Consumer) -> None:
    path = consumer.folder / "statement.json"
    path.write_bytes(path.read_bytes().replace(b'"version":48', b'"version":49'))


def serve_other_account(consumer: Consumer) -> None:
    content = statement(consumer.files, client_id=OTHER_ACCOUNT)
    consumer.publish(content, consumer.signer.sign(content, client_id=OTHER_ACCOUNT))


def replace_by_other_version(consumer: Consumer) -> None:
    (consumer.folder / "members.csv.gz").write_bytes(gzip.compress(b"LEADER_ID,MEMBER_ID\n", mtime=0))


def remove_file(consumer: Consumer) -> None:
    (consumer.folder / "communities.csv.gz").unlink()


def serve_expired(consumer: Consumer) -> None:
    until = NOW - timedelta(minutes=5)
    content = statement(consumer.files, expires_at=until.isoformat())
    consumer.publish(content, consumer.signer.sign(content, consumer.signer.certificate(valid_before=until)))


def sign_with_other_ca(consumer: Consumer) -> None:
    content = statement(consumer.files)
    consumer.publish(content, Signer().sign(content))


def certify_other_service(consumer: Consumer) -> None:
    content = statement(consumer.files)
    certificate = consumer.signer.certificate(principals=("other.example.org",))
    consumer.publish(content, consumer.signer.sign(content, certificate))


def sign_for_other_purpose(consumer: Consumer) -> None:
    content = statement(consumer.files)
    consumer.publish(content, consumer.signer.sign(content, client_id=OTHER_ACCOUNT))


def certify_later(consumer: Consumer) -> None:
    content = statement(consumer.files)
    certificate = consumer.signer.certificate(valid_after=NOW + timedelta(hours=2))
    consumer.publish(content, consumer.signer.sign(content, certificate))


def revoke(consumer: Consumer) -> None:
    consumer.revoked = consumer.home / "revoked"
    consumer.revoked.write_bytes(consumer.signer.revoked())
    seen = consumer.home / "config" / "daybreak" / "proof" / SERVICE / "service.json"
    consumer.daybreak()
    value = json.loads(seen.read_text())
    seen.write_text(json.dumps({**value, "revoked": consumer.signer.revoked().decode().splitlines()}))


ATTACKS: tuple[tuple[Callable[[Consumer], None], int, str], ...] = (
    (flip_bit, WRONG, "members.csv.gz: differs from the file that the service signed for version 48."),
    (edit_statement, WRONG, "statement.json: The signature does not belong to the content."),
    (serve_other_account, WRONG, f"The signature is for daybreak/{OTHER_ACCOUNT}, not for daybreak/{ACCOUNT}."),
    (replace_by_other_version, WRONG, "members.csv.gz: differs"),
    (remove_file, WRONG, "communities.csv.gz: missing"),
    (serve_expired, EXPIRED, "The files are late or an old copy, or the clock is fast."),
    (sign_with_other_ca, WRONG, f"A CA that {SERVICE} does not list in its trust file issued the certificate."),
    (certify_other_service, WRONG, f"The certificate is for other.example.org, not for {SERVICE}."),
    (sign_for_other_purpose, WRONG, f"The signature is for daybreak/{OTHER_ACCOUNT}"),
    (certify_later, WRONG, "Check the clock."),
    (revoke, WRONG, "The certificate of the signature is revoked."),
)


@pytest.mark.parametrize(("attack", "code", "message"), ATTACKS, ids=[each[0].__name__ for each in ATTACKS])
def test_attack_is_refused(
    attack: Callable[[Consumer], None], code: int, message: str, consumer: Consumer,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    attack(consumer)
    capsys.readouterr()
    assert not consumer.ssh_keygen()
    assert consumer.daybreak() == code
    assert message in capsys.readouterr().err


def older_version(consumer: Consumer) -> bytes:
    return statement(consumer.files, version=47)


def second_statement(consumer: Consumer) -> bytes:
    return statement(consumer.files, as_of=(NOW - timedelta(hours=3)).isoformat())


def older_revision(consumer: Consumer) -> bytes:
    assert consumer.daybreak() == PROVED
    consumer.publish(statement(consumer.files, revision=2))
    assert consumer.daybreak() == PROVED
    return statement(consumer.files, revision=1)


def other_predecessor(consumer: Consumer) -> bytes:
    return statement(consumer.files, 49, previous={"version": 48, "revision": 1, "sha256": "0" * 64})


MEMORY = (
    (older_version, "These files are version 47. This profile has seen version 48."),
    (second_statement, "There are two statements of version 48."),
    (older_revision, "Revision 1 of version 48 was replaced by version 48, revision 2."),
    (other_predecessor, "follows another statement of version 48 than the one that was seen"),
)


@pytest.mark.parametrize(("attack", "message"), MEMORY, ids=[each[0].__name__ for each in MEMORY])
def test_attack_that_needs_memory_is_refused(
    attack: Callable[[Consumer], bytes], message: str, consumer: Consumer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert consumer.daybreak() == PROVED
    consumer.publish(attack(consumer))
    assert consumer.ssh_keygen()
    assert consumer.daybreak() == WRONG
    assert message in capsys.readouterr().err


def test_newer_version_that_follows_is_proved(consumer: Consumer) -> None:
    before = statement(consumer.files)
    consumer.publish(before)
    assert consumer.daybreak() == PROVED
    digest = hashlib.sha256(before).hexdigest()
    consumer.publish(statement(consumer.files, 49, previous={"version": 48, "revision": 1, "sha256": digest}))
    assert consumer.daybreak() == PROVED


def test_archive_is_proved_at_its_time(consumer: Consumer) -> None:
    serve_expired(consumer)
    at = (NOW - timedelta(minutes=20)).isoformat()
    assert consumer.daybreak("--at", at) == PROVED
    assert consumer.daybreak() == EXPIRED
    assert consumer.daybreak("--at", (NOW - timedelta(days=2)).isoformat()) == WRONG


def test_archive_does_not_change_the_memory(consumer: Consumer) -> None:
    consumer.publish(statement(consumer.files, version=60))
    assert consumer.daybreak("--at", datetime.now(UTC).isoformat()) == PROVED
    consumer.publish()
    assert consumer.daybreak() == PROVED


def test_no_change_of_the_signature_is_accepted(consumer: Consumer) -> None:
    path = consumer.folder / "statement.json.sig"
    good = path.read_bytes()
    head, _, rest = good.partition(b"\n")
    lines, end = rest[: rest.index(b"-----END")], rest[rest.index(b"-----END") :]
    blob = bytearray(base64.b64decode(lines))
    chance = random.Random(32)
    for _ in range(25):
        changed = bytearray(blob)
        changed[chance.randrange(len(blob))] ^= 1 << chance.randrange(8)
        path.write_bytes(head + b"\n" + base64.encodebytes(bytes(changed)) + end)
        assert consumer.daybreak("--quiet") == WRONG
    path.write_bytes(good)
    assert consumer.daybreak() == PROVED


@pytest.mark.parametrize(
    ("name", "template"), [("campaigns.json.gz", "[{},\n{}]"), ("campaigns.ndjson.gz", "{}\n{}\n")]
)
def test_figures_of_other_formats_are_read(name: str, template: str, tmp_path: Path) -> None:
    path = tmp_path / name
    names = ("SEGMENT_COUNT", "UNIT_COUNT", "RESPONSE_COUNT")
    rows = [json.dumps(dict(zip(names, values, strict=True))) for values in ((1, 2, None), (4, 5, 6))]
    content = template.format(*rows).encode()
    path.write_bytes(gzip.compress(content, mtime=0))
    figures = read_figures(path, SignedFile(name, "", 0, 0, ""))
    assert (figures.rows, figures.sums) == (2, {"SEGMENT_COUNT": 5, "UNIT_COUNT": 7, "RESPONSE_COUNT": 6})
    assert figures.content_sha256 == hashlib.sha256(content).hexdigest()


def test_long_fields_are_read_without_a_lasting_limit(tmp_path: Path) -> None:
    path, limit = tmp_path / "members.csv.gz", csv.field_size_limit()
    path.write_bytes(gzip.compress(b'"A"\n"' + b"x" * (2 * limit) + b'"\n'))
    assert read_figures(path, SignedFile(path.name, "", 0, 0, "")).rows == 1
    assert csv.field_size_limit() == limit


@pytest.mark.parametrize(
    ("name", "template"), [("members.csv.gz", '"A"\n"{}"\n'), ("members.json.gz", '[{{"A":"{}"}}]')]
)
def test_values_of_any_size_that_fits_in_memory_are_read(
    name: str, template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(template.format("x" * (20 << 20)).encode(), 1, mtime=0))
    assert read_figures(path, SignedFile(name, "", 0, 0, "")).rows == 1
    monkeypatch.setattr("daybreak_client.proof.completeness._MAX_BYTES", 1 << 20)
    with pytest.raises(NotProved, match="or has a value of more than 64 MiB"):
        read_figures(path, SignedFile(name, "", 0, 0, ""))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("campaigns.csv.gz", b'"A"\n"'),
        ("campaigns.csv.gz", b""),
        ("campaigns.ndjson.gz", b"[" * 100_000),
        ("campaigns.json.gz", b'[{"SEGMENT_COUNT":Infinity,"UNIT_COUNT":1,"RESPONSE_COUNT":1}]'),
        ("campaigns.json.gz", b'[{"SEGMENT_COUNT":' + b"9" * 9_000 + b"}]"),
        ("campaigns.json.gz", b"[7]"),
    ],
)
def test_hostile_content_is_not_proved(name: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(content, mtime=0))
    with pytest.raises(NotProved, match="is not a valid file of its format"):
        read_figures(path, SignedFile(name, "", 0, 0, ""))


@pytest.mark.parametrize(("name", "content"), [("members.json.gz", b"[]"), ("members.ndjson.gz", b"")])
def test_figures_of_empty_files_are_read(name: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(content, mtime=0))
    assert read_figures(path, SignedFile(name, "", 0, 0, "")).rows == 0


@pytest.mark.parametrize("name", ["statement.json", "statement.json.sig"])
def test_files_without_statement_are_unsigned(consumer: Consumer, name: str) -> None:
    (consumer.folder / name).unlink()
    assert consumer.daybreak() == UNSIGNED


def test_folder_that_a_fetch_updates_is_busy(consumer: Consumer) -> None:
    with locked(consumer.folder):
        assert consumer.daybreak("--lock-timeout", "0s") == Busy.exit_code


def test_additional_file_is_refused(consumer: Consumer, capsys: pytest.CaptureFixture[str]) -> None:
    (consumer.folder / "members2.CSV.GZ").write_bytes(b"")
    assert consumer.daybreak() == WRONG
    assert "members2.CSV.GZ: not in the statement of version 48." in capsys.readouterr().err


def test_name_of_a_file_begins_no_line(consumer: Consumer, capsys: pytest.CaptureFixture[str]) -> None:
    (consumer.folder / "x\nProved: 9 files.csv.gz").write_bytes(b"")
    assert consumer.daybreak() == WRONG
    assert "x\\nProved: 9 files.csv.gz: not in the statement" in capsys.readouterr().err


def test_folder_with_the_name_of_a_file_is_refused(consumer: Consumer) -> None:
    consumer.files["members.parquet"] = consumer.files["members.csv.gz"]
    consumer.publish()
    (consumer.folder / "members.parquet").unlink()
    assert consumer.daybreak("--format", "csv") == PROVED
    (consumer.folder / "members.parquet").mkdir()
    assert consumer.daybreak("--format", "csv") == WRONG


def test_file_of_another_version_is_named(consumer: Consumer, capsys: pytest.CaptureFixture[str]) -> None:
    replace_by_other_version(consumer)
    digest = hashlib.sha256((consumer.folder / "members.csv.gz").read_bytes()).hexdigest()
    record = {"service": "https://export.example.org", "client_id": ACCOUNT,
              "files": {"members.csv.gz": {"sha256": digest, "version": 47}}}  # fmt: skip
    (consumer.folder / "daybreak.json").write_text(json.dumps(record))
    assert consumer.daybreak() == WRONG
    assert "members.csv.gz: the file of version 47, not of version 48." in capsys.readouterr().err


def test_selected_files_are_enough(consumer: Consumer) -> None:
    for path in consumer.folder.glob("c*.csv.gz"):
        path.unlink()
    assert consumer.daybreak() == WRONG
    assert consumer.daybreak("--only", "members") == PROVED


def test_folder_of_another_account_is_refused(consumer: Consumer, capsys: pytest.CaptureFixture[str]) -> None:
    serve_other_account(consumer)
    record = {"service": "https://export.example.org", "client_id": OTHER_ACCOUNT, "files": {}}
    (consumer.folder / "daybreak.json").write_text(json.dumps(record))
    assert consumer.daybreak() == WRONG
    assert f"contains files of account {OTHER_ACCOUNT}, not of {ACCOUNT}" in capsys.readouterr().err


def test_folders_of_accounts_are_proved_together(
    consumer: Consumer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    accounts = tmp_path / "accounts"
    accounts.mkdir()
    shutil.copytree(consumer.folder, accounts / ACCOUNT)
    command = ["verify", str(accounts), "--offline", "--trust", str(consumer.trust), "--json"]
    assert run(command) == PROVED
    shutil.copytree(consumer.folder, accounts / OTHER_ACCOUNT)
    capsys.readouterr()
    assert run(command) == WRONG
    assert [each["state"] for each in json.loads(capsys.readouterr().out)] == ["proved", "wrong"]


def test_folder_of_another_service_is_refused(
    consumer: Consumer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both services are known. The profile selects one of them."""
    other = Consumer(tmp_path / "other", Signer("other.example.org"))
    for name, each in ((SERVICE, consumer), ("other.example.org", other)):
        monkeypatch.setenv("DAYBREAK_SERVICE", f"https://{name}")
        monkeypatch.setenv("DAYBREAK_TOKEN", "service_api_secret")
        each.publish(statement(each.files, service=name))
        assert each.daybreak() == PROVED
    record = {"service": f"https://{SERVICE}", "client_id": ACCOUNT, "files": {}}
    (consumer.folder / "daybreak.json").write_text(json.dumps(record))
    capsys.readouterr()
    assert run(["verify", str(consumer.folder), "--offline"]) == WRONG
    assert f"contains files of {SERVICE}, not of other.example.org" in capsys.readouterr().err


def test_trust_is_remembered(consumer: Consumer, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["verify", str(consumer.folder), "--offline"]
    assert run(command) == 2
    assert f"The trust file of {SERVICE} is unknown." in capsys.readouterr().err
    assert consumer.daybreak() == PROVED
    assert run(command) == PROVED


def test_older_trust_file_is_refused(consumer: Consumer, capsys: pytest.CaptureFixture[str]) -> None:
    consumer.trust.write_bytes(consumer.signer.trust(3))
    assert consumer.daybreak() == PROVED
    consumer.trust.write_bytes(consumer.signer.trust(2))
    assert consumer.daybreak() == WRONG
    assert "This profile has seen version 3." in capsys.readouterr().err


# A point of a curve in the short form, which OpenSSH does not accept.
COMPRESSED = base64.b64encode(b"\0\0\0\x13ecdsa-sha2-nistp256\0\0\0\x08nistp256\0\0\0\x21\x02" + bytes(32)).decode()


@pytest.mark.parametrize(
    "line",
    [
        "",
        "# daybreak trust 1 export.example.org\n# daybreak trust 2 export.example.org",
        "# daybreak trust 0 export.example.org",
        "# daybreak trust 1 ../export",
        f'# daybreak trust 1 {SERVICE}\n{SERVICE} cert-authority,namespaces="*" ssh-rsa AAAAB3NzaC1yc2E=',
        f"# daybreak trust 1 {SERVICE}\n{SERVICE} cert-authority ecdsa-sha2-nistp256 {COMPRESSED}",
        f"# daybreak trust 1 {SERVICE}\n{SERVICE} cert-authority ssh-ed25519 AAAA",
    ],
)
def test_invalid_trust_file_is_refused(consumer: Consumer, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    consumer.trust.write_text(line)
    assert consumer.daybreak() == 2
    assert "The trust file is invalid" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("pattern", "state"), [("*?" * 20 + "!", WRONG), ("*?" * 9 + "*", PROVED), ("daybreak/[a-z0-9]*", WRONG)]
)
def test_patterns_of_namespaces_are_compared_in_time(consumer: Consumer, pattern: str, state: int) -> None:
    trust = consumer.signer.trust().replace(b'namespaces="daybreak/*"', b'namespaces="%s"' % pattern.encode())
    assert pattern.encode() in trust
    consumer.trust.write_bytes(trust)
    assert consumer.daybreak() == state


@pytest.mark.parametrize(
    "changes",
    [
        {"options": {b"force-command": b"\0\0\0\x02ls"}},
        {"principals": ("other.example.org",)},
    ],
)
def test_certificate_for_another_purpose_is_refused(consumer: Consumer, changes: dict[str, Any]) -> None:
    content = statement(consumer.files)
    consumer.publish(content, consumer.signer.sign(content, consumer.signer.certificate(**changes)))
    assert consumer.daybreak() == WRONG


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda content: content[:-40],
        lambda content: content.replace(b"BEGIN SSH", b"BEGIN PGP"),
        lambda content: content[:60] + b"AAAA" + content[64:],
        lambda content: content + b"\n" * 70_000,
    ],
)
def test_damaged_signature_is_refused(consumer: Consumer, damage: Callable[[bytes], bytes]) -> None:
    path = consumer.folder / "statement.json.sig"
    path.write_bytes(damage(path.read_bytes()))
    assert consumer.daybreak() == WRONG


@pytest.mark.parametrize(
    "changes",
    [
        {"version": -1}, {"version": "48"}, {"expires_at": "soon"}, {"client_id": "a/../b"},
        {"deltas": {"members": {}}}, {"completeness": {"members": {}}}, {"service": "a/b"},
        {"service": "b.example.org"},
        {"previous": {"version": 48, "revision": 1, "sha256": "0" * 64}}, {"chain_id": "../.."},
        {"signed_at": (NOW + timedelta(hours=3)).isoformat()}, {"signed_at": "9999-12-31T23:59:59Z"},
    ],
)  # fmt: skip
def test_hostile_statement_is_refused(consumer: Consumer, changes: dict[str, Any]) -> None:
    consumer.publish(statement(consumer.files, **changes))
    assert consumer.daybreak() == WRONG


def test_complete_recomputes_rows_and_sums(consumer: Consumer, capsys: pytest.CaptureFixture[str]) -> None:
    assert consumer.daybreak("--complete") == PROVED
    assert "campaigns\tinbound_messages\t9\t5\tno_campaign 4" in capsys.readouterr().out


def changed_account(*path: str, value: object) -> dict[str, Any]:
    found = completeness()
    place: Any = found
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return found


def test_rules_that_read_alike_are_added(consumer: Consumer) -> None:
    account = {"source": 6, "exported": 3, "excluded": {"WHERE a <> 'b  c'": 1, "WHERE a <> 'b c'": 2}}
    consumer.publish(statement(consumer.files, completeness=changed_account("members", "members", value=account)))
    assert consumer.daybreak("--complete") == PROVED


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (changed_account("members", "members", value={"source": 4, "exported": 4}), "the number of rows is 3"),
        (changed_account("members", "members", "source", value=5), "2 rows of members are not accounted for"),
        (
            changed_account("campaigns", "inbound_messages", value={"source": 6, "exported": 6}),
            "the sum of RESPONSE_COUNT is 5. The statement says 6 for inbound_messages.",
        ),
        (
            changed_account("campaigns", "outbound_messages", "sums", "UNIT_COUNT", value=5),
            "the sum of UNIT_COUNT is 4. The statement says 5 for outbound_messages.",
        ),
        (
            changed_account("campaign_links", "link_hits", value={"source": 12, "exported": 12}),
            "the sum of HIT_COUNT is 6",
        ),
        (changed_account("members", "status", value="unexplained"), "could not explain all rows"),
        (None, "the statement has no row accounting"),
    ],
)
def test_complete_finds_wrong_figures(
    consumer: Consumer, changes: dict[str, Any] | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    consumer.publish(statement(consumer.files, completeness=changes))
    assert consumer.daybreak() == PROVED
    assert consumer.daybreak("--complete") == WRONG
    assert message in capsys.readouterr().err


def test_complete_names_resources_that_are_not_proved(consumer: Consumer, capsys: pytest.CaptureFixture[str]) -> None:
    consumer.publish(statement(consumer.files, completeness=changed_account("members", "status", value="declared")))
    assert consumer.daybreak("--complete") == PROVED
    assert "members: the service does not prove that all rows are in it (declared)." in capsys.readouterr().err


@pytest.mark.parametrize(
    "content",
    [b"", b"not gzip", gzip.compress(CONTENTS["members"], mtime=0)[:-9], gzip.compress(b'A\n"open', mtime=0)],
    ids=["empty", "no_gzip", "cut", "open_quote"],
)
def test_complete_refuses_files_that_cannot_be_read(consumer: Consumer, content: bytes) -> None:
    good = statement(consumer.files)
    value = json.loads(good)
    name = value["subject"][3]["name"]
    value["subject"][3]["digest"]["sha256"] = hashlib.sha256(content).hexdigest()
    value["predicate"]["files"][name]["bytes"] = max(len(content), 1)
    consumer.files[name] = content
    consumer.publish(json.dumps(value).encode())
    assert consumer.daybreak("--complete") == WRONG


@pytest.mark.parametrize(
    ("content", "state"),
    [("[" * 100_000, 2), ('{"files": 7}', 2), ("x" * (17 << 20), 2), (None, 2)],
    ids=["nested", "other shape", "large", "pipe"],
)
def test_unusable_record_of_a_folder_is_refused(consumer: Consumer, content: str | None, state: int) -> None:
    path = consumer.folder / "daybreak.json"
    os.mkfifo(path) if content is None else path.write_text(content)
    assert consumer.daybreak() == state


def test_statement_that_is_a_pipe_is_refused(consumer: Consumer) -> None:
    (consumer.folder / "statement.json").unlink()
    os.mkfifo(consumer.folder / "statement.json")
    assert consumer.daybreak() == 2


@pytest.mark.parametrize(
    ("resource", "account"),
    [
        ("members", None),
        ("members", {}),
        ("members", {"communities": {"source": 3, "exported": 3, "excluded": {}}}),
        ("campaign_links", {"link_hits": {"source": 6, "exported": 6, "excluded": {}}}),
    ],
)
def test_table_that_is_not_accounted_for_is_named(
    consumer: Consumer, resource: str, account: object, capsys: pytest.CaptureFixture[str]
) -> None:
    found = completeness() | {resource: account}
    consumer.publish(statement(consumer.files, completeness={name: each for name, each in found.items() if each}))
    assert consumer.daybreak() == PROVED
    assert consumer.daybreak("--complete") == WRONG
    assert f"the statement does not account for the rows of {resource}." in capsys.readouterr().err


def test_statement_without_a_resource_is_incomplete(consumer: Consumer, capsys: pytest.CaptureFixture[str]) -> None:
    del consumer.files["members.csv.gz"]
    (consumer.folder / "members.csv.gz").unlink()
    consumer.publish()
    assert consumer.daybreak("--complete") == WRONG
    assert "members: the statement of version 48 lists no file of it." in capsys.readouterr().err
    assert consumer.daybreak("--complete", "--only", "communities") == PROVED


def test_data_later_than_the_signature_is_refused(consumer: Consumer) -> None:
    consumer.publish(statement(consumer.files, as_of=(NOW + timedelta(days=1)).isoformat()))
    assert consumer.daybreak() == WRONG
