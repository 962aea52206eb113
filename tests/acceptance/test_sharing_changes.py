"""Changes of shared tables, read by the unmodified Python client and compared with the deltas of the feed."""

import gzip
import hashlib
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import delta_sharing
import pandas as pd
import pytest
import requests

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import RESOURCE_NAMES, RESOURCES, Resource, resource_named
from daybreak.domain.delta import CHANGE_TYPE
from tests.acceptance.conftest import new_installation
from tests.acceptance.daily_builder import Builder
from tests.acceptance.installation import FOREIGN, FREYA, LEADERS, MAYA, NORTH, SOUTH
from tests.acceptance.service import PATIENCE_SECONDS, Service, serving
from tests.acceptance.test_sharing import NDJSON, SETTINGS, Recipient, recipient_of
from tests.parts.waiting import wait_until
from tests.reference import deltas as reference
from tests.reference.days import ChangingPlatform

DAYS = 5
FIRST = 2
"""The first publication of the builder. The installation has made another one before."""


@dataclass(frozen=True)
class Changing:
    """A service whose builder has published a few days, with a recipient of each of two accounts."""

    service: Service
    builder: Builder
    recipients: tuple[Recipient, ...]

    @property
    def current(self) -> int:
        return FIRST + DAYS - 1


@pytest.fixture(scope="module")
def changing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Changing]:
    folder = tmp_path_factory.mktemp("changes")
    installation = new_installation(folder, large_rows=5)
    builder = Builder(installation, ChangingPlatform(2, leaders=LEADERS, members=400), folder, sharing=True)
    with serving(installation, workers=1, settings=SETTINGS) as service:
        for _ in range(DAYS):
            builder.publish()
        yield Changing(service, builder, tuple(recipient_of(service, MAYA, account) for account in (NORTH, SOUTH)))


def entries_of(recipient: Recipient) -> list[dict[str, Any]]:
    """Return the entries of the feed after the first publication of the builder."""
    path = f"/download/v1/files/{recipient.client_id}/deltas?since={FIRST}"
    entries: list[dict[str, Any]] = recipient.service.get(path, token=recipient.token).json()["data"]["entries"]
    return entries


def delta_of(recipient: Recipient, version: int, file_name: str) -> bytes:
    url = recipient.service.link(recipient.token, recipient.client_id, f"deltas/{version}/{file_name}")
    return gzip.decompress(requests.get(url, timeout=PATIENCE_SECONDS).content)


def expected_rows(recipient: Recipient, resource: Resource, version: int) -> list[tuple[str, list[object]]]:
    """Return kind and cells of the rows of a delta, after comparing CSV and JSON."""
    content = delta_of(recipient, version, f"{resource.name}.delta.csv.gz")
    records = reference.delta_json(content, resource)
    assert json.loads(delta_of(recipient, version, f"{resource.name}.delta.json.gz")) == records
    kinds = {"I": "insert", "D": "delete"}
    return [(kinds[str(each["_OP"])], [each[name] for name in resource.column_names]) for each in records]


def rows_of(resource: Resource, frame: pd.DataFrame, *, exact: bool = True) -> list[tuple[str, list[object]]]:
    """Return kind and cells of changes as JSON values. `exact`: whole numbers must not be floats."""
    assert list(frame.columns) == [*resource.column_names, CHANGE_TYPE, "_commit_version", "_commit_timestamp"]
    numbers = [column.name for column in resource.columns if column.type is ColumnType.BIGINT]
    if exact and CHANGE_TYPE in frame and "delete" in set(frame[CHANGE_TYPE]):
        assert {str(frame[name].dtype) for name in numbers} <= {"Int64"}, "other types lose numbers above 2^53"
    columns = [[_value(column.type, cell) for cell in frame[column.name]] for column in resource.columns]
    cells = [list(row) for row in zip(*columns, strict=True)]
    return list(zip(frame[CHANGE_TYPE], cells, strict=True))


