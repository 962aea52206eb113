"""The S3 endpoint with unmodified clients: boto3, polars, PyArrow and obstore."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import boto3
import obstore
import polars as pl
import pyarrow.parquet as pq
import pytest
import requests
from boto3.s3.transfer import TransferConfig
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from obstore.store import S3Store
from pyarrow.fs import S3FileSystem

from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.cli.doctor_deep import check_s3
from daybreak.credentials import keyring
from daybreak.credentials.s3_keys import AccessKey, session_key, static_key
from daybreak.domain.errors import OperatorError
from daybreak.settings import AttachSettings, load_settings
from daybreak.state.stores import Stores
from daybreak.state.throttle import ThrottleRule
from tests.acceptance.browser import signed_in
from tests.acceptance.conftest import new_installation
from tests.acceptance.installation import FOREIGN, FREYA, MAYA, NORTH, SOUTH, UNKNOWN, seat_id
from tests.acceptance.service import PATIENCE_SECONDS, Service, serving
from tests.parts.ports import free_port
from tests.parts.waiting import wait_until

SETTINGS = {"attach.s3": True, "access.daily_bytes": "100MB", "snapshot.formats": ["csv", "json", "parquet"]}
LARGE = "latest/members.json.gz"
PART_BYTES = 64 * 1024
_DUCKDB_SCAN = Path(__file__).parents[1] / "parts" / "duckdb_scan.py"


@dataclass(frozen=True)
class Attached:
    """A client with an access key of an account."""

    service: Service
    client_id: str
    token: str
    token_id: str
    key: AccessKey

    @cached_property
    def s3(self) -> Any:
        """A client of boto3 without retries, so that each refusal is seen."""
        return self.client()

    def client(self, **config: Any) -> Any:
        return boto3.client(
            "s3",
            endpoint_url=self.service.base_url,
            region_name="eu-central-1",
            aws_access_key_id=self.key.access_key_id,
            aws_secret_access_key=self.key.secret,
            aws_session_token=self.key.session_token or None,
            config=Config(retries={"total_max_attempts": 1}, **config),
        )

    def keys(self, prefix: str = "") -> dict[str, dict[str, Any]]:
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.client_id, Prefix=prefix)
        return {each["Key"]: each for page in pages for each in page.get("Contents", [])}

    def read(self, key: str, **options: Any) -> bytes:
        content: bytes = self.s3.get_object(Bucket=self.client_id, Key=key, **options)["Body"].read()
        return content

    def listed(self, query: str) -> requests.Response:
        """Return the answer to a GET of the bucket, with parameters that boto3 does not send."""
        url = f"{self.service.base_url}/{self.client_id}?{query}"
        request = AWSRequest("GET", url)
        S3SigV4Auth(Credentials(self.key.access_key_id, self.key.secret), "s3", "us-east-1").add_auth(request)
        return requests.get(url, headers=dict(request.headers), timeout=PATIENCE_SECONDS)

    def refusal(self, key: str = "latest/members.csv.gz", **options: Any) -> tuple[int, str]:
        """Return status and code of a refused request."""
        with pytest.raises(ClientError) as caught:
            self.s3.get_object(Bucket=self.client_id, Key=key, **options)
        return code_of(caught.value)

    def with_session(self, **changes: Any) -> Attached:
        """Return a client with a session key, which the service issues or, with changes, the test."""
        if changes:
            ring = keyring.load(self.service.installation.keyring_file)
            return Attached(
                self.service, self.client_id, self.token, self.token_id,
                session_key(self.token_id, keyring=ring, **changes),
            )  # fmt: skip
        found = self.service.request("POST", "/download/v1/s3-credentials", token=self.token)
        assert found.status_code == 200, found.text
        issued = found.json()
        assert issued.keys() == {"Version", "AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration"}
        assert issued["Version"] == 1
        key = AccessKey(issued["AccessKeyId"], issued["SecretAccessKey"], issued["SessionToken"])
        return Attached(self.service, self.client_id, self.token, self.token_id, key)


def code_of(error: ClientError) -> tuple[int, str]:
    return error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with two versions, the second with a delta and signed."""
    installation = new_installation(tmp_path_factory.mktemp("s3"), parquet=True)
    installation.publish_snapshot(seed=2, with_delta=True, with_statements=True)
    with serving(installation, workers=1, settings=SETTINGS) as found:
        yield found


