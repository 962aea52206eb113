"""Signed statements of runs: content, chain, publications in between, and erasures."""

import hashlib
import json
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from daybreak.credentials import signing_folder
from daybreak.credentials.signing_folder import CA_FILE, create_keys
from daybreak.domain.errors import OperatorError
from daybreak.domain.run_report import Finding
from daybreak.domain.signing import Trust, account_namespace
from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.filestore.file_store import FileStore
from daybreak.proof.statement_pack import SignedStatement
from daybreak.snapshots.copy_files import copy_files
from daybreak.snapshots.erase import erase_member
from daybreak.snapshots.publish import accept, publish
from daybreak.snapshots.run import run_day, run_manually
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.signed_statements import read_stored, statement_key
from daybreak.snapshots.trust import resume_above, revoke_publication, rotate_ca, signing_state
from daybreak.snapshots.verify import verify_snapshot
from daybreak.state.database import open_state
from daybreak.state.migrate import migrate
from tests.parts import killed_builder
from tests.parts.erasure import AS_OF, Person, make_person
from tests.parts.killed_builder import context_of
from tests.parts.presence import absent
from tests.parts.variants import one_of
from tests.parts.warm import run_warm
from tests.small_platform import create_state


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Person]:
    folder = tmp_path_factory.mktemp("platform")
    return folder / "platform", make_person(folder / "platform")


