"""Two nodes that share a PostgreSQL database and a bucket."""

import base64
import gzip
import hashlib
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import polars as pl
import pytest

from daybreak.export import parquet_parts
from tests.acceptance.installation import CARL, MAYA, NORTH, SOUTH, TWIN, Installation, rows_of_csv, totp_code
from tests.acceptance.service import AUTH, PATIENCE_SECONDS, Service, serving
from tests.parts.buckets import KINDS, fresh_bucket, open_bucket
from tests.parts.moved_clock import MovedClock
from tests.parts.postgresql import PostgreSQLServer
from tests.parts.s3 import REGION
from tests.parts.variants import one_of
from tests.parts.waiting import wait_until

Nodes = tuple[Service, Service]
Shared = tuple[Installation, dict[str, Any]]
# Larger files are sent in pieces.
LARGE_BYTES = 256 * 1024


@pytest.fixture(scope="module", params=one_of(*KINDS))
def shared(
    request: pytest.FixtureRequest, postgresql_server: PostgreSQLServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shared]:
    """Return what nodes share, and their settings."""
    bucket = fresh_bucket(request)
    folder = Path(tmp_path_factory.mktemp("nodes")) / "installation"
    database = postgresql_server.fresh_database()
    with pytest.MonkeyPatch.context() as patch:
        store = open_bucket(bucket, patch, "/exports")
        # The file of members does not fit into the buffers of a connection.
        installation = Installation(folder, postgresql_server.url(database), store, large_rows=17_000, parquet=True)
        patch.setattr(parquet_parts, "MAX_FILE_BYTES", 1_000_000)
        installation.create()
        settings = {
            "files.url": f"{bucket.url}/exports",
            "files.endpoint": bucket.server.endpoint,
            "files.region": REGION,
            "files.path_style": True,
            "files.max_transfers": 4,  # of which one account has two
            "attach.s3": True,
            "attach.iceberg": True,
            "sharing.enabled": True,
            "snapshot.formats": ["csv", "json", "parquet"],
            # One URL for both, as with a load balancer.
            "base_url": "http://export.example.org",
        }
        yield installation, settings
    postgresql_server.drop(database)


@pytest.fixture(scope="module")
def nodes(shared: Shared) -> Iterator[Nodes]:
    """Start two nodes with one worker each."""
    installation, settings = shared
    with (
        serving(installation, settings=settings, workers=1) as one,
        serving(installation, settings=settings, workers=1) as other,
    ):
        yield one, other


@pytest.fixture(scope="module")
def moved(shared: Shared, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, MovedClock]]:
    """Start another node, and return it with its clock."""
    installation, settings = shared
    clock = MovedClock(Path(tmp_path_factory.mktemp("clock")) / "offset")
    clock.move("+0")
    with serving(installation, settings=settings, workers=1, environment=clock.environment) as node:
        yield node, clock


@pytest.mark.release
def test_tokens_and_links_are_valid_on_both_nodes(nodes: Nodes) -> None:
    one, other = nodes
    token = one.token(MAYA, NORTH)
    south = other.switch_account(token, SOUTH)
    links = [one.link(south, SOUTH), other.link(token, NORTH, "members.csv.gz")]
    packed, large = other.get(links[0].replace(one.address, other.address)), one.get(links[1])
    assert (packed.status_code, large.status_code) == (200, 302)
    assert other.request("DELETE", f"{AUTH}/logout", token=south).status_code == 204
    for node in nodes:
        assert node.request_file(token, NORTH).status_code == 401
        assert node.get(urlsplit(links[0])._replace(netloc=f"127.0.0.1:{node.port}").geturl()).status_code == 403


def test_used_code_is_refused_on_both_nodes(nodes: Nodes) -> None:
    one, other = nodes
    one.installation.reset_attempts(CARL)
    pending = [one.log_in(CARL).json()["token"], other.log_in(CARL).json()["token"]]
    code = totp_code()
    assert one.answer_second_factor(pending[0], code).status_code == 200
    assert other.answer_second_factor(pending[1], code).status_code == 401


def s3_client(node: Service, access_key_id: str, secret: str, session_token: str) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=node.address,
        region_name="us-east-1",
        aws_access_key_id=access_key_id,
        aws_secret_access_key=secret,
        aws_session_token=session_token,
    )