def attached(service: Service, email: str = MAYA, client_id: str = NORTH) -> Attached:
    token, token_id = service.installation.create_token(email, client_id)
    ring = keyring.load(service.installation.keyring_file)
    return Attached(service, client_id, token, token_id, static_key(token_id, keyring=ring))


@pytest.fixture(scope="module")
def north(service: Service) -> Attached:
    return attached(service)


def downloaded(north: Attached, file: str) -> bytes:
    """Download a file of the current version by link."""
    url = north.service.link(north.token, north.client_id, file)
    return requests.get(url, timeout=PATIENCE_SECONDS).content


def test_bucket_contains_every_version(north: Attached) -> None:
    found = north.keys()
    files = {f"{name}.{ending}" for name in RESOURCE_NAMES for ending in ("csv.gz", "json.gz", "parquet")}
    statement = {"statement.json", "statement.json.sig"}
    assert found.keys() == {
        *(f"v=1/{each}" for each in (*files, "manifest.json")),
        *(f"{folder}/{each}" for folder in ("latest", "v=2") for each in (*files, *statement, "manifest.json")),
        *(f"tables/{name}/v={version}/{name}.parquet" for name in RESOURCE_NAMES for version in (1, 2)),
        "deltas/v=2/communities.delta.csv.gz",
        "deltas/v=2/communities.delta.json.gz",
    }
    assert list(found) == sorted(found)
    for key, each in found.items():
        content = north.read(key)
        assert len(content) == each["Size"]
        assert each["ETag"] == f'"{hashlib.sha256(content).hexdigest()[:32]}-1"'
    assert [each["Name"] for each in north.s3.list_buckets()["Buckets"]] == [NORTH]


def test_files_equal_those_of_links(north: Attached) -> None:
    assert north.read("latest/campaigns.csv.gz") == downloaded(north, "campaigns.csv.gz")
    manifest = json.loads(north.read("latest/manifest.json"))
    assert (manifest["client_id"], manifest["version"]) == (NORTH, 2)
    for file in manifest["files"]:
        assert hashlib.sha256(north.read(f"v=2/{file['name']}")).hexdigest() == file["sha256"]
    statement = json.loads(north.read("latest/statement.json"))
    digests = {each["digest"]["sha256"] for each in statement["subject"]}
    assert {file["sha256"] for file in manifest["files"] if file["format"] == "csv"} <= digests


@pytest.mark.parametrize("listing", ["list_objects", "list_objects_v2"])
@pytest.mark.parametrize("delimiter", ["", "/"])
def test_pages_contain_each_key_once(north: Attached, listing: str, delimiter: str) -> None:
    pages = north.s3.get_paginator(listing).paginate(
        Bucket=NORTH, Delimiter=delimiter, PaginationConfig={"PageSize": 3}
    )
    found = list(
        chain.from_iterable(
            [*(each["Key"] for each in page.get("Contents", [])),
             *(each["Prefix"] for each in page.get("CommonPrefixes", []))]
            for page in pages
        )
    )  # fmt: skip
    assert found == (["deltas/", "latest/", "tables/", "v=1/", "v=2/"] if delimiter else list(north.keys()))


def test_lists_begin_after_a_key_and_below_a_prefix(north: Attached) -> None:
    after = north.s3.list_objects_v2(Bucket=NORTH, Prefix="latest/", StartAfter="latest/members.parquet", MaxKeys=2)
    assert [each["Key"] for each in after["Contents"]] == [
        f"latest/outbound_message_type_usage.{ending}" for ending in ("csv.gz", "json.gz")
    ]
    assert (after["IsTruncated"], after["KeyCount"]) == (True, 2)
    tables = north.s3.list_objects_v2(Bucket=NORTH, Prefix="tables/members/", Delimiter="/")
    assert [each["Prefix"] for each in tables["CommonPrefixes"]] == ["tables/members/v=1/", "tables/members/v=2/"]
    assert north.keys("iceberg/members/").keys() == {key for key in north.keys("iceberg/") if "/members/" in key}
    assert north.keys("iceberg/member").keys() < north.keys("iceberg/").keys()
    assert north.s3.list_objects_v2(Bucket=NORTH, MaxKeys=0)["KeyCount"] == 0
    assert north.s3.list_objects_v2(Bucket=NORTH, Prefix="<&> \N{SNOWMAN}")["KeyCount"] == 0
    for options in ({"ContinuationToken": "%"}, {"MaxKeys": -1}, {"EncodingType": "other"}):
        with pytest.raises(ClientError) as caught:
            north.s3.list_objects_v2(Bucket=NORTH, **options)
        assert code_of(caught.value) == (400, "InvalidArgument")


