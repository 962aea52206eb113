"""Every example of the Delta Sharing protocol, sent to the service, with each field of the responses checked.

https://github.com/delta-io/delta-sharing/blob/main/PROTOCOL.md
"""

from __future__ import annotations

import json
import socket
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import requests

from daybreak.catalogue.resources import RESOURCES, resource_named
from daybreak.state.database import sqlite_path
from tests.acceptance.daily_builder import Builder
from tests.acceptance.installation import FOREIGN, LEADERS, MAYA, NORTH, VIC, Installation
from tests.acceptance.service import PATIENCE_SECONDS, serving
from tests.acceptance.test_sharing import JSON, NDJSON, SETTINGS, Recipient, recipient_of
from tests.reference.days import ChangingPlatform

TABLE = "members"
Fields = Mapping[str, tuple[type, bool]]
"""Type of each field of an object, and whether the protocol requires it."""

SHARE: Fields = {"name": (str, True), "id": (str, False)}
SCHEMA: Fields = {"name": (str, True), "share": (str, True)}
LISTED_TABLE: Fields = {
    "name": (str, True), "schema": (str, True), "share": (str, True), "shareId": (str, False), "id": (str, False),
}  # fmt: skip
PROTOCOL: Fields = {"minReaderVersion": (int, True)}
METADATA: Fields = {
    "id": (str, True), "name": (str, False), "description": (str, False), "format": (dict, True),
    "schemaString": (str, True), "partitionColumns": (list, True), "configuration": (dict, False),
    "version": (int, False), "size": (int, False), "numFiles": (int, False),
}  # fmt: skip
FILE: Fields = {
    "url": (str, True), "id": (str, True), "partitionValues": (dict, True), "size": (int, True), "stats": (str, False),
    "version": (int, False), "timestamp": (int, False), "expirationTimestamp": (int, False),
}  # fmt: skip
CHANGE: Fields = {
    "url": (str, True), "id": (str, True), "partitionValues": (dict, True), "size": (int, True),
    "timestamp": (int, True), "version": (int, True), "expirationTimestamp": (int, False),
}  # fmt: skip
STATISTICS: Fields = {"numRecords": (int, True), "nullCount": (dict, False)}
STRUCT_FIELD: Fields = {"name": (str, True), "type": (str, True), "nullable": (bool, True), "metadata": (dict, True)}
ERROR: Fields = {"errorCode": (str, True), "message": (str, True)}


def check(found: Any, fields: Fields) -> dict[str, Any]:
    """Check the names and the types of an object's fields, and return the object."""
    assert isinstance(found, dict)
    assert found.keys() <= fields.keys()
    assert {name for name, (_, required) in fields.items() if required} <= found.keys()
    for name, value in found.items():
        # A boolean is an `int` of Python.
        assert type(value) is fields[name][0], (name, value)
    return found


@pytest.fixture(scope="module")
def north(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recipient]:
    """Return a recipient of an account whose current version is 4, with changes from version 3."""
    folder = tmp_path_factory.mktemp("protocol")
    installation = Installation(
        folder / "installation", f"sqlite:///{folder}/installation/state.db", large_rows=5, parquet=True
    )
    installation.create()
    builder = Builder(installation, ChangingPlatform(11, leaders=LEADERS, members=300), folder, sharing=True)
    for day in range(3):
        if day:
            builder.platform.next_day()
        builder.publish()
    with serving(installation, workers=1, settings=SETTINGS) as service:
        yield recipient_of(service, MAYA, NORTH)


def page_of(recipient: Recipient, path: str, fields: Fields) -> list[dict[str, Any]]:
    """Read a list page by page, and return its items."""
    items: list[dict[str, Any]] = []
    token = ""
    while True:
        found = recipient.call(f"{path}?maxResults=10&pageToken={token}")
        assert (found.status_code, found.headers["Content-Type"]) == (200, JSON)
        body = check(found.json(), {"items": (list, True), "nextPageToken": (str, False)})
        items += [check(item, fields) for item in body["items"]]
        if "nextPageToken" not in body:
            return items
        token = body["nextPageToken"]


