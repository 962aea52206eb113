"""The Iceberg REST catalog over HTTP, read with pyiceberg."""

import gzip
import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import delta_sharing
import polars as pl
import pytest
import requests
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import ForbiddenError, NoSuchTableError, UnauthorizedError

from daybreak.catalogue.resources import RESOURCE_NAMES, RESOURCES, resource_named
from daybreak.credentials import keyring
from daybreak.credentials.s3_keys import static_key
from daybreak.export import parquet_parts
from tests.acceptance.conftest import new_installation
from tests.acceptance.hostile_requests import S3, UNSIGNED, WITH_TOKEN
from tests.acceptance.installation import FOREIGN, FREYA, MAYA, NORTH, SOUTH, UNKNOWN, VIC, Installation
from tests.acceptance.service import PATIENCE_SECONDS, Service, serving
from tests.acceptance.test_framing import raw
from tests.acceptance.test_sharing import Recipient, as_text, rows_of
from tests.parts.stored_files import read_stored
from tests.parts.variants import one_of
from tests.parts.waiting import wait_until

SETTINGS = {
    "attach.s3": True,
    "attach.iceberg": True,
    "sharing.enabled": True,
    "snapshot.formats": ["csv", "json", "parquet"],
}


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """An installation with two versions of different rows. In the second, North's members have parts."""
    found = new_installation(tmp_path_factory.mktemp("iceberg"), parquet=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_parts, "MAX_FILE_BYTES", 100_000)
        found.publish_snapshot(seed=2)
    return found


@pytest.fixture(scope="module")
def service(installation: Installation) -> Iterator[Service]:
    with serving(installation, workers=1, settings=SETTINGS) as found:
        yield found


def token_of(service: Service, email: str = MAYA, client_id: str = NORTH) -> str:
    return service.installation.create_token(email, client_id)[0]


def catalog_of(service: Service, client_id: str, **properties: str) -> RestCatalog:
    uri = f"{service.base_url}/iceberg"
    tokens = {"oauth2-server-uri": f"{uri}/v1/oauth/tokens"}
    return RestCatalog("daybreak", uri=uri, warehouse=client_id, **tokens, **properties)


def call(service: Service, path: str, token: str, method: str = "GET", **options: Any) -> requests.Response:
    headers = {"Authorization": f"Bearer {token}"}
    url = f"{service.base_url}/iceberg/v1/{path}"
    return requests.request(method, url, headers=headers, timeout=PATIENCE_SECONDS, allow_redirects=False, **options)


def csv_rows(service: Service, token: str, client_id: str, name: str, version: int) -> list[list[str]]:
    """Return the rows of the CSV file of a version."""
    snapshots = read_snapshots(service)
    file = service.installation.read(lambda stores: stores.snapshots.file(snapshots[version], client_id, name, "csv"))
    assert file is not None
    return rows_of(gzip.decompress(read_stored(service.installation.files_folder, file.stored.key)))


def read_snapshots(service: Service) -> dict[int, str]:
    served = service.installation.read(lambda stores: stores.snapshots.served())
    return {each.version: each.snapshot_id for each in served if each.version is not None}


@pytest.mark.parametrize(("email", "client_id"), one_of((FREYA, FOREIGN), (MAYA, NORTH), (MAYA, SOUTH)))
def test_every_table_and_version_is_read(service: Service, email: str, client_id: str) -> None:
    """Cell by cell, the current version and the one before."""
    token = token_of(service, email, client_id)
    catalog = catalog_of(service, client_id, credential=f"{client_id}:{token}")
    assert catalog.list_namespaces() == [("daybreak",)]
    assert [name for _, name in catalog.list_tables("daybreak")] == list(RESOURCE_NAMES)
    for resource in RESOURCES:
        table = catalog.load_table(("daybreak", resource.name))
        for version in (1, 2):
            frame = table.scan(snapshot_id=version).to_pandas()
            expected = csv_rows(service, token, client_id, resource.name, version)
            assert as_text(resource, frame) == expected, (resource.name, version)
        assert table.scan().to_arrow().num_rows == len(expected)
        assert table.snapshot_by_name("v1") == table.snapshot_by_id(1)


