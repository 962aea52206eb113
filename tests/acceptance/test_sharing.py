"""The Delta Sharing protocol over HTTP."""

import csv
import gzip
import http.client
import io
import itertools
import json
import secrets
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import delta_sharing
import pandas as pd
import pytest
import requests

from daybreak.access import api_tokens
from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import RESOURCE_NAMES, RESOURCES, Resource, resource_named
from tests.acceptance.conftest import new_installation
from tests.acceptance.installation import FOREIGN, FREYA, MAYA, NORTH, SOUTH, UNKNOWN, Installation
from tests.acceptance.service import PATIENCE_SECONDS, Service, serving
from tests.parts.variants import one_of
from tests.parts.waiting import wait_until

SETTINGS = {"sharing.enabled": True, "snapshot.formats": ["csv", "json", "parquet"]}
JSON = "application/json; charset=utf-8"
NDJSON = "application/x-ndjson; charset=utf-8"


@dataclass(frozen=True)
class Recipient:
    """A client with an API token of an account."""

    service: Service
    client_id: str
    token: str

    @property
    def endpoint(self) -> str:
        return f"{self.service.base_url}/sharing/v1"

    def call(self, path: str, method: str = "GET", token: str | None = None, **options: Any) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.token if token is None else token}", **options.pop("headers", {})}
        return requests.request(
            method, self.endpoint + path, headers=headers, timeout=PATIENCE_SECONDS, allow_redirects=False, **options
        )

    def table(self, name: str = "members", share: str = "") -> str:
        return f"/shares/{share or self.client_id}/schemas/daybreak/tables/{name}"

    def query(self, name: str = "members", **body: Any) -> list[dict[str, Any]]:
        found = self.call(self.table(name) + "/query", "POST", json=body)
        assert found.status_code == 200, found.text
        return [json.loads(line) for line in found.text.splitlines()]

    def metadata_version(self, **selected: str | int) -> int:
        """Return the version that a request for metadata selects."""
        response = self.call(self.table() + "/metadata", params=selected)
        assert response.status_code == 200, response.text
        return int(response.headers["Delta-Table-Version"])

    def profile(self, folder: Path) -> str:
        """Write a profile file and return its path."""
        path = folder / f"{uuid.uuid4()}.share"
        content = {"shareCredentialsVersion": 1, "endpoint": self.endpoint, "bearerToken": self.token}
        path.write_text(json.dumps(content))
        return str(path)

    def csv(self, name: str) -> bytes:
        """Download the content of the CSV file."""
        path = resource_named(name).download_path
        url = self.service.link(self.token, self.client_id, path)
        return gzip.decompress(requests.get(url, timeout=PATIENCE_SECONDS).content)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    installation = new_installation(tmp_path_factory.mktemp("sharing"), parquet=True)
    with serving(installation, workers=1, settings=SETTINGS) as found:
        yield found


def recipient_of(service: Service, email: str, client_id: str) -> Recipient:
    token, _ = service.installation.create_token(email, client_id)
    return Recipient(service, client_id, token)


@pytest.fixture(scope="module")
def north(service: Service) -> Recipient:
    return recipient_of(service, MAYA, NORTH)