def lines_of(found: requests.Response, version: int) -> list[dict[str, Any]]:
    """Return the lines of a response, of which each has one object, after checking the first two."""
    assert (found.status_code, found.headers["Content-Type"]) == (200, NDJSON)
    assert found.headers["Delta-Table-Version"] == str(version)
    lines = [json.loads(line) for line in found.text.splitlines()]
    assert [len(line) for line in lines] == [1] * len(lines)
    check(lines[0]["protocol"], PROTOCOL)
    metadata = check(lines[1]["metaData"], METADATA)
    assert metadata["format"] == {"provider": "parquet"}
    assert all(type(value) is str for value in metadata["configuration"].values())
    schema = json.loads(metadata["schemaString"])
    assert (schema.keys(), schema["type"]) == ({"type", "fields"}, "struct")
    names = [check(field, STRUCT_FIELD)["name"] for field in schema["fields"]]
    assert names == list(resource_named(metadata["name"]).column_names)
    return lines


def test_list_shares(north: Recipient) -> None:
    assert page_of(north, "/shares", SHARE) == [{"name": NORTH, "id": NORTH}]


def test_get_share(north: Recipient) -> None:
    found = north.call(f"/shares/{NORTH}")
    assert (found.status_code, found.headers["Content-Type"]) == (200, JSON)
    check(check(found.json(), {"share": (dict, True)})["share"], SHARE)


def test_list_schemas_in_a_share(north: Recipient) -> None:
    assert page_of(north, f"/shares/{NORTH}/schemas", SCHEMA) == [{"name": "daybreak", "share": NORTH}]


@pytest.mark.parametrize("path", ["schemas/daybreak/tables", "all-tables"])
def test_list_tables(north: Recipient, path: str) -> None:
    found = page_of(north, f"/shares/{NORTH}/{path}", LISTED_TABLE)
    assert [table["name"] for table in found] == [resource.name for resource in RESOURCES]
    assert {(table["share"], table["schema"], table["shareId"]) for table in found} == {(NORTH, "daybreak", NORTH)}
    assert len({uuid.UUID(table["id"]) for table in found}) == len(RESOURCES)


def test_query_table_version(north: Recipient) -> None:
    for found in (north.call(north.table(TABLE) + "/version"), north.call(north.table(TABLE), "HEAD")):
        assert (found.status_code, found.content, found.headers["delta-table-version"]) == (200, b"", "4")
    found = north.call(north.table(TABLE) + "/version?startingTimestamp=2022-01-01%2000:00:00")
    assert (found.status_code, found.content, found.headers["delta-table-version"]) == (200, b"", "1")


def test_query_table_metadata(north: Recipient) -> None:
    lines = lines_of(north.call(north.table(TABLE) + "/metadata"), 4)
    assert len(lines) == 2
    assert "version" not in lines[1]["metaData"]


def test_read_data_from_a_table(north: Recipient) -> None:
    body = {"predicateHints": ["date >= '2021-01-01'", "date <= '2021-01-31'"], "limitHint": 1000, "version": 3}
    headers = {"Content-Type": "application/json; charset=utf-8"}
    path = north.table(TABLE) + "/query"
    for sent, version in ((body, 3), ({"predicateHints": ["string"], "limitHint": 10, "jsonPredicateHints": "x"}, 4),
                          ({}, 4)):  # fmt: skip
        found = north.call(path, "POST", data=json.dumps(sent), headers=headers)
        _, metadata, *files = lines_of(found, version)
        # With time travel, the version is part of the objects.
        assert metadata["metaData"].get("version") == (version if "version" in sent else None)
        assert len(files) == metadata["metaData"]["numFiles"] == 1
        for line in files:
            file = check(line["file"], FILE)
            assert (file.get("version"), "timestamp" in file) == (
                metadata["metaData"].get("version"),
                "version" in sent,
            )
            statistics = check(json.loads(file["stats"]), STATISTICS)
            assert {type(count) for count in statistics["nullCount"].values()} == {int}
            assert len(requests.get(file["url"], timeout=PATIENCE_SECONDS).content) == file["size"]


