"""Every example of the Delta Sharing protocol, sent to the service, with each field of the responses checked.

https://github.com/delta-io/delta-sharing/blob/main/PROTOCOL.md
"""

import hashlib
import json
import socket
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import delta_sharing
import pytest
import requests

from daybreak.catalogue.resources import RESOURCES, resource_named
from daybreak.credentials.keyring import KeyringFile
from daybreak.sharing import refresh_token
from daybreak.state.database import sqlite_path
from tests.acceptance.conftest import new_installation
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
DELTA_FILE: Fields = {
    "id": (str, True), "deltaSingleAction": (dict, True), "version": (int, False), "timestamp": (int, False),
    "expirationTimestamp": (int, False),
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
    installation = new_installation(folder, large_rows=5, parquet=True)
    builder = Builder(installation, ChangingPlatform(11, leaders=LEADERS, members=300), folder, sharing=True)
    for _ in range(3):
        builder.publish()
    with serving(installation, workers=1, settings=SETTINGS) as service:
        yield recipient_of(service, MAYA, NORTH)


def page_of(recipient: Recipient, path: str, fields: Fields) -> list[dict[str, Any]]:
    """Read a list page by page, and return its items."""
    items: list[dict[str, Any]] = []
    token = ""
    while True:
        found = recipient.call(f"{path}?maxResults=4&pageToken={token}")
        assert (found.status_code, found.headers["Content-Type"]) == (200, JSON)
        body = check(found.json(), {"items": (list, True), "nextPageToken": (str, False)})
        assert len(body["items"]) <= 4
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
    assert north.call(f"/shares/{NORTH.upper()}").json() == found.json()


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
    refused(north.call(north.table(TABLE) + "/version?startingTimestamp=2999-01-01T00:00:00Z"), 400, "version_not_kept")


def test_query_table_metadata(north: Recipient) -> None:
    lines = lines_of(north.call(north.table(TABLE) + "/metadata"), 4)
    assert len(lines) == 2
    assert "version" not in lines[1]["metaData"]
    columns = {field["name"]: field for field in json.loads(lines[1]["metaData"]["schemaString"])["fields"]}
    assert columns["MEMBER_ID"] == {
        "name": "MEMBER_ID", "type": "string", "nullable": False, "metadata": {"comment": "The Member."}
    }  # fmt: skip
    assert columns["FIRST_ACTIVATED_AT"]["type"] == "timestamp"


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


def delta_lines(found: requests.Response, version: int) -> list[dict[str, Any]]:
    """Return the lines of a response in delta format after checking the first two."""
    assert (found.status_code, found.headers["delta-sharing-capabilities"]) == (200, "responseformat=delta"), found.text
    assert found.headers["Delta-Table-Version"] == str(version)
    protocol, metadata, *rest = [json.loads(line) for line in found.text.splitlines()]
    assert protocol == {"protocol": {"deltaProtocol": {"minReaderVersion": 1, "minWriterVersion": 4}}}
    delta = metadata["metaData"]["deltaMetadata"]
    assert delta["format"] == {"provider": "parquet", "options": {}}
    assert delta["configuration"] == {"delta.enableChangeDataFeed": "true"}
    assert delta.keys() == METADATA.keys() - {"version", "size", "numFiles"}
    return [metadata["metaData"], *(check(line["file"], DELTA_FILE) for line in rest)]


@pytest.mark.parametrize(
    "accepted", ["responseformat=delta", "ResponseFormat=delta,parquet;readerfeatures=columnMapping"]
)
def test_delta_format(north: Recipient, accepted: str) -> None:
    headers, table = {"delta-sharing-capabilities": accepted}, north.table(TABLE)
    (metadata,) = delta_lines(north.call(table + "/metadata", headers=headers), 4)
    assert metadata.keys() == {"deltaMetadata", "size", "numFiles"}
    for body, version in (({}, 4), ({"version": 3}, 3)):
        metadata, file = delta_lines(north.call(table + "/query", "POST", json=body, headers=headers), version)
        assert (metadata.get("version"), file.get("version")) == (body.get("version"), body.get("version"))
        action = file["deltaSingleAction"]["add"]
        assert (action["dataChange"], action["partitionValues"]) == (True, {})
        assert action["modificationTime"] <= time.time() * 1000
        assert json.loads(action["stats"])["numRecords"] > 0
        content = requests.get(action["path"], timeout=PATIENCE_SECONDS).content
        assert (len(content), hashlib.sha256(content).hexdigest()) == (action["size"], file["id"])
    changes = north.call(table + "/changes?startingVersion=3", headers=headers)
    metadata, change = delta_lines(changes, 3)
    assert (metadata["version"], change["version"]) == (3, 4)
    assert change["deltaSingleAction"]["cdc"].keys() == {"path", "partitionValues", "size", "dataChange"}
    assert change["deltaSingleAction"]["cdc"]["dataChange"] is False
    for other in ("responseformat=parquet,delta", "responseformat=avro,parquet", "x", ""):
        found = north.call(table + "/metadata", headers={"delta-sharing-capabilities": other})
        assert found.headers["delta-sharing-capabilities"] == "responseformat=parquet"
        lines_of(found, 4)
    refused(north.call(table + "/metadata", headers={"delta-sharing-capabilities": "responseformat=avro"}), 400,
            "invalid_request")  # fmt: skip


def test_marker_of_links_in_delta_format(north: Recipient) -> None:
    """The marker is not signed. It may be in a link once, with one value."""
    url = north.query(TABLE)[2]["file"]["url"]
    for sent, status in (
        ("&sp=r&name=", 200), ("&name=", 200), ("&sp=w&name=", 403), ("&sp=r&sp=r&name=", 403), ("&sp=&name=", 403),
    ):  # fmt: skip
        assert north.service.get(url.replace("&name=", sent)).status_code == status, sent


def test_files_of_a_range_of_versions(north: Recipient) -> None:
    path = north.table(TABLE) + "/query"
    # Members did not change in version 3.
    expected = [("add", 1), ("remove", 2), ("add", 2), ("remove", 4), ("add", 4)]
    for first, last, found in ((0, None, expected), (1, 3, expected[:3]), (3, 9, expected[3:]), (3, 3, [])):
        _, metadata, *files = lines_of(
            north.call(path, "POST", json={"startingVersion": first, "endingVersion": last}), max(first, 1)
        )
        assert metadata["metaData"]["version"] == max(first, 1)
        assert [(kind, file["version"]) for line in files for kind, file in line.items()] == found
        for line in files:
            ((kind, file),) = line.items()
            check(file, {**CHANGE, "stats": (str, kind == "add")})
            content = requests.get(file["url"], timeout=PATIENCE_SECONDS).content
            assert (len(content), hashlib.sha256(content).hexdigest()) == (file["size"], file["id"])
    headers = {"delta-sharing-capabilities": "responseformat=delta"}
    _, *files = delta_lines(north.call(path, "POST", json={"startingVersion": 4}, headers=headers), 4)
    removed, added = (file["deltaSingleAction"] for file in files)
    assert removed["remove"].keys() == {
        "path", "partitionValues", "size", "dataChange", "deletionTimestamp", "extendedFileMetadata",
    }  # fmt: skip
    assert added["add"]["dataChange"] is True
    refused(north.call(path, "POST", json={"startingVersion": 5}), 400, "invalid_request")
    refused(north.call(path, "POST", json={"startingVersion": 4, "endingVersion": 3}), 400, "invalid_request")


def test_refresh_tokens_keep_the_version(north: Recipient) -> None:
    path = north.table(TABLE) + "/query"

    def query(**body: object) -> requests.Response:
        return north.call(path, "POST", json=body)

    def end_of(found: requests.Response) -> dict[str, Any]:
        line = json.loads(found.text.splitlines()[-1])
        return check(line["endStreamAction"], {"refreshToken": (str, False), "minUrlExpirationTimestamp": (int, False)})

    first = query(includeRefreshToken=True)
    token = end_of(first)["refreshToken"]
    again = query(refreshToken=token, includeRefreshToken=True)
    assert end_of(again)["refreshToken"] == token
    files = [json.loads(found.text.splitlines()[2])["file"] for found in (first, again)]
    assert (files[0]["id"], files[0]["url"]) != (files[1]["id"], files[1]["url"])
    assert files[0]["id"] == files[1]["id"]
    keyring = KeyringFile(north.service.installation.folder / "keyring.json").current()
    earlier = query(refreshToken=refresh_token(NORTH, TABLE, 2, keyring=keyring))
    assert earlier.headers["Delta-Table-Version"] == "2"
    assert json.loads(earlier.text.splitlines()[2])["file"]["id"] == north.query(TABLE, version=2)[2]["file"]["id"]
    refused(query(refreshToken=refresh_token(NORTH, TABLE, 9, keyring=keyring)), 400, "version_not_kept")
    others = [refresh_token(*of, 4, keyring=keyring) for of in ((NORTH, "campaigns"), (FOREIGN, TABLE))]
    for text in (*others, token[:-1], token.replace(".4.", ".3."), "x", ""):
        refused(query(refreshToken=text), 400, "invalid_request")
    for selected in ({"version": 4}, {"timestamp": "2999-01-01T00:00:00Z"}, {"startingVersion": 4}):
        refused(query(refreshToken=token, **selected), 400, "invalid_request")
        refused(query(includeRefreshToken=True, **selected), 400, "invalid_request")


def test_last_line_and_hash_of_ids_are_confirmed(north: Recipient) -> None:
    headers = {
        "delta-sharing-capabilities": "responseformat=parquet;includeEndStreamAction=true",
        "fileidhash": "Delta",
    }
    for found in (
        north.call(north.table(TABLE) + "/query", "POST", json={}, headers=headers),
        north.call(north.table(TABLE) + "/query", "POST", json={"startingVersion": 1}, headers=headers),
        north.call(north.table(TABLE) + "/changes?startingVersion=3", headers=headers),
    ):
        confirmed = found.headers["delta-sharing-capabilities"]
        assert (confirmed, found.headers["fileidhash"]) == (
            "responseformat=parquet;includeendstreamaction=true",
            "delta",
        )
        assert json.loads(found.text.splitlines()[-1])["endStreamAction"]["minUrlExpirationTimestamp"] > 0
    assert len(north.call(north.table(TABLE) + "/metadata", headers=headers).text.splitlines()) == 2
    refused(north.call(north.table(TABLE) + "/metadata", headers={"fileidhash": "md4"}), 400, "invalid_request")


# The client leaves the folder of an empty table in delta format to the garbage collector.
@pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning")
def test_tables_without_rows_have_no_files(north: Recipient, tmp_path: Path) -> None:
    """The Python client fails if the files of a response in delta format have no rows."""
    empty = [resource for resource in RESOURCES if len(north.query(resource.name)) == 2]
    assert 0 < len(empty) < len(RESOURCES)
    for resource in empty:
        url = f"{north.profile(tmp_path)}#{NORTH}.daybreak.{resource.name}"
        for in_delta_format in (True, False):
            frame = delta_sharing.load_as_pandas(url, use_delta_format=in_delta_format)
            assert (len(frame), tuple(frame.columns)) == (0, resource.column_names)


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
    table, instant = north.table(), "2020-01-01T00:00:00Z"
    for found in (
        *(north.call(f"/shares?maxResults={text}") for text in ("-1", "x", "1.5", "2147483648")),
        *(north.call(f"/shares?pageToken={text}") for text in ("x", "-1", "0", "1.5", "٣", "9" * 10, "4-abcd-ef")),
        north.call(table + "/version?startingTimestamp=now"),
        north.call(table + "/metadata?version=x"),
        north.call(table + f"/metadata?version=1&timestamp={instant}"),
        north.call(table + "/changes"),
        *(
            north.call(table + "/query", "POST", json=body)
            for body in (
                [1],
                {"version": "3"},
                {"limitHint": "1000"},
                {"limitHint": -1},
                {"timestamp": "yesterday"},
                {"version": 1, "timestamp": instant},
                {"version": 1, "startingVersion": 1},
                {"endingVersion": 1},
                {"version": 1, "endingVersion": 1},
            )
        ),
    ):
        refused(found, 400, "invalid_request")
    for found in (
        north.call(table + "/metadata?version=9"),
        north.call(table + f"/metadata?timestamp={instant}"),
        north.call(table + "/query", "POST", json={"version": 99}),
    ):
        refused(found, 400, "version_not_kept")
    refused(north.call(table + "/query", "POST", data="{"), 415, "unsupported_media_type")
    assert north.call("/shares?maxResults=0").json()["items"] == []
    assert north.call("/shares?pageToken=999999999").json()["items"] == []


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