@pytest.mark.parametrize(
    ("parameter", "version"),
    [("prefix", "1"), ("prefix", "2"), ("delimiter", "1"), ("delimiter", "2"), ("marker", "1"), ("start-after", "2")],
)
def test_lists_repeat_parameters_as_far_as_xml_can(north: Attached, parameter: str, version: str) -> None:
    """The client of the test signs, as boto3 always asks for encoded lists."""

    def listed(value: str, **options: str) -> tuple[int, ET.Element]:
        parameters = {"list-type": version, parameter: value, "max-keys": "1", **options}
        found = north.listed(urlencode(parameters, quote_via=quote))
        return found.status_code, ET.fromstring(found.content)

    name = "{*}" + parameter.title().replace("-", "")
    for value in ("\x01", "a\x1f", "\ufffe", "\uffff"):
        status, error = listed(value)
        assert (status, error.findtext("Code")) == (400, "InvalidArgument")
        status, found = listed(value, **{"encoding-type": "url"})
        assert (status, found.findtext(name)) == (200, quote(value))
    for value in ("\t\n\r<&\x7f", "\N{SNOWMAN}\U0010fffd"):
        status, found = listed(value)
        assert (status, found.findtext(name)) == (200, value)


def test_head_ranges_and_conditions(north: Attached) -> None:
    key, content = "latest/campaigns.csv.gz", north.read("latest/campaigns.csv.gz")
    head = north.s3.head_object(Bucket=NORTH, Key=key, ChecksumMode="ENABLED")
    assert head["ContentLength"] == len(content)
    assert head["ChecksumSHA256"] == base64.b64encode(hashlib.sha256(content).digest()).decode()
    assert head["ChecksumType"] == "FULL_OBJECT"
    assert head["LastModified"] == north.keys(key)[key]["LastModified"]
    assert "ContentEncoding" not in head
    part = north.s3.get_object(Bucket=NORTH, Key=key, Range="bytes=5-9", ChecksumMode="ENABLED")
    assert part["Body"].read() == content[5:10]
    assert "ChecksumSHA256" not in part
    assert north.read(key, IfMatch=head["ETag"]) == content
    assert north.refusal(key, IfMatch='"other"') == (412, "PreconditionFailed")
    bare = head["ETag"].strip('"')
    assert north.read(key, IfMatch=bare) == content
    assert north.refusal(key, IfMatch=f"{'0' * 32}-1") == (412, "PreconditionFailed")
    assert north.refusal(key, IfNoneMatch=bare)[0] == 304
    for headed in (key, "latest/manifest.json"):
        assert north.s3.head_object(Bucket=NORTH, Key=headed, Range="bytes=5-9")["ContentLength"] == 5
        with pytest.raises(ClientError) as caught:
            north.s3.head_object(Bucket=NORTH, Key=headed, Range="bytes=999999-")
        assert code_of(caught.value)[0] == 416
    assert north.refusal(key, IfNoneMatch=head["ETag"])[0] == 304
    assert north.refusal(key, IfModifiedSince=head["LastModified"])[0] == 304
    assert north.refusal(key, Range="bytes=999999-") == (416, "InvalidRange")
    assert north.refusal("latest/manifest.json", Range="bytes=999999-") == (416, "InvalidRange")
    named = north.s3.get_object(Bucket=NORTH, Key=key, ResponseContentDisposition="attachment")
    assert (named["ContentDisposition"], named["Body"].read()) == ("attachment", content)
    assert north.refusal(key, ResponseContentType="a\nb") == (400, "InvalidArgument")