@pytest.mark.release
def test_files_of_the_bucket_are_read_over_s3(nodes: Nodes) -> None:
    """The service streams them: S3 clients do not follow redirects."""
    secret, _ = nodes[0].installation.create_token(MAYA, NORTH)
    table = nodes[0].get(f"/iceberg/v1/{NORTH}/namespaces/daybreak/tables/members", token=secret).json()
    key = table["config"]
    one, other = (
        s3_client(node, key["s3.access-key-id"], key["s3.secret-access-key"], key["s3.session-token"]) for node in nodes
    )
    contents: list[bytes] = []
    listed = one.list_objects_v2(Bucket=NORTH, Prefix="iceberg/members/data/")["Contents"]
    for each in (*listed, *one.list_objects_v2(Bucket=NORTH, Prefix="latest/members.parquet")["Contents"]):
        whole = one.get_object(Bucket=NORTH, Key=each["Key"], ChecksumMode="ENABLED")
        content = whole["Body"].read()
        assert (len(content), whole["ETag"]) == (each["Size"], each["ETag"])
        assert base64.b64decode(whole["ChecksumSHA256"]) == hashlib.sha256(content).digest()
        part = other.get_object(Bucket=NORTH, Key=each["Key"], Range="bytes=1-", IfMatch=each["ETag"])
        assert part["Body"].read() == content[1:]
        contents += [content] if each in listed else []
    # A large file is stored once, and read in parts.
    assert len(contents) > 1
    assert min(map(len, contents)) > LARGE_BYTES
    rows = int(table["metadata"]["snapshots"][-1]["summary"]["total-records"])
    assert sum(pl.read_parquet(content).height for content in contents) == rows == 17_000