def as_text(resource: Resource, frame: pd.DataFrame) -> list[list[str]]:
    """Return rows as they are in the CSV file, without quotes."""
    assert list(frame.columns) == list(resource.column_names)
    forms: dict[ColumnType, Callable[[Any], str]] = {
        ColumnType.UUID: str,
        ColumnType.TEXT: str,
        ColumnType.BIGINT: lambda value: str(int(value)),
        ColumnType.BOOLEAN: lambda value: str(value).lower(),
        ColumnType.DATE: date.isoformat,
        ColumnType.TIMESTAMP: lambda value: f"{value.tz_convert('UTC'):%Y-%m-%dT%H:%M:%S.%fZ}",
    }
    columns = [
        ["" if pd.isna(value) else forms[column.type](value) for value in frame[column.name]]
        for column in resource.columns
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def rows_of(content: bytes) -> list[list[str]]:
    _header, *rows = csv.reader(io.StringIO(content.decode(), newline=""))
    return rows


# The client leaves the folder of an empty table in delta format to the garbage collector.
@pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning")
@pytest.mark.parametrize(("email", "client_id"), one_of((FREYA, FOREIGN), (MAYA, NORTH), (MAYA, SOUTH)))
def test_python_client_reads_every_table(service: Service, tmp_path: Path, email: str, client_id: str) -> None:
    recipient = recipient_of(service, email, client_id)
    profile = recipient.profile(tmp_path)
    client = delta_sharing.SharingClient(profile)
    assert [share.name for share in client.list_shares()] == [client_id]
    tables = client.list_all_tables()
    assert [(table.share, table.schema, table.name) for table in tables] == [
        (client_id, "daybreak", name) for name in RESOURCE_NAMES
    ]
    for resource in RESOURCES:
        frame = delta_sharing.load_as_pandas(f"{profile}#{client_id}.daybreak.{resource.name}")
        assert as_text(resource, frame) == rows_of(recipient.csv(resource.name)), resource.name


def test_python_client_sends_client_credentials(service: Service, north: Recipient, tmp_path: Path) -> None:
    def shares(secret: str) -> list[str]:
        profile = tmp_path / f"{uuid.uuid4()}.share"
        content = {
            "shareCredentialsVersion": 2, "type": "oauth_client_credentials", "endpoint": north.endpoint,
            "tokenEndpoint": f"{north.endpoint}/oauth/token", "clientId": NORTH, "clientSecret": secret,
        }  # fmt: skip
        profile.write_text(json.dumps(content))
        return [share.name for share in delta_sharing.SharingClient(str(profile)).list_shares()]

    assert shares(north.token) == [NORTH]
    with pytest.raises(requests.HTTPError) as refused:
        shares("service_api_unknown")
    assert refused.value.response.status_code == 401
    wrong = requests.post(f"{north.endpoint}/oauth/token", data={"grant_type": "password"}, timeout=PATIENCE_SECONDS)
    assert (wrong.status_code, wrong.json()["errorCode"]) == (400, "invalid_request")


def test_python_client_applies_a_limit(north: Recipient, tmp_path: Path) -> None:
    url = f"{north.profile(tmp_path)}#{NORTH}.daybreak.members"
    assert len(delta_sharing.load_as_pandas(url, limit=7)) == 7
    assert delta_sharing.get_table_version(url) == 1
    assert delta_sharing.get_table_metadata(url).name == "members"


def test_query_returns_files_with_statistics(service: Service, north: Recipient) -> None:
    protocol, metadata, line = north.query(predicateHints=["CITY = 'x'"], jsonPredicateHints="{", limitHint=10)
    assert (protocol, metadata["metaData"]["numFiles"]) == ({"protocol": {"minReaderVersion": 1}}, 1)
    file = line["file"]
    assert file.keys() == {"url", "id", "partitionValues", "size", "stats", "expirationTimestamp"}
    content = requests.get(file["url"], timeout=PATIENCE_SECONDS).content
    frame = pd.read_parquet(io.BytesIO(content))
    assert (len(content), file["partitionValues"]) == (file["size"], {})
    assert json.loads(file["stats"]) == {
        "numRecords": len(frame),
        "nullCount": {name: int(count) for name, count in frame.isna().sum().items()},
    }
    lifetime = datetime.fromtimestamp(file["expirationTimestamp"] / 1000, UTC) - datetime.now(UTC)
    assert timedelta(minutes=14) < lifetime <= timedelta(minutes=15)
    assert len(north.query(limitHint=0)) == 2
    # The client drops rows after reading, so the file may be needed.
    assert len(north.query(limitHint=0, predicateHints=["CITY = 'x'"])) == 3


def test_query_and_fetch_are_in_the_audit_trail(service: Service) -> None:
    recipient = recipient_of(service, MAYA, NORTH)
    agent = {"User-Agent": "Delta-Sharing-Python/1.4"}
    found = recipient.call(recipient.table() + "/query", "POST", json={}, headers=agent)
    url = json.loads(found.text.splitlines()[2])["file"]["url"]
    requests.get(url, headers=agent, timeout=PATIENCE_SECONDS)
    refused = recipient.call(recipient.table("people") + "/query", "POST", json={}, headers=agent)
    assert refused.status_code == 404

    def events() -> list[dict[str, Any]]:
        lines = service.get(f"/download/v1/audit/{NORTH}", token=recipient.token).text.splitlines()
        return [event for event in map(json.loads, lines) if event["user_agent"] == agent["User-Agent"]]

    # Events are written a quarter of a second later.
    wait_until(lambda: len(events()) == 3, PATIENCE_SECONDS)
    queried, fetched, not_found = events()
    assert (queried["action"], queried["result"]) == ("table.queried", "ok")
    assert (queried["details"]["table"], queried["details"]["version"]) == ("members", 1)
    assert (fetched["action"], fetched["result"]) == ("file.fetched", "ok")
    assert (not_found["action"], not_found["result"]) == ("table.queried", "not_found")


def test_foreign_and_unknown_names_get_the_same_response(north: Recipient) -> None:
    for suffix in ("", "/schemas", "/all-tables", "/schemas/daybreak/tables"):
        answers = [north.call(f"/shares/{share}{suffix}") for share in (FOREIGN, UNKNOWN, "x", "%00", "..%2f")]
        assert {answer.status_code for answer in answers} == {404}
        assert len({answer.content for answer in answers[:3]}) == 1
    for suffix, method in (("/version", "GET"), ("/metadata", "GET"), ("/query", "POST"), ("", "HEAD")):
        answers = [
            north.call(north.table(share=share) + suffix, method, json={} if method == "POST" else None)
            for share in (FOREIGN, UNKNOWN, SOUTH)
        ]
        assert [answer.status_code for answer in answers] == [404, 404, 404]
        assert len({answer.content for answer in answers}) == 1
    for path in (f"/shares/{NORTH}/schemas/other/tables", north.table("people") + "/metadata"):
        assert north.call(path).status_code == 404


PATHS = (
    ("GET", "/shares/{share}"),
    ("GET", "/shares/{share}/schemas"),
    ("GET", "/shares/{share}/schemas/daybreak/tables"),
    ("GET", "/shares/{share}/all-tables"),
    ("HEAD", "/shares/{share}/schemas/daybreak/tables/members"),
    ("GET", "/shares/{share}/schemas/daybreak/tables/members/version"),
    ("GET", "/shares/{share}/schemas/daybreak/tables/members/metadata"),
    ("POST", "/shares/{share}/schemas/daybreak/tables/members/query"),
    ("GET", "/shares/{share}/schemas/daybreak/tables/members/changes?startingVersion=1"),
)


def other_shares(own: str, other: str) -> list[str]:
    """Return names that are not of the own share: the other one, both of them, and forms of the own one."""
    return [
        other,
        other.upper(),
        f"{own}%2f..%2f{other}",
        f"{own}/../{other}",
        f"{own}/%2e%2e/{other}",
        f"./{own}//{other}",
        f"{other}%00{own}",
        f"{own}%00",
        f"{own},{other}",
        f"{own}%20",
        f"%e2%80%8b{other}",
        own[:-1],
        f"{other}%27%20OR%20%271%27=%271",
        "%25" + other[1:],
        "%",
        "",
        UNKNOWN,
    ]


def invalid_secrets(secret: str) -> list[str]:
    """Return credentials that resemble a token."""
    place = len("service_api_")
    return [
        secret[:place] + ("B" if secret[place] == "A" else "A") + secret[place + 1 :],
        secret[:-1],
        secret + "A",
        secret.upper(),
        secret.removeprefix("service_api_"),
        api_tokens.generate(secrets.token_bytes),
        "eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl",
    ]


def test_no_attack_reaches_another_share(service: Service) -> None:
    """A valid token with names that are not its share's gets 404, an invalid token with any name gets 401."""
    owners = {NORTH: MAYA, FOREIGN: FREYA}
    tokens = {client_id: recipient_of(service, email, client_id).token for client_id, email in owners.items()}
    attacks = []
    for (own, token), (other, _) in itertools.permutations(tokens.items()):
        attacks += [(404, token, name, other) for name in other_shares(own, other)]
        attacks += [(401, secret, name, other) for secret in invalid_secrets(token) for name in (own, other)]
    answers: set[tuple[int, str, bytes]] = set()
    with closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE_SECONDS)) as connection:
        for (expected, secret, name, other), (method, path) in itertools.product(attacks, PATHS):
            status, content_type, body = send(connection, secret, path.format(share=name), method)
            assert status == expected, (method, path, name, status, body)
            assert other.encode() not in body
            if method != "HEAD":
                answers.add((status, content_type, body))
    # The text is the same for all shares. It differs for URLs that have no share, and for other kinds of credentials.
    assert {content_type for _, content_type, _ in answers} == {"application/json"}
    codes = sorted((status, json.loads(body)["errorCode"]) for status, _, body in answers)
    assert codes == [(401, "invalid_token")] * 2 + [(404, "not_found")] * 3