def test_an_object_has_one_part_and_one_version(north: Attached) -> None:
    key = "latest/campaigns.csv.gz"
    content = north.read(key)
    for read in (north.s3.get_object, north.s3.head_object):
        part = read(Bucket=NORTH, Key=key, PartNumber=1, VersionId="null")
        if "Body" in part:
            # boto3 closes the connection of a body that nothing reads when it is collected, with a warning.
            assert part["Body"].read() == content
        metadata = part["ResponseMetadata"]
        assert (metadata["HTTPStatusCode"], part["ContentLength"], "PartsCount" in part) == (206, len(content), False)
        assert part["ContentRange"] == f"bytes 0-{len(content) - 1}/{len(content)}"
    assert north.read(key, PartNumber=1, ChecksumMode="ENABLED") == content
    several = north.s3.get_object(Bucket=NORTH, Key=key, Range="bytes=0-4,8-9")
    assert (several["ResponseMetadata"]["HTTPStatusCode"], several["Body"].read()) == (200, content)
    assert north.refusal(key, PartNumber=2) == (416, "InvalidPartNumber")
    assert north.refusal(key, PartNumber=0) == (400, "InvalidArgument")
    assert north.refusal(key, PartNumber=10_001) == (400, "InvalidArgument")
    assert north.refusal(key, PartNumber=1, Range="bytes=0-4") == (400, "InvalidRequest")
    assert north.refusal(key, VersionId="1") == (404, "NoSuchVersion")


def test_presigned_urls_need_version_4(north: Attached) -> None:
    parameters = {"Bucket": NORTH, "Key": "latest/campaigns.csv.gz"}
    for attached_by in (north, north.with_session()):
        url = attached_by.client(signature_version="s3v4").generate_presigned_url("get_object", parameters)
        assert requests.get(url, timeout=PATIENCE_SECONDS).content == north.read("latest/campaigns.csv.gz")
        assert requests.put(url, data=b"x", timeout=PATIENCE_SECONDS).status_code == 403
    old = north.client(signature_version="s3").generate_presigned_url("get_object", parameters)
    refused = requests.get(old, timeout=PATIENCE_SECONDS)
    assert refused.status_code == 400
    assert "<Code>InvalidRequest</Code>" in refused.text
    assert "AWS4-HMAC-SHA256" in refused.text


def test_other_operations_are_refused(north: Attached) -> None:
    for operation, options, expected in (
        ("put_object", {"Key": "x", "Body": b"x"}, (403, "AccessDenied")),
        ("delete_object", {"Key": "latest/members.csv.gz"}, (403, "AccessDenied")),
        ("create_multipart_upload", {"Key": "x"}, (403, "AccessDenied")),
        ("get_object", {"Key": "latest/other.csv.gz"}, (404, "NoSuchKey")),
        ("get_object", {"Key": "v=3/members.csv.gz"}, (404, "NoSuchKey")),
        ("get_object", {"Key": "latest//members.csv.gz"}, (404, "NoSuchKey")),
    ):
        with pytest.raises(ClientError) as caught:
            getattr(north.s3, operation)(Bucket=NORTH, **options)
        assert code_of(caught.value) == expected, operation
    assert north.s3.head_bucket(Bucket=NORTH)["BucketRegion"] == "us-east-1"
    assert north.s3.get_bucket_location(Bucket=NORTH)["LocationConstraint"] is None
    assert "Status" not in north.s3.get_bucket_versioning(Bucket=NORTH)
    unsigned = requests.get(f"{north.service.base_url}/{NORTH}/latest/members.csv.gz", timeout=PATIENCE_SECONDS)
    assert (unsigned.status_code, unsigned.headers["content-type"]) == (403, "application/xml")


def test_other_read_operations_of_boto3_are_refused(north: Attached) -> None:
    model = north.s3.meta.service_model
    reads = [each.http for each in map(model.operation_model, model.operation_names) if each.http["method"] == "GET"]
    names = {urlsplit(each["requestUri"]).query.partition("&")[0].partition("=")[0] for each in reads}
    assert names > {"acl", "policy", "versions"}
    for name in names - {"", "list-type", "location", "versioning", "x-id"}:
        found = north.listed(f"{name}=")
        assert (found.status_code, "<Code>NotImplemented</Code>" in found.text) == (501, True), name


