"""Signed statements over HTTP, checked with the commands that every consumer has."""

import csv
import gzip
import hashlib
import io
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from daybreak.catalogue.resources import RESOURCES
from daybreak.domain.erasure import member_digest
from daybreak.proof.rules import RULES
from daybreak.snapshots.erase import erase_member
from daybreak_client import command
from tests.acceptance.browser import signed_in
from tests.acceptance.conftest import new_installation
from tests.acceptance.daily_builder import Builder
from tests.acceptance.installation import LEADERS, MAYA, NORTH, SOUTH, VIC
from tests.acceptance.service import Service, serving
from tests.parts.presence import absent
from tests.parts.waiting import wait_until
from tests.reference.days import ChangingPlatform

STATEMENT = f"/download/v1/files/{NORTH}/statement.json"
VERIFY = (
    f"ssh-keygen -Y verify -f allowed_signers -I export.example.org -n daybreak/{NORTH} -s statement.json.sig "
    "-r revoked < statement.json"
)
DIGESTS = """jq -r '.subject[] | "\\(.digest.sha256)  \\(.name)"' statement.json | grep campaigns | sha256sum -c"""


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    """Return the builder of two signed publications, 2 and 3."""
    for program, package in (("ssh-keygen", "openssh-client"), ("jq", "jq")):
        if shutil.which(program) is None:
            absent(program, f"apt-get install {package}")
    folder = tmp_path_factory.mktemp("statements")
    installation = new_installation(folder)
    builder = Builder(installation, ChangingPlatform(7, leaders=LEADERS, members=60), folder, signing=True)
    builder.publish()
    builder.publish()
    return builder


@pytest.fixture(scope="module")
def signed(builder: Builder) -> Iterator[Service]:
    with serving(builder.installation) as service:
        yield service


def content(service: Service, path: str, token: str | None = None) -> bytes:
    found = service.get(path, token=token)
    assert found.status_code == 200, found.text
    return found.content


def fetch(service: Service, folder: Path) -> None:
    """Fetch what the guide names into a folder."""
    token = service.token(MAYA, NORTH)
    for name, octets in {
        "allowed_signers": content(service, "/download/v1/trust"),
        "revoked": content(service, "/download/v1/trust/revoked"),
        "statement.json": content(service, STATEMENT, token),
        "statement.json.sig": content(service, f"{STATEMENT}.sig", token),
        "campaigns.csv.gz": content(service, service.link(token, NORTH, "campaigns.csv.gz")),
        "campaigns.json.gz": content(service, service.link(token, NORTH, "campaigns.json.gz")),
    }.items():
        (folder / name).write_bytes(octets)


def succeeds(command: str, folder: Path) -> bool:
    return subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, check=False).returncode == 0


def test_files_are_verified_without_our_client(signed: Service, tmp_path: Path) -> None:
    fetch(signed, tmp_path)
    assert succeeds(VERIFY, tmp_path)
    assert succeeds(DIGESTS, tmp_path)
    damaged = bytearray((tmp_path / "campaigns.csv.gz").read_bytes())
    damaged[20] ^= 1
    (tmp_path / "campaigns.csv.gz").write_bytes(damaged)
    assert not succeeds(DIGESTS, tmp_path)
    (tmp_path / "statement.json").write_bytes((tmp_path / "statement.json").read_bytes().replace(b'"rows":', b'"row":'))
    assert not succeeds(VERIFY, tmp_path)


def test_statement_agrees_with_the_manifest(signed: Service) -> None:
    token = signed.token(MAYA, NORTH)
    statement = json.loads(content(signed, STATEMENT, token))
    manifest = signed.get(f"/download/v1/files/{NORTH}", token=token).json()["data"]
    listed = {
        f"{each['resource']}.{one['format']}.gz": (one["sha256"], one["bytes"], each["rows"], one["content_sha256"])
        for each in manifest["resources"]
        for one in each["files"]
    }
    digests = {each["name"]: each["digest"]["sha256"] for each in statement["subject"]}
    facts = statement["predicate"]["files"]
    assert listed == {
        name: (digests[name], each["bytes"], each["rows"], each["content_sha256"]) for name, each in facts.items()
    }
    assert statement["predicate"]["version"] == manifest["version"] == 3


def test_statement_of_the_feed_has_the_same_deltas(signed: Service) -> None:
    token = signed.token(MAYA, NORTH)
    predicate = json.loads(content(signed, STATEMENT, token))["predicate"]
    feed = signed.get(f"/download/v1/files/{NORTH}/deltas", token=token).json()["data"]
    assert predicate["chain_id"] == feed["chain_id"]
    changed = {name: each for name, each in feed["entries"][-1]["resources"].items() if each["state"] == "changed"}
    assert changed
    assert {
        name: (each["sha256"], each["to_content_sha256"], each["deleted"], each["inserted"])
        for name, each in predicate["deltas"].items()
    } == {
        name: (each["files"]["csv"]["sha256"], each["content_sha256_after"], each["deleted"], each["inserted"])
        for name, each in changed.items()
    }