@pytest.mark.release
def test_large_files_are_read_in_parts(service: Service, tmp_path: Path) -> None:
    """S3, Iceberg and Delta Sharing list the same parts. Links and `latest/` have the whole file."""
    token = token_of(service)
    table = catalog_of(service, NORTH, token=token).load_table("daybreak.members")
    sizes = [task.file.file_size_in_bytes for task in table.scan().plan_files()]
    assert len(sizes) > 2
    key = table.io.properties
    client = boto3.client(
        "s3",
        endpoint_url=service.base_url,
        region_name="us-east-1",
        aws_access_key_id=key["s3.access-key-id"],
        aws_secret_access_key=key["s3.secret-access-key"],
        aws_session_token=key["s3.session-token"],
    )
    listed = client.list_objects_v2(Bucket=NORTH, Prefix="tables/members/v=2/")["Contents"]
    names = [f"tables/members/v=2/members-{number:05}.parquet" for number in range(1, len(sizes) + 1)]
    assert [each["Key"] for each in listed] == names
    assert sorted(each["Size"] for each in listed) == sorted(sizes)
    parts = [client.get_object(Bucket=NORTH, Key=name, ChecksumMode="ENABLED")["Body"].read() for name in names]
    whole = requests.get(service.link(token, NORTH, "members.parquet"), timeout=PATIENCE_SECONDS).content
    assert pl.concat(map(pl.read_parquet, parts)).equals(pl.read_parquet(whole))
    assert client.get_object(Bucket=NORTH, Key="latest/members.parquet")["Body"].read() == whole
    # Ranges across the places where the bytes of a part come from.
    for start, end in ((0, 0), (2, 9), (4, 4), (len(parts[0]) - 5_000, len(parts[0]) - 1), (1, len(parts[0]) - 2)):
        found = client.get_object(Bucket=NORTH, Key=names[0], Range=f"bytes={start}-{end}")["Body"].read()
        assert found == parts[0][start : end + 1]

    recipient = Recipient(service, NORTH, token)
    files = [line["file"] for line in recipient.query() if "file" in line]
    shared = [requests.get(file["url"], timeout=PATIENCE_SECONDS) for file in files]
    assert [answer.content for answer in shared] == parts
    assert [file["id"] for file in files] == [hashlib.sha256(part).hexdigest() for part in parts]
    assert [answer.headers["X-Row-Count"] for answer in shared] == [
        str(json.loads(file["stats"])["numRecords"]) for file in files
    ]
    url = f"{recipient.profile(tmp_path)}#{NORTH}.daybreak.members"
    for in_delta_format in (False, True):
        frame = delta_sharing.load_as_pandas(url, use_delta_format=in_delta_format)
        assert as_text(resource_named("members"), frame) == csv_rows(service, token, NORTH, "members", 2)
    for damaged in ("part=0", "part=99", "part=1&part=1", "part=x"):
        refused = requests.get(files[0]["url"].replace("part=1", damaged), timeout=PATIENCE_SECONDS)
        assert (refused.status_code, refused.json()["code"]) == (403, "invalid_link")


def test_columns_and_rows_are_selected_by_the_engine(service: Service) -> None:
    catalog = catalog_of(service, NORTH, token=token_of(service))
    table = catalog.load_table("daybreak.members")
    some = table.scan(row_filter="COUNTRY IS NULL", selected_fields=("MEMBER_ID",)).to_arrow()
    assert some.column_names == ["MEMBER_ID"]
    expected = table.scan().to_pandas()
    assert some.num_rows == int(expected["COUNTRY"].isna().sum()) > 0


@pytest.mark.release
def test_polars_reads_a_table_of_pyiceberg(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    table = catalog_of(service, NORTH, token=token_of(service)).load_table("daybreak.members")
    frame = pl.scan_iceberg(table, storage_options=table.io.properties).collect()
    assert frame.to_arrow().to_pylist() == table.scan().to_arrow().to_pylist()


def test_revoked_token_stops(service: Service) -> None:
    secret, token_id = service.installation.create_token(MAYA, NORTH)
    catalog = catalog_of(service, NORTH, token=secret)
    table = catalog.load_table("daybreak.communities")
    assert table.scan().to_arrow().num_rows
    service.installation.change(lambda stores: stores.api_tokens.revoke(token_id, datetime.now(UTC), "test"))
    with pytest.raises(UnauthorizedError):
        catalog.load_table("daybreak.communities")
    # The keys of the S3 endpoint end too.
    with pytest.raises(OSError, match=r"(?i)access.?denied|forbidden|403"):
        table.scan().to_arrow()


def test_foreign_and_unknown_warehouses_are_alike(service: Service) -> None:
    token = token_of(service)
    paths = ("config?warehouse={}", "{}/namespaces", "{}/namespaces/daybreak/tables/members")
    for path in paths:
        answers = [call(service, path.format(client_id), token) for client_id in (FOREIGN, UNKNOWN)]
        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].json() == answers[1].json()
    assert call(service, paths[0].format(NORTH), token).json()["overrides"] == {"prefix": NORTH}