def send(connection: http.client.HTTPConnection, secret: str, path: str, method: str) -> tuple[int, str, bytes]:
    """Send a path as it is, which `requests` would change."""
    body = b"{}" if method == "POST" else None
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
    try:
        connection.request(method, f"/sharing/v1{path}", body, headers)
        found = connection.getresponse()
    except ConnectionError:
        # After a refusal without reading the body, the server closes the connection.
        connection.close()
        connection.request(method, f"/sharing/v1{path}", body, headers)
        found = connection.getresponse()
    return found.status, found.headers["Content-Type"], found.read()


def test_tokens_for_other_addresses_are_refused(service: Service) -> None:
    token, token_id = service.installation.create_token(MAYA, NORTH)
    recipient = Recipient(service, NORTH, token)
    file_url = next(line["file"]["url"] for line in recipient.query() if "file" in line)
    assert service.get(file_url).status_code == 200
    service.installation.change(lambda stores: stores.api_tokens.set_allowed_networks(token_id, ["203.0.113.0/24"]))
    calls = [("/shares", "GET"), (recipient.table() + "/version", "GET"), (recipient.table() + "/query", "POST")]
    for path, method in calls:
        refused = recipient.call(path, method, json={})
        assert (refused.status_code, refused.json()["errorCode"]) == (403, "address_not_allowed")
    assert service.get(file_url).json()["code"] == "address_not_allowed"