@pytest.fixture(scope="module")
def unpublished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with keys, to copy."""
    if shutil.which("ssh-keygen") is None:
        absent("ssh-keygen", "apt-get install openssh-client")
    folder = tmp_path_factory.mktemp("unpublished")
    create_state(folder)
    create_keys(folder / "signing")
    return folder


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, unpublished: Path, platform: tuple[Path, Person]) -> Path:
    """A folder with keys and a signed publication, to copy."""
    folder = shutil.copytree(unpublished, tmp_path_factory.mktemp("published"), dirs_exist_ok=True)
    with closing((context := context_of(folder, platform[0])).state):
        run_manually(context, as_of=AS_OF)
    return folder


@pytest.fixture
def context(request: pytest.FixtureRequest, tmp_path: Path, platform: tuple[Path, Person]) -> Iterator[RunContext]:
    """A context whose service signs, with a platform. In tests that use `first`, that snapshot is published."""
    copied = request.getfixturevalue("published" if "first" in request.fixturenames else "unpublished")
    shutil.copytree(copied, tmp_path, dirs_exist_ok=True)
    found = context_of(tmp_path, platform[0])
    yield found
    found.state.close()


@pytest.fixture
def first(context: RunContext) -> Snapshot:
    """The published snapshot, of AS_OF."""
    return served(context)


def signed(context: RunContext, client_id: str, version: int | None = None, revision: int | None = None) -> Any:
    """Return the stored statement of an account, None without one."""

    def read(stores: Any) -> str | None:
        found = stores.signatures.of_publication(version)
        return None if found is None else statement_key(stores, found, client_id, revision)

    key = context.state.read(read)
    return None if key is None else read_stored(context.store, key, client_id)


def predicate(statement: SignedStatement) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(statement.content)["predicate"]
    return found


def accounts(context: RunContext, snapshot: Snapshot) -> list[str]:
    return context.state.read(lambda stores: list(stores.snapshots.leaders(snapshot.snapshot_id)))


def digests(statement: SignedStatement) -> dict[str, str]:
    """Return the digests of the files in a statement."""
    return {each["name"]: each["digest"]["sha256"] for each in json.loads(statement.content)["subject"]}


def served(context: RunContext) -> Snapshot:
    found = context.state.read(lambda stores: stores.snapshots.current())
    assert found is not None
    return found


def trust_file(context: RunContext) -> Trust:
    found = context.state.read(lambda stores: stores.signatures.trust())
    assert found is not None
    return found


def ssh_keygen_accepts(
    context: RunContext, folder: Path, statement: SignedStatement, client_id: str, at: datetime | None = None
) -> bool:
    signer = ["-I", "export.example.org", "-n", account_namespace(client_id)]
    options = [*signer, f"-Overify-time={at or context.clock():%Y%m%d%H%M%SZ}"]
    return ssh_keygen_verifies(folder, trust_file(context), statement.content, statement.signature, options)


def ssh_keygen_verifies(folder: Path, trust: Trust, content: bytes, signature: bytes, options: Sequence[str]) -> bool:
    (folder / "trust").write_text(trust.text())
    (folder / "sig").write_bytes(signature)
    command = ["ssh-keygen", "-Y", "verify", "-f", "trust", "-s", "sig", *options]
    return subprocess.run(command, cwd=folder, input=content, capture_output=True, check=False).returncode == 0


def stored_digests(context: RunContext, snapshot: Snapshot, client_id: str) -> Mapping[str, str]:
    entries = context.state.read(lambda stores: stores.snapshots.manifest(snapshot.snapshot_id, client_id))
    endings = {"csv": ".csv.gz", "json": ".json.gz"}
    return {
        entry.resource + endings[name]: stored.sha256 for entry in entries for name, stored in entry.formats.items()
    }


def test_each_account_has_a_statement_of_its_files(context: RunContext, first: Snapshot, tmp_path: Path) -> None:
    clients = accounts(context, first)
    assert len(clients) > 1
    for client_id in clients:
        found = signed(context, client_id)
        content = predicate(found)
        assert digests(found) == stored_digests(context, first, client_id)
        assert content["client_id"] == client_id
        assert (content["version"], content["revision"]) == (1, 1)
        at = datetime.fromisoformat(content["signed_at"])
        assert ssh_keygen_accepts(context, tmp_path, found, client_id, at)
        assert not ssh_keygen_accepts(context, tmp_path, found, client_id, at + timedelta(hours=31))
        others = [each for each in clients if each != client_id]
        assert not any(other in found.content.decode() for other in others)


def test_rows_of_all_accounts_add_up_to_the_report(context: RunContext, first: Snapshot) -> None:
    sections = [predicate(signed(context, each))["completeness"] for each in accounts(context, first)]
    assert {section["status"] for section in sections} == {"proved"}
    assert first.report.accounting is not None
    for table in first.report.accounting.tables:
        if table.resource == "leaders":
            continue
        own = [section[table.resource][table.table] for section in sections]
        assert all(each["source"] == each["exported"] + sum(each["excluded"].values()) for each in own)
        of_no_account = sum(table.of_no_account.values())
        assert sum(each["source"] for each in own) + of_no_account == table.source
        assert sum(each["exported"] for each in own) == table.exported


def test_statements_form_a_chain(context: RunContext, first: Snapshot) -> None:
    client_id = accounts(context, first)[0]
    before = signed(context, client_id)
    run_manually(context, as_of=AS_OF + timedelta(hours=1))
    after = predicate(signed(context, client_id))
    assert after["previous"] == {
        "version": 1, "revision": 1, "sha256": hashlib.sha256(before.content).hexdigest()
    }  # fmt: skip
    assert after["chain_id"] == predicate(before)["chain_id"] == first.snapshot_id
    assert signed(context, client_id, version=1).content == before.content
    for delta in after["deltas"].values():
        assert delta["from"]["version"] == 1


def daily(context: RunContext, clock: list[datetime]) -> tuple[RunContext, Snapshot]:
    """Return a context at another time, and a complete snapshot of the day that waits for its hour."""
    moved = replace(context, clock=lambda: clock[0])
    found = run_day(moved, clock[0].date())
    assert found is not None
    assert found.state is SnapshotState.COMPLETE
    return moved, found


@pytest.mark.release
def test_publication_in_between_is_signed_again(context: RunContext) -> None:
    clock = [datetime(2030, 1, 2, 3, 0, tzinfo=UTC)]
    moved, waiting = daily(context, clock)
    other = run_manually(replace(context, clock=lambda: clock[0] - timedelta(minutes=30)))
    assert other.version == 1
    clock[0] += timedelta(hours=1)
    assert publish(moved.state, moved.store, moved.settings, waiting, clock[0])
    client_id = accounts(context, waiting)[0]
    found = predicate(signed(context, client_id))
    assert found["version"] == 2
    assert found["previous"]["version"] == 1
    assert found["completeness"]["status"] == "proved"
    assert found["expires_at"] == "2030-01-03T10:00:00Z"


def test_snapshot_that_waited_is_published_without_the_ca(context: RunContext, tmp_path: Path) -> None:
    clock = [datetime(2030, 1, 2, 3, 0, tzinfo=UTC)]
    moved, waiting = daily(context, clock)
    (tmp_path / "signing" / CA_FILE).unlink()
    clock[0] += timedelta(hours=1)
    assert publish(moved.state, moved.store, moved.settings, waiting, clock[0])
    assert predicate(signed(context, accounts(context, waiting)[0]))["expires_at"] == "2030-01-03T10:00:00Z"


@pytest.mark.usefixtures("first")
def test_service_that_signs_publishes_nothing_unsigned(context: RunContext, tmp_path: Path) -> None:
    (tmp_path / "signing" / CA_FILE).unlink()
    with pytest.raises(OperatorError, match="has no CA"):
        run_manually(context, as_of=AS_OF + timedelta(hours=1))
    assert served(context).version == 1


@pytest.mark.usefixtures("first")
def test_ca_of_a_stranger_signs_nothing(context: RunContext, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "signing")
    create_keys(tmp_path / "signing")
    for check in (run_manually, lambda each: signing_state(each.state, each.settings)):
        with pytest.raises(OperatorError, match=r"does not list the CA .* state database was restored.* trust rotate"):
            check(context)


def test_held_snapshot_is_signed_when_it_is_accepted(
    context: RunContext, first: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        finding = Finding("rows", "members", "fewer rows")
        patch.setattr("daybreak.snapshots.snapshot_run.comparison_findings", lambda *_: [finding])
        held = run_manually(context, as_of=AS_OF + timedelta(hours=1))
    assert held.state is SnapshotState.HELD
    run_manually(context, as_of=AS_OF + timedelta(minutes=30))
    done = accept(context.state, context.store, context.settings, held.snapshot_id, "checked", context.clock())
    found = predicate(signed(context, accounts(context, first)[0]))
    assert done.version == found["version"] == 3
    assert found["completeness"]["status"] == "proved"


@pytest.mark.release
def test_without_a_ca_files_are_not_signed(context: RunContext, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "signing")
    snapshot = run_manually(context, as_of=AS_OF)
    assert snapshot.state is SnapshotState.PUBLISHED
    assert signed(context, accounts(context, snapshot)[0]) is None
    assert context.state.read(lambda stores: stores.signatures.trust()) is None


def recovery(folder: Path) -> Path:
    return folder / "signing" / "recovery"


def test_rotation_keeps_earlier_signatures_valid(context: RunContext, first: Snapshot, tmp_path: Path) -> None:
    client_id = accounts(context, first)[0]
    before, now = signed(context, client_id), context.clock()
    assert rotate_ca(context.state, context.settings, recovery(tmp_path), now).version == 2
    run_manually(context, as_of=AS_OF + timedelta(hours=1))
    for statement in (before, signed(context, client_id)):
        assert ssh_keygen_accepts(context, tmp_path, statement, client_id)
    rotate_ca(context.state, context.settings, recovery(tmp_path), now)
    assert not ssh_keygen_accepts(context, tmp_path, before, client_id)
    assert signing_state(context.state, context.settings) == "export.example.org, trust file 3"


@pytest.mark.usefixtures("first")
def test_each_trust_file_is_signed_by_the_recovery_key(context: RunContext, tmp_path: Path) -> None:
    first = trust_file(context)
    second = rotate_ca(context.state, context.settings, recovery(tmp_path), context.clock())
    content, signature = second.text().encode(), second.signature.encode()
    signer = ("-I", "trust@export.example.org", "-n", "daybreak-trust")
    assert ssh_keygen_verifies(tmp_path, first, content, signature, signer)


@pytest.mark.usefixtures("first")
def test_recovery_key_is_replaced_only_on_request(context: RunContext, tmp_path: Path) -> None:
    create_keys(tmp_path / "other")
    other, now = tmp_path / "other" / "recovery", context.clock()
    with pytest.raises(OperatorError, match="not the recovery key"):
        rotate_ca(context.state, context.settings, other, now)
    assert trust_file(context).version == 1
    assert rotate_ca(context.state, context.settings, other, now, replace_recovery_key=True).version == 2
    with pytest.raises(OperatorError, match="not the recovery key"):
        rotate_ca(context.state, context.settings, recovery(tmp_path), now)
    assert rotate_ca(context.state, context.settings, other, now).version == 3


def test_revoked_ca_signs_nothing_that_waits(context: RunContext, tmp_path: Path) -> None:
    clock = [datetime(2030, 1, 2, 3, 0, tzinfo=UTC)]
    moved, waiting = daily(context, clock)
    rotate_ca(context.state, context.settings, recovery(tmp_path), clock[0], revoke=True)
    clock[0] += timedelta(hours=1)
    assert publish(moved.state, moved.store, moved.settings, waiting, clock[0])
    client_id = accounts(context, waiting)[0]
    assert ssh_keygen_accepts(context, tmp_path, signed(context, client_id), client_id, clock[0])
    assert len(context.state.read(lambda stores: stores.signatures.revoked())) == 1


def test_revoked_publication_is_listed(context: RunContext, first: Snapshot) -> None:
    assert revoke_publication(context.state, 1, context.clock()) == 1
    found = context.state.read(lambda stores: stores.signatures.of_snapshot(first.snapshot_id))
    assert found is not None
    assert context.state.read(lambda stores: stores.signatures.revoked()) == [found.public_key]
    with pytest.raises(OperatorError, match="not kept"):
        revoke_publication(context.state, 2, context.clock())


@pytest.mark.usefixtures("first")
def test_versions_resume_above_those_that_were_seen(context: RunContext) -> None:
    assert resume_above(context.state, 47, context.clock()) == 47
    snapshot = run_manually(context, as_of=AS_OF + timedelta(hours=1))
    assert snapshot.version == 48
    # Consumers may have seen version 1 with other content.
    assert predicate(signed(context, accounts(context, snapshot)[0]))["previous"] is None
    assert resume_above(context.state, 48, context.clock()) == 49, "a gap after the published version"


def test_erasure_signs_every_kept_version_again(
    context: RunContext, tmp_path: Path, platform: tuple[Path, Person]
) -> None:
    person = platform[1]
    versions = [run_manually(context, as_of=AS_OF + timedelta(hours=hour)) for hour in range(3)]
    other = next(each for each in accounts(context, versions[0]) if each != person.client_id)
    before = signed(context, other), [signed(context, person.client_id, version=number) for number in (1, 2, 3)]
    erasure = erase_member(context, person.member_id, "tests", lambda _run: None)
    assert signed(context, other).content == before[0].content
    sha256: dict[int, str] = {}
    for snapshot in versions:
        assert snapshot.version is not None
        found = signed(context, person.client_id, version=snapshot.version)
        content = predicate(found)
        assert (content["version"], content["revision"]) == (snapshot.version, 2)
        assert digests(found) == stored_digests(context, snapshot, person.client_id)
        assert content["deltas"] == {}
        assert ssh_keygen_accepts(context, tmp_path, found, person.client_id)
        members = content["completeness"]["members"]["members"]
        assert members["excluded"]["erased"] == 1
        assert members["source"] == members["exported"] + sum(members["excluded"].values())
        if snapshot.version > 1:
            assert content["previous"] == {
                "version": snapshot.version - 1, "revision": 2, "sha256": sha256[snapshot.version - 1]
            }  # fmt: skip
        sha256[snapshot.version] = hashlib.sha256(found.content).hexdigest()
        first = signed(context, person.client_id, version=snapshot.version, revision=1)
        assert first.content == before[1][snapshot.version - 1].content
    receipts = context.state.read(lambda stores: stores.erasures.receipts(erasure.erasure_id))
    assert list(receipts) == [person.client_id]
    text, signature = receipts[person.client_id]
    receipt = SignedStatement(text.encode(), signature.encode(), b"")
    assert ssh_keygen_accepts(context, tmp_path, receipt, person.client_id)
    files = predicate(receipt)["files"]
    assert {each["version"] for each in files} == {1, 2, 3}
    removed = {each["resource"]: each["rows_removed"] for each in files if each["version"] == 3}
    assert removed["members"] == 1
    assert person.member_id not in text
    run_manually(context, as_of=AS_OF + timedelta(hours=4))
    after = predicate(signed(context, person.client_id))
    assert after["previous"] == {"version": 3, "revision": 2, "sha256": sha256[3]}


@pytest.mark.release
def test_erasure_in_a_snapshot_that_waits_is_signed_at_its_publication(
    context: RunContext, platform: tuple[Path, Person]
) -> None:
    person = platform[1]
    clock = [datetime(2030, 1, 2, 3, 0, tzinfo=UTC)]
    moved, waiting = daily(context, clock)
    erase_member(moved, person.member_id, "tests", lambda _run: None)
    clock[0] += timedelta(hours=1)
    assert publish(moved.state, moved.store, moved.settings, waiting, clock[0])
    found = signed(context, person.client_id)
    assert digests(found) == stored_digests(context, waiting, person.client_id)
    members = predicate(found)["completeness"]["members"]["members"]
    assert members["excluded"]["erased"] == 1
    assert members["exported"] == predicate(found)["files"]["members.csv.gz"]["rows"]


def run_builder(folder: Path, platform: Path, hour: int, killed_in: str | int) -> subprocess.CompletedProcess[str]:
    return run_warm([folder, platform, str(hour), str(killed_in)], module=killed_builder.__name__)


@pytest.mark.release
@pytest.mark.parametrize(
    ("killed_in", "version"),
    [
        ("daybreak.snapshots.signing.encode_pack", 1),
        ("daybreak.state.signatures.SignatureStore.record", 1),
        ("daybreak.snapshots.publish.mark_publication", 1),
        ("daybreak.snapshots.run.publish_within", 1),
        ("daybreak.snapshots.publish.confirm_publication", 2),
    ],
)
@pytest.mark.usefixtures("first")
def test_killed_builder_leaves_files_and_statements_of_one_version(
    context: RunContext, tmp_path: Path, platform: tuple[Path, Person], killed_in: str, version: int
) -> None:
    assert run_builder(tmp_path, platform[0], 1, killed_in).returncode == -signal.SIGKILL
    assert version_of_files_and_statements(context) == version
    run_manually(context, as_of=AS_OF + timedelta(hours=2))
    assert version_of_files_and_statements(context) == version + 1


def version_of_files_and_statements(context: RunContext) -> int:
    """Return the published version, after a check that the statements of all accounts are those of its files."""
    current = served(context)
    for client_id in accounts(context, current):
        found = signed(context, client_id)
        expected = (current.version, stored_digests(context, current, client_id))
        assert (predicate(found)["version"], digests(found)) == expected
    assert current.version is not None
    return current.version


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("rounds", one_of(2, 50))
def test_builder_killed_at_any_call_after_signing_has_begun(
    context: RunContext, tmp_path: Path, platform: tuple[Path, Person], rounds: int
) -> None:
    calls, versions = int(run_builder(tmp_path, platform[0], 0, 0).stdout.split()[-1]), list[int]()
    for number in range(1, rounds + 1):
        killed_at = calls * (2 * number - 1) // (2 * rounds)
        killed = run_builder(tmp_path, platform[0], number, killed_at)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        versions.append(version_of_files_and_statements(context))
    assert versions == sorted(versions)


@pytest.mark.release
def test_statements_are_signed_and_read_on_postgresql(
    context: RunContext, postgresql_url: str, platform: tuple[Path, Person]
) -> None:
    person = platform[1]
    migrate(postgresql_url)
    with closing(open_state(postgresql_url)) as state:
        moved = replace(context, state=state)
        run_manually(moved, as_of=AS_OF)
        run_manually(moved, as_of=AS_OF + timedelta(hours=1))
        erase_member(moved, person.member_id, "tests", lambda _run: None)
        for version in (1, 2):
            found = predicate(signed(moved, person.client_id, version=version))
            assert (found["version"], found["revision"]) == (version, 2)
        assert rotate_ca(state, moved.settings, context.settings.signing.folder / "recovery", AS_OF).version == 2


SOFTHSM = Path("/usr/lib/softhsm/libsofthsm2.so")


@pytest.fixture(scope="session")
def token(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of an empty token. The library reads its configuration once in a process."""
    if not SOFTHSM.exists():
        absent("softhsm2", "apt-get install softhsm2")
    folder = tmp_path_factory.mktemp("token")
    (folder / "tokens").mkdir()
    (folder / "softhsm2.conf").write_text(f"directories.tokendir = {folder}/tokens\nobjectstore.backend = file\n")
    (folder / "pin").write_text("4711\n")
    (folder / "pin").chmod(0o600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOFTHSM2_CONF", str(folder / "softhsm2.conf"))
        pins = ["--so-pin", "0815", "--pin", "4711"]
        command = ["softhsm2-util", "--init-token", "--free", "--label", "test token", *pins]
        subprocess.run(command, capture_output=True, check=True)
        yield f"pkcs11:token=test%20token?module-path={SOFTHSM}&pin-source=file:{folder}/pin"


@pytest.mark.release
def test_ca_in_a_hardware_token_signs(
    context: RunContext, tmp_path: Path, platform: tuple[Path, Person], token: str
) -> None:
    folder, client_id = context.settings.signing.folder, platform[1].client_id
    run_manually(context, as_of=AS_OF)
    in_file = signing_folder.load_ca(folder)
    trust = rotate_ca(context.state, context.settings, folder / "recovery", AS_OF, token=token)
    in_token = signing_folder.load_ca(folder)
    assert in_file is not None
    assert in_token is not None
    assert trust.cas == (in_token.public, in_file.public)
    assert (folder / CA_FILE).read_text().startswith("pkcs11:token=test%20token;object=daybreak-ca-")
    run_manually(context, as_of=AS_OF + timedelta(hours=1))
    assert ssh_keygen_accepts(context, tmp_path, signed(context, client_id), client_id)
    # The next CA is in the token too, and the one before stays valid.
    again = rotate_ca(context.state, context.settings, folder / "recovery", AS_OF)
    assert again.cas[1] == in_token.public != again.cas[0]
    assert (folder / CA_FILE).read_text().startswith("pkcs11:")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda uri: uri.replace("test%20token", "other"), "The token other does not sign: No token"),
        (lambda uri: uri.replace("?", ";object=other?"), "has no key other"),
        (lambda uri: uri.replace("/pin", "/wrong"), "PinIncorrect"),
        (lambda uri: uri.replace("/pin", "/open"), "chmod 600"),
        (lambda uri: uri.replace("/pin", "/lost"), "cannot be read"),
        (lambda uri: uri.replace("softhsm2.so", "lost.so"), "libsofthsm2|lost.so"),
        (lambda uri: uri.partition("?")[0], "needs token and module-path"),
        (lambda uri: uri.replace("?", ";slot-id=1?"), "unknown attribute slot-id"),
    ],
)
def test_unusable_token_is_named(tmp_path: Path, token: str, change: Callable[[str], str], message: str) -> None:
    pin = Path(token.partition("file:")[2])
    for name, mode in (("wrong", 0o600), ("open", 0o644)):
        pin.with_name(name).write_text("9999")
        pin.with_name(name).chmod(mode)
    (tmp_path / CA_FILE).write_text(change(token))
    (tmp_path / CA_FILE).chmod(0o600)
    with pytest.raises(OperatorError, match=message) as caught:
        signing_folder.load_ca(tmp_path)
    assert "4711" not in caught.value.message