def test_read_change_data_feed(north: Recipient) -> None:
    _, metadata, *files = lines_of(north.call(north.table(TABLE) + "/changes?startingVersion=3&endingVersion=4"), 3)
    assert metadata["metaData"]["configuration"] == {"enableChangeDataFeed": "true"}
    versions = [check(line["cdf"], CHANGE)["version"] for line in files]
    # Members did not change in version 3.
    assert versions == [4]


REQUESTS: tuple[tuple[str, str, object], ...] = (
    ("GET", "/shares", None),
    ("GET", "/shares/{share}", None),
    ("GET", "/shares/{share}/schemas", None),
    ("GET", "/shares/{share}/schemas/daybreak/tables", None),
    ("GET", "/shares/{share}/all-tables", None),
    ("GET", "/shares/{share}/schemas/daybreak/tables/members/version", None),
    ("GET", "/shares/{share}/schemas/daybreak/tables/members/metadata", None),
    ("POST", "/shares/{share}/schemas/daybreak/tables/members/query", {}),
    ("GET", "/shares/{share}/schemas/daybreak/tables/members/changes?startingVersion=3", None),
)


def refused(found: requests.Response, status: int, code: str) -> None:
    assert (found.status_code, found.headers["Content-Type"]) == (status, "application/json"), found.text
    error = check(found.json(), ERROR)
    assert (error["errorCode"], bool(error["message"])) == (code, True)


@pytest.mark.parametrize(("method", "path", "body"), REQUESTS)
def test_each_request_is_refused_as_documented(north: Recipient, method: str, path: str, body: object) -> None:
    own = path.format(share=NORTH)
    refused(north.call(own, method, json=body, token=""), 401, "missing_token")
    refused(north.call(own, method, json=body, token="service_api_unknown"), 401, "invalid_token")
    refused(north.call(own, method, json=body, token=north.service.token(MAYA, NORTH)), 401, "invalid_token")
    forbidden = recipient_of(north.service, VIC, NORTH)
    refused(forbidden.call(own, method, json=body), 403, "data_export_required")
    if "{share}" in path:
        refused(north.call(path.format(share=FOREIGN), method, json=body), 404, "not_found")
    refused(north.call(own, "DELETE"), 405, "method_not_allowed")
    refused(north.call(own.partition("?")[0] + "/", method, json=body), 404, "not_found")
    refused(north.call(own + f"{'&' if '?' in own else '?'}x={'y' * 9000}", method, json=body), 414, "uri_too_long")


def test_invalid_parameters_are_malformed_requests(north: Recipient) -> None:
    table = north.table()
    for found in (
        north.call("/shares?maxResults=-1"),
        north.call("/shares?pageToken=x"),
        north.call(table + "/version?startingTimestamp=now"),
        north.call(table + "/changes"),
        north.call(table + "/query", "POST", json={"version": "3"}),
        north.call(table + "/query", "POST", json={"limitHint": "1000"}),
    ):
        refused(found, 400, "invalid_request")


def test_refusals_before_the_router_have_the_form_of_the_protocol(north: Recipient) -> None:
    host, _, port = north.service.address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), PATIENCE_SECONDS) as connection:
        connection.sendall(b"GET /sharing/v1/shares HTTP/1.1\r\nHost: a b\r\n\r\n")
        answer = b""
        while piece := connection.recv(65_536):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert b"content-type: application/json\r\n" in head.lower() + b"\r\n"
    assert check(json.loads(body), ERROR)["errorCode"] == "invalid_host"


def test_server_errors_have_the_form_of_the_protocol(make_installation: Callable[[], Installation]) -> None:
    installation = make_installation()
    with serving(installation, workers=1, settings=SETTINGS) as service:
        recipient = recipient_of(service, MAYA, NORTH)
        path = sqlite_path(installation.state_url)
        assert isinstance(path, Path)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE snapshot_files SET formats = '{'")
        for found in (
            recipient.call(recipient.table() + "/metadata"),
            recipient.call(recipient.table() + "/query", "POST", json={}),
        ):
            refused(found, 500, "internal_error")