def test_large_predicates_are_accepted(north: Recipient) -> None:
    predicate = json.dumps({"op": "equal", "value": "x" * 500_000})
    assert len(north.query(jsonPredicateHints=predicate)) == 3


@pytest.mark.release
def test_earlier_versions_are_read_by_number_and_time(tmp_path: Path) -> None:
    installation = new_installation(tmp_path, large_rows=50, parquet=True)
    with serving(installation, workers=1, settings=SETTINGS) as service:
        recipient = recipient_of(service, MAYA, NORTH)
        profile = f"{recipient.profile(tmp_path)}#{NORTH}.daybreak.members"
        resource = resource_named("members")
        contents = {1: recipient.csv("members")}
        for version in (2, 3):
            installation.publish_snapshot(seed=version)
            contents[version] = recipient.csv("members")
        published: dict[int, int] = {}
        for version, content in contents.items():
            frame = delta_sharing.load_as_pandas(profile, version=version)
            assert as_text(resource, frame) == rows_of(content)
            _, metadata, line = recipient.query(version=version)
            assert (metadata["metaData"]["version"], line["file"]["version"]) == (version, version)
            published[version] = line["file"]["timestamp"]
            assert recipient.metadata_version(version=version) == version
        for version in (1, 2, 3):
            instant = datetime.fromtimestamp(published[version] / 1000, UTC) + timedelta(milliseconds=1)
            for text in (f"{instant:%Y-%m-%dT%H:%M:%S.%fZ}", f"{instant:%Y-%m-%d %H:%M:%S.%f}"):
                assert recipient.query(timestamp=text)[2]["file"]["version"] == version
                assert recipient.metadata_version(timestamp=text) == version
        refused = recipient.call(recipient.table() + "/query", "POST", json={"timestamp": "2020-01-01T00:00:00Z"})
        assert (refused.status_code, refused.json()["errorCode"]) == (400, "version_not_kept")
        assert "The oldest version is 1, the current one is 3." in refused.json()["message"]


@pytest.mark.release
def test_metadata_needs_no_file_store(tmp_path: Path) -> None:
    installation = new_installation(tmp_path, large_rows=5, parquet=True)
    with serving(installation, workers=1, settings=SETTINGS) as service:
        recipient = recipient_of(service, MAYA, NORTH)
        shutil.rmtree(installation.files_folder)
        for resource in RESOURCES:
            assert recipient.call(recipient.table(resource.name) + "/metadata").status_code == 200
            _, _, line = recipient.query(resource.name)
            assert requests.get(line["file"]["url"], timeout=PATIENCE_SECONDS).status_code >= 500


def test_sharing_is_off_by_default(make_installation: Callable[[], Installation]) -> None:
    installation = make_installation()
    with serving(installation, workers=1) as service:
        recipient = recipient_of(service, MAYA, NORTH)
        assert recipient.call("/shares").status_code == 404