def test_kept_versions_form_a_chain(signed: Service) -> None:
    token = signed.token(MAYA, NORTH)
    current = content(signed, STATEMENT, token)
    kept = f"/download/v1/files/{NORTH}/statements"
    assert content(signed, f"{kept}/3.1.json", token) == current
    assert content(signed, f"{kept}/3.1.json.sig", token) == content(signed, f"{STATEMENT}.sig", token)
    first = content(signed, f"{kept}/2.1.json", token)
    assert json.loads(current)["predicate"]["previous"]["sha256"] == hashlib.sha256(first).hexdigest()


@pytest.mark.parametrize("edition", ["4.1", "1.1", "2.2", "0.1", "1", "x.1", "1.1.1", f"{10**30}.1"])
def test_unknown_edition_is_not_found(signed: Service, edition: str) -> None:
    found = signed.get(
        f"/download/v1/files/{NORTH}/statements/{edition}.json", token=signed.token(MAYA, NORTH)
    )  # fmt: skip
    assert (found.status_code, found.json()["code"]) == (404, "no_statement")


@pytest.mark.parametrize("path", [STATEMENT, f"{STATEMENT}.sig", f"/download/v1/files/{NORTH}/statements/2.1.json"])
def test_statements_need_the_permissions_of_files(signed: Service, path: str) -> None:
    assert signed.get(path).status_code == 401
    refused = signed.get(path, token=signed.token(VIC))
    assert (refused.status_code, refused.json()["code"]) == (403, "data_export_required")


def test_requests_for_statements_are_recorded(signed: Service) -> None:
    content(signed, STATEMENT, signed.token(MAYA, NORTH))
    signed.get(STATEMENT, token=signed.token(VIC))

    def read() -> list[tuple[str, str]]:
        events = signed.installation.events(action="statement.fetched")
        return [(each.actor, each.result) for each in events]

    # Each worker writes its events after a quarter of a second.
    expected = {(MAYA, "ok"), (VIC, "data_export_required")}
    wait_until(lambda: expected <= set(read()), what="the audit events of both requests")


def test_trust_file_is_public_and_signed(signed: Service, tmp_path: Path) -> None:
    (tmp_path / "trust").write_bytes(content(signed, "/download/v1/trust"))
    (tmp_path / "trust.sig").write_bytes(content(signed, "/download/v1/trust.sig"))
    assert succeeds(
        "ssh-keygen -Y verify -f trust -I trust@export.example.org -n daybreak-trust -s trust.sig < trust", tmp_path
    )


def test_dashboard_shows_the_rows_of_the_source(signed: Service) -> None:
    accounts = json.loads(content(signed, STATEMENT, signed.token(MAYA, NORTH)))["predicate"]["completeness"]
    shown = 0
    with signed_in(signed, MAYA) as browser:
        for resource in RESOURCES:
            page = browser.get(f"/dashboard/{NORTH}/files/{resource.name}/preview").text
            text = " ".join(re.sub("<[^>]+>", " ", page.partition('id="source-rows"')[2]).split())
            assert "Statement 3.1, signed" in text
            assert f"daybreak verify exports --only {resource.name} --complete" in text
            for table, rows in accounts.get(resource.name, {}).items():
                excluded = "; ".join(f"{count:,}: {RULES[rule]} {rule}" for rule, count in rows["excluded"].items())
                assert f"{table} {rows['source']:,} {rows['exported']:,} {excluded or 'none'}" in text
                shown += bool(rows["excluded"])
    assert shown


def test_account_gets_the_receipts_of_erasures(
    signed: Service, builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It changes the files of SOUTH, which the other tests do not use."""
    path, token = f"/download/v1/files/{SOUTH}/receipts", signed.token(MAYA, SOUTH)
    assert content(signed, path, token) == b""
    rows = gzip.decompress(content(signed, signed.link(token, SOUTH, "members.csv.gz"))).decode()
    member_id = next(csv.DictReader(io.StringIO(rows, newline="")))["MEMBER_ID"]
    with closing(builder.installation.state()) as state:
        erase_member(builder.context(state, tmp_path), member_id, "test", lambda _run: None)
    assert signed.get(path, token=signed.token(MAYA, NORTH)).json()["code"] == "wrong_context"
    assert content(signed, path.replace(SOUTH, NORTH), signed.token(MAYA, NORTH)) == b""
    (line,) = content(signed, path, token).splitlines()
    receipt = json.loads(json.loads(line)["statement"])["predicate"]
    assert (receipt["client_id"], receipt["member_sha256"]) == (SOUTH, member_digest(member_id))

    monkeypatch.setenv("DAYBREAK_SERVICE", signed.address)
    monkeypatch.setenv("DAYBREAK_TOKEN", token)
    monkeypatch.setenv("DAYBREAK_ACCOUNT", SOUTH)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "receipts"
    assert command.run(["receipts", str(folder)]) == 0
    (stored,) = folder.glob("*.json")
    assert stored.name == f"{receipt['erasure_id']}.json"
    (folder / "allowed_signers").write_bytes(content(signed, "/download/v1/trust"))
    verify = f"-f allowed_signers -I export.example.org -n daybreak/{SOUTH} -s {stored.name}.sig < {stored.name}"
    assert succeeds(f"ssh-keygen -Y verify {verify}", folder)