def test_foreign_and_unknown_buckets_are_indistinguishable(service: Service) -> None:
    client = attached(service).s3
    refusals = set()
    for number in range(50):
        for bucket in (FOREIGN, SOUTH, UNKNOWN)[number % 2 :][:2]:
            with pytest.raises(ClientError) as caught:
                client.head_object(Bucket=bucket, Key="latest/members.csv.gz") if number % 7 else client.list_objects(
                    Bucket=bucket
                )
            response = caught.value.response
            headers = response["ResponseMetadata"]["HTTPHeaders"]
            refusals.add((number % 7 == 0, code_of(caught.value), tuple(sorted(headers)), headers["content-length"]))
    assert len(refusals) == 2
    assert {code[0] for _, code, _, _ in refusals} == {403}


def test_credentials_end(service: Service) -> None:
    client = attached(service)
    session = client.with_session()
    past = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=1)
    assert client.with_session(version=2, expires_at=past).refusal() == (403, "ExpiredToken")
    deleted = client.with_session(version=99, expires_at=past + timedelta(hours=1))
    assert deleted.refusal() == (403, "ExpiredToken")
    with pytest.raises(ClientError) as caught:
        deleted.keys()
    assert code_of(caught.value) == (403, "ExpiredToken")
    assert deleted.read("v=2/campaigns.csv.gz")
    broken = AccessKey(session.key.access_key_id, session.key.secret, session.key.session_token[:-1] + "-")
    assert Attached(service, NORTH, "", "", broken).refusal() == (400, "InvalidToken")
    wrong = AccessKey(client.key.access_key_id, "other")
    assert Attached(service, NORTH, "", "", wrong).refusal() == (403, "SignatureDoesNotMatch")
    unknown = AccessKey("AKIAIOSFODNN7EXAMPLE", "other")
    assert Attached(service, NORTH, "", "", unknown).refusal() == (403, "AccessDenied")
    assert client.read("latest/campaigns.csv.gz") == session.read("latest/campaigns.csv.gz")
    service.installation.change(lambda stores: stores.api_tokens.revoke(client.token_id, datetime.now(UTC), "test"))
    for each in (client, session):
        assert each.refusal() == (403, "AccessDenied")


def test_dashboard_shows_static_keys_with_a_new_token(service: Service) -> None:
    with signed_in(service, MAYA) as browser:
        page = browser.get(f"/dashboard/{NORTH}/connect?tool=aws").text
        form = page.partition('settings/tokens/new">')[2]
        fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form))
        created = browser.post(f"/dashboard/{NORTH}/settings/tokens/new", fields).text
    shown = dict(re.findall(r'<pre id="s3-(\w+)" tabindex="0">(.*?)</pre>', created))
    assert (shown["endpoint"], shown["bucket"]) == (service.base_url, NORTH)
    key = AccessKey(shown["key"], shown["secret"])
    assert "latest/members.parquet" in Attached(service, NORTH, "", "", key).keys("latest/")


