"""The feed of deltas, and their files, of a service whose builder makes them."""

import gzip
import hashlib
import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from daybreak.catalogue.resources import RESOURCE_NAMES, resource_named
from daybreak.domain.audit import AuditQuery
from tests.acceptance.conftest import new_installation
from tests.acceptance.daily_builder import Builder
from tests.acceptance.installation import LEADERS, MAYA, NORTH, NOT_EXPORTED, SOUTH, VIC
from tests.acceptance.service import Service, serving
from tests.parts.waiting import wait_until
from tests.reference import deltas as reference
from tests.reference.days import ChangingPlatform

DAYS = 3


@pytest.fixture(scope="module")
def changing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Builder, list[dict[str, bytes]]]]:
    """Return a service after a few days, its builder, and the full CSV files of North of each day."""
    folder = tmp_path_factory.mktemp("deltas")
    installation = new_installation(folder)
    builder = Builder(installation, ChangingPlatform(7, leaders=LEADERS, members=400), folder)
    with serving(installation) as service:
        token = service.token(MAYA, NORTH)
        days = []
        for _ in range(DAYS):
            builder.publish()
            days.append({name: content_of(service, token, f"{name}.csv.gz") for name in RESOURCE_NAMES})
        yield service, builder, days


def content_of(service: Service, token: str, file: str) -> bytes:
    """Return the decompressed content of a file."""
    found = service.get(service.link(token, NORTH, file))
    assert found.status_code == 200, found.text
    return gzip.decompress(found.content)


def feed_of(service: Service, token: str, query: str = "", account: str = NORTH) -> dict[str, Any]:
    found = service.get(f"/download/v1/files/{account}/deltas{query}", token=token)
    assert found.status_code == 200, found.text
    data: dict[str, Any] = found.json()["data"]
    return data


@pytest.mark.release
def test_deltas_turn_each_day_into_the_next(changing: tuple[Service, Builder, list[dict[str, bytes]]]) -> None:
    service, _, days = changing
    token = service.token(MAYA, NORTH)
    feed = feed_of(service, token)
    manifest = service.get(f"/download/v1/files/{NORTH}", token=token).json()["data"]
    assert (feed["version"], feed["snapshot_id"]) == (manifest["version"], manifest["snapshot_id"])
    entries = [entry for entry in feed["entries"] if entry["version"] > feed["version"] - DAYS + 1]
    assert [entry["version"] for entry in entries] == [feed["version"] - 1, feed["version"]]
    changed = 0
    for (before, after), entry in zip(pairwise(days), entries, strict=True):
        assert entry["from_version"] == entry["version"] - 1
        assert list(entry["resources"]) == list(RESOURCE_NAMES)
        for name, found in entry["resources"].items():
            if found["state"] == "unchanged":
                assert before[name] == after[name]
                continue
            if found["state"] == "full_required":
                assert found["reason"] == "larger_than_full"
                continue
            changed += 1
            resource = resource_named(name)
            csv_name, json_name = f"{name}.delta.csv.gz", f"{name}.delta.json.gz"
            assert {kind: file["name"] for kind, file in found["files"].items()} == {"csv": csv_name, "json": json_name}
            delta = content_of(service, token, f"deltas/{entry['version']}/{csv_name}")
            assert delta == reference.expected_delta(before[name], after[name], resource)
            assert reference.applied(before[name], delta, resource, found["constants"]) == after[name]
            assert hashlib.sha256(before[name]).hexdigest() == found["content_sha256_before"]
            assert hashlib.sha256(after[name]).hexdigest() == found["content_sha256_after"]
            records = json.loads(content_of(service, token, f"deltas/{entry['version']}/{json_name}"))
            assert records == reference.delta_json(delta, resource)
            assert found["rows_after"] == found["rows_before"] - found["deleted"] + found["inserted"]
            assert found["inserted"] == sum(record["_OP"] == "I" for record in records)
    assert changed >= 4


def test_since_selects_entries_and_refuses_unknown_versions(
    changing: tuple[Service, Builder, list[dict[str, bytes]]],
) -> None:
    service, _, _ = changing
    token = service.token(MAYA, NORTH)
    feed = feed_of(service, token)
    newest, oldest = feed["version"], feed["oldest_version"]
    assert [entry["version"] for entry in feed_of(service, token, f"?since={newest - 1}")["entries"]] == [newest]
    assert feed_of(service, token, f"?since={newest}")["entries"] == []
    assert len(feed_of(service, token, f"?since={oldest}")["entries"]) == newest - oldest
    for since, reason in ((oldest - 1, "version_too_old"), (newest + 1, "version_unknown")):
        found = service.get(f"/download/v1/files/{NORTH}/deltas?since={since}", token=token)
        problem = found.json()
        assert (found.status_code, problem["code"]) == (410, "chain_closed")
        assert problem["manifest"] == f"/download/v1/files/{NORTH}"
        if since > newest:
            assert problem["reason"] == reason
    for since in ("x", "-1", "1.5", "", "9" * 30):
        assert service.get(f"/download/v1/files/{NORTH}/deltas?since={since}", token=token).status_code == 400