def _value(type_: ColumnType, cell: Any) -> object:
    if pd.isna(cell):
        return None
    match type_:
        case ColumnType.TIMESTAMP:
            return f"{cell.tz_convert('UTC'):%Y-%m-%dT%H:%M:%S.%fZ}"
        case ColumnType.DATE:
            return str(cell)
        case ColumnType.BIGINT:
            return int(cell)
        case ColumnType.BOOLEAN:
            return bool(cell)
        case _:
            return cell


def profile_of(recipient: Recipient, folder: Path, resource: str) -> str:
    return f"{recipient.profile(folder)}#{recipient.client_id}.daybreak.{resource}"


@pytest.mark.release
def test_python_client_reads_the_rows_of_the_deltas(changing: Changing, tmp_path: Path) -> None:
    compared: set[tuple[str, str, int]] = set()
    deleted = 0
    for recipient in changing.recipients:
        entries = entries_of(recipient)
        assert [entry["version"] for entry in entries] == list(range(FIRST + 1, changing.current + 1))
        for resource in RESOURCES:
            url = profile_of(recipient, tmp_path, resource.name)
            for entry in entries:
                version, found = entry["version"], entry["resources"][resource.name]
                if found["state"] == "full_required":
                    refused = recipient.call(recipient.table(resource.name) + f"/changes?startingVersion={version}"
                                             f"&endingVersion={version}")  # fmt: skip
                    assert (refused.status_code, refused.json()["errorCode"]) == (400, "version_not_kept")
                    assert f"The changes of version {version} are not kept." in refused.json()["message"]
                    continue
                frame = delta_sharing.load_table_changes_as_pandas(url, version, version)
                if found["state"] == "unchanged":
                    assert len(frame) == 0
                    continue
                rows = rows_of(resource, frame)
                assert rows == expected_rows(recipient, resource, version), (resource.name, version)
                in_delta = delta_sharing.load_table_changes_as_pandas(url, version, version, use_delta_format=True)
                assert rows_of(resource, in_delta, exact=False) == rows, (resource.name, version)
                assert {"csv", "json"} == found["files"].keys()
                if rows:
                    published = datetime.fromisoformat(entry["published_at"]).timestamp() * 1000
                    assert set(frame["_commit_version"]) == {version}
                    assert set(frame["_commit_timestamp"]) == {int(published)}
                    compared.add((recipient.client_id, resource.name, version))
                deleted += sum(kind == "delete" for kind, _ in rows)
    assert len({account for account, _, _ in compared}) == len(changing.recipients)
    assert len({version for _, _, version in compared}) == DAYS - 1
    assert len({name for _, name, _ in compared}) >= 5
    assert deleted > 10


def longest_range(recipient: Recipient) -> tuple[str, int, int]:
    """Return the resource, and the first and last version, of a range with changes of several versions."""
    entries = entries_of(recipient)
    for name in RESOURCE_NAMES:
        states = [entry["resources"][name]["state"] for entry in entries]
        if "full_required" not in states and states.count("changed") > 1:
            return name, entries[0]["version"], entries[-1]["version"]
    raise AssertionError("no resource changed in several versions")


def test_changes_lead_from_one_version_to_another(changing: Changing, tmp_path: Path) -> None:
    """The rows before, with the changes of a range applied, are the rows after."""
    recipient = changing.recipients[0]
    name, first, last = longest_range(recipient)
    resource, url = resource_named(name), profile_of(recipient, tmp_path, name)
    kept = [place for place, column in enumerate(resource.columns) if column.name not in resource.constants]
    places = [resource.column_names.index(column) for column in resource.key]
    frames = [delta_sharing.load_as_pandas(url, version=version) for version in (first - 1, last)]
    before, after = (
        [cells for _, cells in rows_of(resource, frame.assign(_change_type="insert", _commit_version=0,
                                                              _commit_timestamp=0))]
        for frame in frames
    )  # fmt: skip
    for changed in (
        delta_sharing.load_table_changes_as_pandas(url, first),
        delta_sharing.load_table_changes_as_pandas(url, first, last),
        delta_sharing.load_table_changes_as_pandas(url, first, convert_in_batches=True),
    ):
        found = list(before)
        for kind, cells in rows_of(resource, changed):
            if kind == "insert":
                found.append(cells)
            else:
                key = [cells[place] for place in places]
                found = [row for row in found if [row[place] for place in places] != key]
        assert sorted(repr([row[place] for place in kept]) for row in found) == sorted(
            repr([row[place] for place in kept]) for row in after
        )