def test_errors_have_the_form_of_the_protocol(service: Service) -> None:
    token = token_of(service)
    catalog = catalog_of(service, NORTH, token=token)
    with pytest.raises(NoSuchTableError):
        catalog.load_table("daybreak.unknown")
    assert not catalog.table_exists("daybreak.unknown")
    assert catalog.table_exists("daybreak.members")
    assert not catalog.namespace_exists("unknown")
    assert catalog.list_namespaces("daybreak") == []
    for method, path in (
        ("POST", f"{NORTH}/namespaces"),
        ("DELETE", f"{NORTH}/namespaces/daybreak/tables/members"),
        ("POST", f"{NORTH}/namespaces/daybreak/tables/members"),
        ("GET", f"{NORTH}/namespaces/daybreak/views"),
    ):
        refused = call(service, path, token, method, json={})
        assert refused.status_code == 406
        assert refused.json()["error"]["type"] == "UnsupportedOperationException"
    assert (
        call(service, f"{NORTH}/namespaces/daybreak/tables/members/metrics", token, "POST", json={}).status_code == 204
    )
    missing = requests.get(f"{service.base_url}/iceberg/v1/config", timeout=PATIENCE_SECONDS)
    assert (missing.status_code, missing.json()["error"]["type"]) == (401, "NotAuthorizedException")
    with pytest.raises(ForbiddenError):
        catalog_of(service, NORTH, token=token_of(service, VIC))


def test_tokens_are_exchanged_for_client_credentials(service: Service) -> None:
    url, token = f"{service.base_url}/iceberg/v1/oauth/tokens", token_of(service)
    grant = {"grant_type": "client_credentials"}
    found = requests.post(url, {**grant, "client_secret": token}, timeout=PATIENCE_SECONDS)
    assert found.json().items() >= {"token_type": "bearer", "access_token": token}.items()
    assert requests.post(url, grant, auth=("any", token), timeout=PATIENCE_SECONDS).json() == found.json()
    for body, status, error in (
        ({**grant, "client_secret": token[:-1]}, 401, "invalid_client"),
        (grant, 401, "invalid_client"),
        ({"client_secret": token}, 400, "invalid_request"),
        ({**grant, "client_secret": [token, token]}, 400, "invalid_request"),
    ):
        refused = requests.post(url, body, timeout=PATIENCE_SECONDS)
        assert (refused.status_code, refused.json()["error"]) == (status, error)


def test_loaded_tables_are_in_the_audit_trail(service: Service) -> None:
    secret, token_id = service.installation.create_token(MAYA, NORTH)
    assert call(service, f"{NORTH}/namespaces/daybreak/tables/members", secret).status_code == 200
    assert call(service, f"{NORTH}/namespaces/daybreak/tables/unknown", secret).status_code == 404

    def events() -> list[tuple[str, object]]:
        lines = service.get(f"/download/v1/audit/{NORTH}", token=secret).text.splitlines()
        own = [event for event in map(json.loads, lines) if event["subject"] == f"token:{token_id}"]
        # Reading the audit trail is in it too.
        queries = [event for event in own if event["action"] == "table.queried"]
        return [(event["result"], event["details"].get("version")) for event in queries]

    wait_until(lambda: len(events()) == 2, PATIENCE_SECONDS)
    assert events() == [("ok", 2), ("not_found", None)]


def test_hostile_requests_are_refused(service: Service) -> None:
    """None is an error of the server, and no answer is about another account."""
    secret, token_id = service.installation.create_token(MAYA, NORTH)
    key = static_key(token_id, keyring=keyring.load(service.installation.keyring_file))
    signer = S3SigV4Auth(Credentials(key.access_key_id, key.secret), "s3", "us-east-1")
    for hostile in (*S3, *UNSIGNED, *WITH_TOKEN):
        target = hostile.target.replace("{own}", NORTH).replace("{other}", SOUTH)
        request = AWSRequest(hostile.method, service.base_url + target, headers=hostile.headers)
        if hostile in WITH_TOKEN:
            request.headers["Authorization"] = f"Bearer {secret}"
        elif hostile in S3:
            signer.add_auth(request)
        body = hostile.body.encode()
        lines = {"Host": service.address.removeprefix("http://"), "Connection": "close", "Content-Length": len(body)}
        head = "".join(f"{name}: {value}\r\n" for name, value in (*lines.items(), *request.headers.items()))
        status, answer = raw(service, f"{hostile.method} {target} HTTP/1.1\r\n{head}\r\n".encode() + body)
        assert 200 <= status < 500 or status == 501, hostile
        assert SOUTH.encode() not in answer, hostile
        # Those that are signed reach what they test.
        assert b"SignatureDoesNotMatch" not in answer, hostile


def test_catalog_is_off_by_default(installation: Installation) -> None:
    with serving(installation, workers=1) as service:
        assert call(service, "config", token_of(service)).status_code == 404