def test_link_redirects_to_a_signed_url(nodes: Nodes) -> None:
    service = nodes[0]
    token = service.token(MAYA, NORTH)
    data = service.request_file(token, NORTH, "members.csv.gz").json()["data"]
    link = data["url"].replace(service.base_url, service.address)
    redirect = service.get(link)
    assert redirect.status_code == 302
    assert redirect.headers["Cache-Control"] == "no-store"
    assert redirect.headers["Vary"] == "Accept, Accept-Encoding"
    url = redirect.headers["Location"]
    query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    if "X-Amz-Expires" in query:
        assert int(query["X-Amz-Expires"]) <= 60
    else:
        assert datetime.fromisoformat(query["se"]) <= datetime.now(UTC) + timedelta(seconds=60)
    found = service.get(url)
    assert found.status_code == 200
    assert found.headers["Content-Disposition"] == 'attachment; filename="members.csv.gz"'
    assert found.headers["Content-Type"] == "application/gzip"
    assert "Content-Encoding" not in found.headers
    assert hashlib.sha256(found.content).hexdigest() == data["sha256"]
    assert len(rows_of_csv(gzip.decompress(found.content))) == data["rows"] + 1
    part = service.get(url, headers={"Range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, found.content[10:20])
    head = service.request("HEAD", link)
    assert head.status_code == 302
    assert service.request("HEAD", head.headers["Location"]).status_code == 200
    assert service.get(link, allow_redirects=True).content == found.content


def test_other_representation_is_sent_by_the_service(nodes: Nodes) -> None:
    """The store can send a file only with the headers of its upload."""
    service = nodes[0]
    token = service.token(MAYA, NORTH)
    link = service.link(token, NORTH, "members.csv.gz").replace(service.base_url, service.address)
    file = service.get(link, allow_redirects=True).content
    assert len(file) > 1_000_000
    accept = {"Accept": "text/csv", "Accept-Encoding": "gzip"}
    found = service.get(link, headers=accept, stream=True)
    assert found.status_code == 200
    assert found.headers["Content-Type"] == "text/csv; charset=utf-8; header=present"
    assert found.headers["Content-Encoding"] == "gzip"
    assert found.headers["Content-Disposition"] == 'attachment; filename="members.csv"'
    assert found.headers["Content-Length"] == str(len(file))
    assert found.raw.read(decode_content=False) == file
    head = service.request("HEAD", link, headers=accept)
    assert (head.status_code, head.headers["ETag"]) == (200, found.headers["ETag"])
    assert head.headers["Content-Length"] == str(len(file))
    unchanged = service.get(link, headers=accept | {"If-None-Match": found.headers["ETag"]})
    assert unchanged.status_code == 304
    for header, expected in (("bytes=10-19", file[10:20]), ("bytes=70000-", file[70_000:]), ("bytes=-5", file[-5:])):
        part = service.get(link, headers=accept | {"Range": header}, stream=True)
        assert (part.status_code, part.raw.read(decode_content=False)) == (206, expected)
    several = service.get(link, headers=accept | {"Range": "bytes=0-99999,200000-299999"}, stream=True)
    body = several.raw.read(decode_content=False)
    assert several.headers["Content-Type"].startswith("multipart/byteranges; boundary=")
    assert file[:100_000] in body
    assert file[200_000:300_000] in body
    outside = service.get(link, headers=accept | {"Range": "bytes=999999999-"})
    assert (outside.status_code, outside.json()["code"]) == (416, "range_not_satisfiable")
    # A client that does not accept gzip cannot decompress the content.
    plain = service.get(link, headers={"Accept": "text/csv", "Accept-Encoding": "identity"})
    assert plain.status_code == 302


def test_transfers_from_the_store_are_limited(nodes: Nodes) -> None:
    service = nodes[0]
    link = service.link(service.token(MAYA, NORTH), NORTH, "members.csv.gz").replace(service.base_url, service.address)
    accept = {"Accept": "text/csv", "Accept-Encoding": "gzip"}
    with ExitStack() as slow:
        for _ in range(2):
            reader = slow.enter_context(socket.socket())
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.settimeout(PATIENCE_SECONDS)
            reader.connect(("127.0.0.1", service.port))
            lines = [f"{name}: {value}" for name, value in {"Host": "a", **accept}.items()]
            reader.sendall("\r\n".join([f"GET {link.removeprefix(service.address)} HTTP/1.1", *lines, "", ""]).encode())
            assert reader.recv(1000).startswith(b"HTTP/1.1 200")
        busy = service.get(link, headers=accept)
        assert (busy.status_code, busy.json()["code"]) == (503, "busy")
        assert service.get(link, headers=accept | {"Range": "bytes=0-9"}).status_code == 206, "small parts are sent"
        assert service.get(link).status_code == 302, "redirects are not transfers"
    wait_until(lambda: service.get(link, headers=accept).status_code == 200, what="the end of a transfer")


def test_revocation_on_one_node_applies_to_both(nodes: Nodes) -> None:
    one, other = nodes
    assert [node.get("/readyz").status_code for node in nodes] == [200, 200]
    secret, token_id = one.installation.create_token(MAYA, NORTH, expires_at=datetime.now(UTC) + timedelta(days=1))
    assert [node.request_file(secret, NORTH).status_code for node in nodes] == [302, 302]
    one.installation.change(lambda stores: stores.api_tokens.revoke(token_id, datetime.now(UTC), "test"))
    assert [other.request_file(secret, NORTH).status_code, one.request_file(secret, NORTH).status_code] == [401, 401]


@pytest.mark.parametrize(
    ("shared", "seconds"),
    one_of(("s3", -400), ("s3", 170), ("s3", 45), ("azure", -400)),
    indirect=["shared"],
)
def test_node_with_a_wrong_clock(nodes: Nodes, moved: tuple[Service, MovedClock], seconds: int) -> None:
    """`docs/explanation/reliability.md` states what clients see."""
    (one, _), (wrong, clock) = nodes, moved
    one.installation.reset_attempts(CARL, TWIN)
    secret, _ = one.installation.create_token(MAYA, NORTH)
    clock.move(f"{seconds:+}")
    assert abs(sample(wrong, "daybreak_clock_offset_seconds") - seconds) < 5
    tolerated = abs(seconds) < 60

    # Sessions and second factors.
    issued = {node: node.token(MAYA, NORTH) for node in (one, wrong)}
    assert [node.request_file(issued[node], NORTH).status_code for node in (one, wrong)] == [302, 302]
    ahead, behind = (wrong, one) if seconds > 0 else (one, wrong)
    assert ahead.request_file(issued[behind], NORTH).status_code == 302
    assert behind.request_file(issued[ahead], NORTH).status_code == (302 if tolerated else 401)
    for email, moment in ((CARL, datetime.now(UTC)), (TWIN, datetime.now(UTC) + timedelta(seconds=seconds))):
        pending = wrong.log_in(email).json()["token"]
        status = wrong.answer_second_factor(pending, totp_code(at=moment)).status_code
        if email == TWIN or not tolerated:
            assert status == (200 if email == TWIN else 401), "codes follow the clock of the node"

    # Links, Delta Sharing and S3, whose clients have the right clock.
    for issuer, reader in ((one, wrong), (wrong, one)):
        link = issuer.request_file(secret, NORTH).headers["Location"]
        assert reader.get(link.replace(issuer.base_url, reader.address)).status_code == 200
        table = f"/sharing/v1/shares/{NORTH}/schemas/daybreak/tables/campaigns"
        lines = issuer.request("POST", f"{table}/query", token=secret, json={}).text.splitlines()
        file = json.loads(lines[-1])["file"]
        lifetime = datetime.fromtimestamp(file["expirationTimestamp"] / 1000, UTC) - datetime.now(UTC)
        expected = timedelta(minutes=15, seconds=seconds if issuer is wrong else 0)
        assert abs(lifetime - expected) < timedelta(seconds=30)
        assert reader.get(file["url"].replace(issuer.base_url, reader.address)).status_code == 200
        key = issuer.request("POST", "/download/v1/s3-credentials", token=secret).json()
        client = s3_client(reader, key["AccessKeyId"], key["SecretAccessKey"], key["SessionToken"])
        found = client.get_object(Bucket=NORTH, Key="latest/campaigns.csv.gz")
        assert found["ContentLength"] > 0


def sample(node: Service, name: str) -> float:
    """Return the value of a metric without labels."""
    (line,) = [line for line in node.metrics().splitlines() if line.startswith(f"{name} ")]
    return float(line.split()[1])