def test_times_select_versions(changing: Changing) -> None:
    recipient = changing.recipients[0]
    name, first, last = longest_range(recipient)
    path = recipient.table(name) + "/changes"
    times = {entry["version"]: datetime.fromisoformat(entry["published_at"]) for entry in entries_of(recipient)}

    def versions(**parameters: object) -> list[int]:
        found = recipient.call(path, params=parameters)
        assert found.status_code == 200, found.text
        lines = [json.loads(line) for line in found.text.splitlines()]
        return [line["cdf"]["version"] for line in lines[2:]]

    everything = versions(startingVersion=first)
    for version in everything:
        millisecond = times[version].replace(microsecond=times[version].microsecond // 1000 * 1000)
        for text in (f"{millisecond:%Y-%m-%dT%H:%M:%S.%fZ}", f"{millisecond:%Y-%m-%d %H:%M:%S.%f}"):
            assert versions(startingTimestamp=text) == [each for each in everything if each >= version]
            assert versions(startingVersion=first, endingTimestamp=text) == [e for e in everything if e <= version]
    assert versions(startingVersion=first, endingVersion=last + 5) == everything
    late, early = datetime.now(UTC) + timedelta(days=1), datetime(2020, 1, 1, tzinfo=UTC)
    for parameters, code in (
        ({}, "invalid_request"),
        ({"endingVersion": last}, "invalid_request"),
        ({"startingVersion": last + 1}, "invalid_request"),
        ({"startingVersion": last, "endingVersion": first}, "invalid_request"),
        ({"startingVersion": first, "startingTimestamp": early.isoformat()}, "invalid_request"),
        ({"startingVersion": first, "endingVersion": last, "endingTimestamp": late.isoformat()}, "invalid_request"),
        ({"startingVersion": first, "endingTimestamp": early.isoformat()}, "invalid_request"),
        ({"startingTimestamp": late.isoformat()}, "invalid_request"),
        ({"startingVersion": "x"}, "invalid_request"),
        ({"startingVersion": "9" * 19}, "invalid_request"),
        ({"startingTimestamp": "2026"}, "invalid_request"),
        ({"startingTimestamp": early.isoformat()}, "version_not_kept"),
        ({"startingVersion": first - 1}, "version_not_kept"),
        ({"startingVersion": 0}, "version_not_kept"),
    ):
        refused = recipient.call(path, params=parameters)
        assert (refused.status_code, refused.json()["errorCode"]) == (400, code), (parameters, refused.text)
        if code == "version_not_kept":
            assert (
                f"The oldest version with changes is {first}, the current one is {last}." in refused.json()["message"]
            )


def test_response_has_the_documented_form(changing: Changing) -> None:
    recipient = changing.recipients[0]
    name, first, _ = longest_range(recipient)
    path = recipient.table(name) + f"/changes?startingVersion={first}"
    found = recipient.call(path)
    assert (found.headers["Content-Type"], found.headers["Delta-Table-Version"]) == (NDJSON, str(first))
    protocol, metadata, *files = [json.loads(line) for line in found.text.splitlines()]
    assert protocol == {"protocol": {"minReaderVersion": 1}}
    assert metadata["metaData"]["configuration"] == {"enableChangeDataFeed": "true"}
    assert metadata["metaData"]["version"] == first
    schema = json.loads(metadata["metaData"]["schemaString"])
    assert {field["name"] for field in schema["fields"] if not field["nullable"]} == set(resource_named(name).key)
    for line in files:
        file = line["cdf"]
        assert file.keys() == {"url", "id", "partitionValues", "size", "expirationTimestamp", "timestamp", "version"}
        assert {type(file[key]) for key in ("size", "expirationTimestamp", "timestamp", "version")} == {int}
        content = requests.get(file["url"], timeout=PATIENCE_SECONDS)
        assert (content.status_code, len(content.content)) == (200, file["size"])
        assert hashlib.sha256(content.content).hexdigest() == file["id"]
        # The signature is that of all deltas of the resource, and of no full file.
        full = requests.get(file["url"].replace(".delta.parquet", ".parquet"), timeout=PATIENCE_SECONDS)
        assert full.json()["code"] == "invalid_link"


def test_foreign_and_unknown_tables_are_refused(changing: Changing) -> None:
    recipient = changing.recipients[0]
    answers = [
        recipient.call(recipient.table(share=share) + "/changes?startingVersion=1") for share in (SOUTH, "x", FOREIGN)
    ]
    assert [answer.status_code for answer in answers] == [404, 404, 404]
    assert len({answer.content for answer in answers}) == 1
    assert recipient.call(recipient.table("people") + "/changes?startingVersion=1").status_code == 404
    session = changing.service.token(MAYA, NORTH)
    assert recipient.call(recipient.table() + "/changes?startingVersion=1", token=session).status_code == 401


def test_changes_are_in_the_audit_trail(changing: Changing) -> None:
    recipient = recipient_of(changing.service, MAYA, NORTH)
    agent = {"User-Agent": "Delta-Sharing-Python/changes"}
    name, first, last = longest_range(recipient)
    found = recipient.call(recipient.table(name) + f"/changes?startingVersion={first}", headers=agent)
    lines = found.text.splitlines()
    requests.get(json.loads(lines[2])["cdf"]["url"], headers=agent, timeout=PATIENCE_SECONDS)
    recipient.call(recipient.table(name) + "/changes?startingVersion=0", headers=agent)

    def events() -> list[dict[str, Any]]:
        text = changing.service.get(f"/download/v1/audit/{NORTH}", token=recipient.token).text
        return [event for event in map(json.loads, text.splitlines()) if event["user_agent"] == agent["User-Agent"]]

    wait_until(lambda: len(events()) == 3, PATIENCE_SECONDS)
    queried, fetched, refused = events()
    assert (queried["action"], queried["result"]) == ("table.queried", "ok")
    details = queried["details"]
    assert (details["table"], details["from_version"], details["version"]) == (name, first, last)
    assert details["files"] == len(lines) - 2
    assert (fetched["action"], fetched["details"]["file"]) == ("file.fetched", f"{name}.delta.parquet")
    assert (refused["action"], refused["result"]) == ("table.queried", "version_not_kept")


def test_erasure_deletes_old_changes(changing: Changing) -> None:
    """On an account that no other test reads, because its chain begins again."""
    recipient = recipient_of(changing.service, FREYA, FOREIGN)
    name, first, last = longest_range(recipient)
    lines = recipient.call(recipient.table(name) + f"/changes?startingVersion={first}").text.splitlines()
    urls = [json.loads(line)["cdf"]["url"] for line in lines[2:]]
    with closing(changing.builder.installation.state()) as state:
        keys = state.write(
            lambda stores: stores.deltas.close_account_chain(FOREIGN, FOREIGN, "member_erased", datetime.now(UTC))
        )
    assert len(keys) >= len(urls)
    assert {requests.get(url, timeout=PATIENCE_SECONDS).status_code for url in urls} == {404}
    refused = recipient.call(recipient.table(name) + f"/changes?startingVersion={last}")
    assert (refused.status_code, refused.json()["errorCode"]) == (400, "version_not_kept")