def test_boto3_calls_the_client_for_credentials(
    service: Service, north: Attached, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = Path(sys.executable).with_name("daybreak")
    config = tmp_path / "config"
    config.write_text(f"[profile daybreak]\ncredential_process = {command} s3-credentials\nregion = us-east-1\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("DAYBREAK_SERVICE", service.base_url)
    monkeypatch.setenv("DAYBREAK_TOKEN", north.token)
    client = boto3.Session(profile_name="daybreak").client("s3", endpoint_url=service.base_url)
    assert [each["Name"] for each in client.list_buckets()["Buckets"]] == [NORTH]
    content = client.get_object(Bucket=NORTH, Key="v=1/campaigns.csv.gz")["Body"].read()
    assert content == north.read("v=1/campaigns.csv.gz")


def test_doctor_finds_the_endpoint(service: Service) -> None:
    settings = load_settings(service.installation.folder / "daybreak.toml", {})
    assert check_s3(settings) == service.base_url
    elsewhere = settings.model_copy(update={"attach": AttachSettings(s3=True, url=f"http://127.0.0.1:{free_port()}")})
    assert "does not answer" in check_s3(elsewhere)
    metrics = AttachSettings(s3=True, url=f"http://127.0.0.1:{service.metrics_port}")
    with pytest.raises(OperatorError, match="is not the S3 endpoint"):
        check_s3(settings.model_copy(update={"attach": metrics}))


def test_requests_are_counted_by_door(service: Service, north: Attached) -> None:
    north.read("latest/campaigns.csv.gz")
    assert re.search(r'daybreak_http_requests_total\{door="s3".*status="200"\} [1-9]', service.metrics())


def test_token_excludes_addresses(service: Service) -> None:
    client = attached(service)
    service.installation.change(
        lambda stores: stores.api_tokens.set_allowed_networks(client.token_id, ["192.0.2.0/24"])
    )
    assert client.refusal() == (403, "AccessDenied")


def test_downloads_are_recorded_and_counted(service: Service) -> None:
    client = attached(service)
    size = client.keys(LARGE)[LARGE]["Size"]
    assert size > 30 * PART_BYTES
    config = TransferConfig(multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES, max_concurrency=4)
    target = Path(service.installation.folder) / "members.json.gz"
    client.s3.download_file(NORTH, LARGE, str(target), Config=config)
    assert target.read_bytes() == client.read("v=2/members.json.gz")

    def recorded() -> list[tuple[str, str, str, str]]:
        lines = service.get(f"/download/v1/audit/{NORTH}", token=client.token).text.splitlines()
        events = [json.loads(line) for line in lines]
        return [
            (each["action"], each["result"], each["details"].get("file", ""), each["details"].get("door", ""))
            for each in events
            if (each["action"], each["subject"]) == ("file.fetched", f"token:{client.token_id}")
        ]

    fetched = ("file.fetched", "ok", "members.json.gz", "s3")
    wait_until(lambda: len(recorded()) >= 2, PATIENCE_SECONDS)
    # The parts of the first download are recorded once.
    assert recorded() == [fetched, fetched]


def test_bytes_of_a_day_are_limited(service: Service) -> None:
    client = attached(service)
    link, size = service.link(client.token, NORTH, "members.json.gz"), client.keys(LARGE)[LARGE]["Size"]
    for _ in range(100 * 10**6 // size):
        # Responses count in full when the client leaves.
        client.s3.get_object(Bucket=NORTH, Key=LARGE)["Body"].close()
    assert client.refusal(LARGE) == (503, "SlowDown")
    refused = service.get(link)
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
    assert 3600 < int(refused.headers["Retry-After"]) <= 25 * 3600
    # Ranges of decreasing length use up the rest.
    for bits in range(size.bit_length() - 1, 5, -1):
        with suppress(ClientError):
            client.read(LARGE, Range=f"bytes=0-{2**bits - 1}")
    for generated in ("latest/manifest.json", "latest/statement.json", "latest/statement.json.sig"):
        assert client.refusal(generated) == (503, "SlowDown")
        assert client.s3.head_object(Bucket=NORTH, Key=generated)["ContentLength"]
    for name in ("statement.json", "statement.json.sig"):
        assert service.get(f"/download/v1/files/{NORTH}/{name}", token=client.token).status_code == 429
    # Requests without bytes of files are answered, and other tokens have their own limit.
    assert service.request("HEAD", link).status_code == 200
    assert attached(service).read(LARGE, Range="bytes=0-9")


def test_dashboard_downloads_count_into_the_bytes_of_a_day(service: Service) -> None:
    with signed_in(service, MAYA) as browser:
        now = datetime.now(UTC)

        def use_up(stores: Stores) -> None:
            for session, _ in stores.sessions.list_open(seat_id(MAYA), now):
                limit = ThrottleRule(f"byte:session:{session.sid}:86400", 10**8, 86400)
                stores.throttle.count([limit], now, attempts=10**8)

        service.installation.change(use_up)
        # A worker counts its first 2.5 MB later.
        statuses = [browser.get(f"/dashboard/{NORTH}/files/all.zip?format=json").status_code for _ in range(4)]
        assert statuses[0] == 200
        assert statuses[-1] == 429
        for path in ("files/all.zip?format=excel", "files/members/spreadsheet-safe.csv"):
            assert browser.get(f"/dashboard/{NORTH}/{path}").status_code == 429, path
            assert browser.head(f"/dashboard/{NORTH}/{path}").status_code == 200, path
        # Small tables use up the rest.
        table = f"/dashboard/{NORTH}/insight/growth.csv"
        assert any(browser.get(table).status_code == 429 for _ in range(1_000))
        assert browser.head(table).status_code == 200


@pytest.mark.parametrize(
    ("email", "client_id"),
    [(MAYA, NORTH), *(pytest.param(*each, marks=pytest.mark.release) for each in ((MAYA, SOUTH), (FREYA, FOREIGN)))],
)
def test_engines_read_every_table(service: Service, email: str, client_id: str) -> None:
    client = attached(service, email, client_id)
    endpoint, key = service.base_url, client.key
    options = {
        "aws_access_key_id": key.access_key_id,
        "aws_secret_access_key": key.secret,
        "aws_endpoint_url": endpoint,
        "aws_region": "us-east-1",
        "aws_allow_http": "true",
    }
    arrow = S3FileSystem(
        access_key=key.access_key_id, secret_key=key.secret, endpoint_override=endpoint, region="us-east-1"
    )
    store = S3Store(
        client_id, endpoint=endpoint, access_key_id=key.access_key_id, secret_access_key=key.secret,
        region="us-east-1", client_options={"allow_http": True},
    )  # fmt: skip
    for name in RESOURCE_NAMES:
        for version in (1, 2):
            path = f"tables/{name}/v={version}/{name}.parquet"
            content = client.read(path)
            expected = pl.read_parquet(content)
            assert pl.read_parquet(f"s3://{client_id}/{path}", storage_options=options).equals(expected)
            assert pq.read_table(f"{client_id}/{path}", filesystem=arrow).equals(pq.read_table(BytesIO(content)))
            assert obstore.get(store, path).bytes() == content
        both = pl.scan_parquet(f"s3://{client_id}/tables/{name}/", storage_options=options, hive_partitioning=True)
        counts = both.group_by("v").len().sort("v").collect()
        assert counts["v"].to_list() == ([1, 2] if len(expected) else [])


@pytest.mark.release
def test_duckdb_scan_outlives_its_keys(service: Service, north: Attached, tmp_path: Path) -> None:
    """DuckDB 1.5 runs the credential process again when a key expires between two ranges of a file."""
    python = Path(sys.prefix) / "duckdb-1.5" / "bin" / "python"
    if not python.exists():
        pytest.skip("DuckDB 1.5 is not installed: run make test-release with access to a registry of packages")
    log, config = tmp_path / "log", tmp_path / "config"
    ring = service.installation.keyring_file
    command = f"{sys.executable} -m tests.parts.short_credentials {ring} {north.token_id} 2 3 {log}"
    config.write_text(f"[profile daybreak]\ncredential_process = {command}\n")
    environment = {**os.environ, "AWS_CONFIG_FILE": str(config), "AWS_EC2_METADATA_DISABLED": "true"}
    key = "v=2/members.parquet"
    url = f"s3://{NORTH}/{key}"
    scan = [str(python), str(_DUCKDB_SCAN), service.base_url.removeprefix("http://"), url, str(log)]
    done = subprocess.run(scan, env=environment, capture_output=True, text=True, check=False)
    rows = pq.ParquetFile(BytesIO(north.read(key))).metadata.num_rows
    assert done.stdout.split() == [str(rows)], done.stderr
    assert len(log.read_text().split()) > 2


@pytest.mark.release
def test_session_pins_the_latest_version(service: Service, north: Attached) -> None:
    """A publication between two parts changes what `latest/` is, except for keys issued before it."""
    session, key = north.with_session(), LARGE
    before = north.read("v=2/members.json.gz")
    half = len(before) // 2
    first = [each.read(key, Range=f"bytes=0-{half - 1}") for each in (session, north)]
    service.installation.publish_snapshot(seed=3)
    second = [each.read(key, Range=f"bytes={half}-") for each in (session, north)]
    assert first[0] + second[0] == before
    after = north.read("v=3/members.json.gz")
    assert second[1] == after[half:]
    assert before != after
    assert first[1] + second[1] not in (before, after)
    assert north.with_session().read(key) == after
    assert re.search(r"latest/statement\.json", " ".join(session.keys("latest/")))
    assert session.keys("latest/").keys() - {"latest/statement.json", "latest/statement.json.sig"} == set(
        north.keys("latest/")
    )