def test_unchanged_feed_is_not_sent_again(changing: tuple[Service, Builder, list[dict[str, bytes]]]) -> None:
    service, _, _ = changing
    token = service.token(MAYA, NORTH)
    path = f"/download/v1/files/{NORTH}/deltas"
    first = service.get(path, token=token)
    assert first.headers["Cache-Control"] == "no-cache"
    head = service.request("HEAD", path, token=token)
    assert (head.status_code, head.headers["ETag"], head.content) == (200, first.headers["ETag"], b"")
    again = service.get(path, token=token, headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", first.headers["ETag"])
    assert service.get(path, token=token, headers={"If-None-Match": '"another"'}).status_code == 200


def test_delta_links_work_like_links_of_full_files(changing: tuple[Service, Builder, list[dict[str, bytes]]]) -> None:
    service, builder, _ = changing
    token = service.token(MAYA, NORTH)
    version, name, files = first_change(feed_of(service, token))
    path = f"deltas/{version}/{name}.delta.csv.gz"
    issued = service.request_file(token, NORTH, path)
    data = issued.json()["data"]
    assert (data["resource"], data["format"], data["version"]) == (name, "csv", version)
    link = issued.headers["Location"].replace(service.base_url, service.address)
    whole = service.get(link)
    assert whole.headers["X-Snapshot-Version"] == str(version)
    assert hashlib.sha256(whole.content).hexdigest() == files["csv"]["sha256"] == data["sha256"]
    lines = gzip.decompress(whole.content)
    assert int(whole.headers["X-Row-Count"]) == len(reference.parse(lines)) - 1
    part = service.get(link, headers={"Range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, whole.content[10:20])
    assert service.get(link, headers={"If-None-Match": whole.headers["ETag"]}).status_code == 304
    assert service.request("HEAD", link).headers["Content-Length"] == str(len(whole.content))
    as_json = service.get(link.replace("csv", "json"))
    assert hashlib.sha256(as_json.content).hexdigest() == files["json"]["sha256"]
    # A signature of a delta opens no full file, and the reverse.
    assert service.get(link.replace(".delta", "")).json()["code"] == "invalid_link"
    full = service.link(token, NORTH, f"{name}.csv.gz")
    assert service.get(full.replace(f"{name}.csv", f"{name}.delta.csv")).json()["code"] == "invalid_link"
    expected = {(action, f"{name}.delta.csv.gz", "ok") for action in ("link.issued", "file.fetched")}
    with closing(builder.installation.state()) as state:

        def is_recorded() -> bool:
            events = state.read(lambda stores: stores.audit.read(AuditQuery(client_id=NORTH, limit=1000)))
            return expected <= {(event.action, event.details.get("file"), event.result) for event in events}

        # The service writes downloads to the audit trail in batches.
        wait_until(is_recorded, what="the events of the audit trail")


def first_change(feed: dict[str, Any]) -> tuple[int, str, dict[str, Any]]:
    """Return version, resource and files of a change."""
    for entry in feed["entries"]:
        for name, found in entry["resources"].items():
            if found["state"] == "changed":
                return entry["version"], name, found["files"]
    raise AssertionError("no resource changed")


def test_unknown_deltas_and_other_accounts_are_refused(
    changing: tuple[Service, Builder, list[dict[str, bytes]]],
) -> None:
    service, _, _ = changing
    token = service.token(MAYA, NORTH)
    version, name, _ = first_change(feed_of(service, token))
    for path, code in (
        (f"{version}/{name}.csv.gz", "unknown_file"),
        (f"{version}/passwords.delta.csv.gz", "unknown_file"),
        (f"9999/{name}.delta.csv.gz", "no_delta"),
        (f"x/{name}.delta.csv.gz", "no_delta"),
    ):
        assert service.request_file(token, NORTH, f"deltas/{path}").json()["code"] == code
    vic = service.token(VIC)
    assert service.get(f"/download/v1/files/{NORTH}/deltas", token=vic).json()["code"] == "data_export_required"
    other = service.switch_account(token, NOT_EXPORTED)
    found = service.get(f"/download/v1/files/{NOT_EXPORTED}/deltas", token=other)
    assert found.json()["code"] == "snapshot_not_ready"
    assert service.get(f"/download/v1/files/{NORTH}/deltas", token=other).json()["code"] == "wrong_context"


def test_link_to_a_withdrawn_delta_says_so(changing: tuple[Service, Builder, list[dict[str, bytes]]]) -> None:
    """On an account that no other test reads, because its chain ends."""
    service, builder, _ = changing
    token = service.token(MAYA, SOUTH)
    version, name, _ = first_change(feed_of(service, token, account=SOUTH))
    link = service.link(token, SOUTH, f"deltas/{version}/{name}.delta.csv.gz")
    with closing(builder.installation.state()) as state:
        state.write(lambda stores: stores.deltas.close_account_chain(SOUTH, SOUTH, "member_erased", datetime.now(UTC)))
    problem = service.get(link).json()
    assert (problem["status"], problem["code"]) == (404, "no_delta")
    assert problem["detail"] == "This delta has been withdrawn. Read the feed again."
    closed = service.get(f"/download/v1/files/{SOUTH}/deltas?since={version - 1}", token=token).json()
    assert (closed["code"], closed["reason"]) == ("chain_closed", "member_erased")