def pack_file(context: RunContext, tmp_path: Path, version: int) -> Path:
    """Return the only pack of a version."""
    found = context.state.read(lambda stores: stores.signatures.of_publication(version))
    assert found is not None
    (pack,) = found.packs
    return tmp_path / "files" / pack.key


@pytest.mark.parametrize("change", one_of("lost", "damaged"))
def test_lost_statements_are_reported_and_stop_nothing(
    context: RunContext, first: Snapshot, tmp_path: Path, platform: tuple[Path, Person], change: str
) -> None:
    person = platform[1]
    path = pack_file(context, tmp_path, 1)
    content = path.read_bytes()
    path.unlink() if change == "lost" else path.write_bytes(bytes(len(content)))
    damaged = verify_snapshot(context.state, context.store, first.snapshot_id).damaged
    assert [(each.file.resource, each.file.client_id) for each in damaged] == [("statements", "")]
    second = run_manually(context, as_of=AS_OF + timedelta(hours=1))
    assert second.state is SnapshotState.PUBLISHED
    assert predicate(signed(context, person.client_id))["previous"] is None
    if change == "lost":  # A run compares sizes.
        (fault,) = context.state.read(lambda stores: stores.file_faults.list_all())
        assert (fault.snapshot_id, fault.files) == (first.snapshot_id, 1)
    erase_member(context, person.member_id, "tests", lambda _run: None)
    assert predicate(signed(context, person.client_id))["revision"] == 2


@pytest.mark.release
@pytest.mark.parametrize("target", one_of("folder", "bucket"), indirect=True)
def test_copied_files_include_statements(context: RunContext, platform: tuple[Path, Person], target: FileStore) -> None:
    person = platform[1]
    for hour in range(2):
        run_manually(context, as_of=AS_OF + timedelta(hours=hour))
    erase_member(context, person.member_id, "tests", lambda _run: None)
    other = next(each for each in accounts(context, run_manually(context)) if each != person.client_id)
    expected = {
        (client_id, version, revision): signed(context, client_id, version, revision)
        for client_id, version, revision in (
            (other, 1, 1), (person.client_id, 2, 1), (person.client_id, 2, 2), (person.client_id, 3, 1)
        )
    }  # fmt: skip
    copied = copy_files(context.state, context.store, target, 2, lambda _: None)
    assert copied.faults == []
    moved = replace(context, store=target)
    for place, statement in expected.items():
        assert statement is not None
        assert signed(moved, *place) == statement
    again = copy_files(context.state, context.store, target, 2, lambda _: None)
    assert (again.files, again.present) == (0, copied.files)
    assert run_manually(moved).state is SnapshotState.PUBLISHED
