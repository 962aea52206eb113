"""The nginx configuration of docs/how-to/operations.md, unchanged, in a real nginx in front of the service."""

import base64
import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import polars as pl
import pytest
import requests
from botocore.config import Config
from botocore.exceptions import ClientError
from requests.adapters import HTTPAdapter

from daybreak.cli.doctor_deep import check_acceleration
from daybreak.domain.errors import OperatorError
from daybreak.settings import load_settings
from tests.acceptance.conftest import new_installation
from tests.acceptance.installation import MAYA, NORTH, PASSWORD
from tests.acceptance.service import AUTH, PATIENCE_SECONDS, Service, serving
from tests.parts.certificates import own_certificate
from tests.parts.ports import free_port
from tests.parts.presence import absent
from tests.parts.processes import running
from tests.parts.waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs/how-to/operations.md"
# Headers that differ between two responses.
CHANGING_HEADERS = {"date", "x-request-id"}
# A local address that is not the address of the proxy.
CLIENT = "127.0.0.3"


class _FromTheClient(HTTPAdapter):
    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, **options, source_address=(CLIENT, 0))


@dataclass(frozen=True)
class Front:
    """Service behind nginx, and requests to it."""

    service: Service
    client: requests.Session
    accelerated: bool

    def request(self, method: str, url: str, **options: Any) -> requests.Response:
        """Send a request. `url` may be a path."""
        url = url if url.startswith("https") else self.service.base_url + url
        return self.client.request(method, url, timeout=PATIENCE_SECONDS, allow_redirects=False, **options)

    def log_in(self) -> str:
        found = self.request("POST", f"{AUTH}/login", json={"email": MAYA, "password": PASSWORD})
        assert found.status_code == 200, found.text
        token: str = found.json()["token"]
        return token


def configuration(folder: Path, port: int, upstream: int, files: Path) -> str:
    """Return the server configuration of the page, with the ports, certificate and files of this test."""
    server = PAGE.read_text("utf-8").split("```nginx\n")[1].split("```")[0]
    for documented, actual in (
        ("/srv/daybreak/files/", f"{files}/"),
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("127.0.0.1:8400", f"127.0.0.1:{upstream}"),
        ("# ssl_certificate ...", f"ssl_certificate {folder}/own.pem; ssl_certificate_key {folder}/own.pem;"),
    ):
        assert documented in server
        server = server.replace(documented, actual)
    bodies = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("proxy", "client_body"))
    return (
        f"daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}\n"
        f"http {{ {bodies} access_log {folder}/access.log;\n{server}}}\n"
    )


@pytest.fixture(scope="module", params=["off", "nginx"])
def front(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        absent("nginx", "it is in the Debian package nginx-light")
    folder, port = tmp_path_factory.mktemp("nginx"), free_port()
    own_certificate(folder / "own.pem")
    settings = {
        "base_url": f"https://127.0.0.1:{port}",
        "require_https": True,
        "trusted_proxies": ["127.0.0.1"],
        "files.accelerate": request.param,
        "attach.s3": True,
        "attach.iceberg": True,
        "attach.url": f"https://localhost:{port}",
        "snapshot.formats": ["csv", "json", "parquet"],
    }
    installation = new_installation(tmp_path_factory.mktemp("fronted"), parquet=True)
    with serving(installation, settings=settings) as service:
        (folder / "nginx.conf").write_text(configuration(folder, port, service.port, service.installation.files_folder))
        command: list[str | Path] = [program, "-e", folder / "error.log", "-p", folder, "-c", folder / "nginx.conf"]
        if os.geteuid() == 0:
            # The worker of nginx must read the files, which belong to the user of the service.
            command += ["-g", "user root;"]
        with running(command) as nginx, requests.Session() as client:
            client.mount("https://", _FromTheClient())
            client.verify, client.trust_env = str(folder / "own.pem"), False
            found = Front(service, client, request.param == "nginx")

            def ready() -> bool:
                assert nginx.alive(), nginx.log()
                return found.request("GET", "/readyz").ok

            wait_until(ready, what="an answer through nginx")
            yield found


@pytest.fixture(scope="module")
def link(front: Front) -> str:
    redirect = front.request(
        "GET", f"/download/v1/files/{NORTH}/members.csv.gz", headers={"Authorization": f"Bearer {front.log_in()}"}
    )
    assert redirect.status_code == 302, redirect.text
    return redirect.headers["Location"]


@pytest.fixture(scope="module")
def whole(front: Front, link: str) -> requests.Response:
    found = front.request("GET", link)
    assert found.status_code == 200
    return found


def test_file_arrives_unchanged(front: Front, link: str, whole: requests.Response) -> None:
    assert link.startswith(front.service.base_url)
    digest = hashlib.sha256(whole.content).digest()
    assert whole.headers["Repr-Digest"] == f"sha-256=:{base64.b64encode(digest).decode()}:"
    assert whole.headers["Content-Type"] == "application/gzip"
    assert "Content-Encoding" not in whole.headers
    assert "X-Accel-Redirect" not in whole.headers
    line = front.service.logged(whole.headers["X-Request-Id"])
    sent_by_service = line["length"] == len(whole.content)
    assert sent_by_service is not front.accelerated


def test_head_has_the_headers_of_get(front: Front, link: str, whole: requests.Response) -> None:
    def headers(answer: requests.Response) -> dict[str, str]:
        found = {name.lower(): value for name, value in answer.headers.items()}
        return {name: value for name, value in found.items() if name not in CHANGING_HEADERS}

    assert headers(front.request("HEAD", link)) == headers(whole)


def test_ranges_work_through_nginx(front: Front, link: str, whole: requests.Response) -> None:
    etag, modified = whole.headers["ETag"], whole.headers["Last-Modified"]
    for condition in ({}, {"If-Range": etag}, {"If-Range": modified}):
        part = front.request("GET", link, headers={"Range": "bytes=100-", **condition})
        assert (part.status_code, part.content) == (206, whole.content[100:])
        assert part.headers["Content-Range"] == f"bytes 100-{len(whole.content) - 1}/{len(whole.content)}"
        assert part.headers["ETag"] == etag
    for condition in ({"If-Range": '"other"'}, {"If-Range": "Sun, 22 Nov 2020 04:00:00 GMT"}):
        found = front.request("GET", link, headers={"Range": "bytes=100-", **condition})
        assert (found.status_code, found.content) == (200, whole.content)
    several = front.request("GET", link, headers={"Range": "bytes=0-99999,200000-"})
    assert several.status_code == 206
    assert several.headers["Content-Type"].startswith("multipart/byteranges; boundary=")
    assert whole.content[:100_000] in several.content
    assert whole.content[200_000:] in several.content
    overlapping = front.request("GET", link, headers={"Range": "bytes=0-99999,50000-199999"})
    assert overlapping.status_code == 206
    assert whole.content[50_000:200_000] in overlapping.content
    many = front.request("GET", link, headers={"Range": "bytes=" + ",".join(f"{start}-" for start in range(9))})
    assert many.status_code == 416, "the service limits ranges before nginx sends them"
    outside = front.request("GET", link, headers={"Range": "bytes=999999999-"})
    assert (outside.status_code, outside.json()["code"]) == (416, "range_not_satisfiable")


def test_conditional_requests_work_through_nginx(front: Front, link: str, whole: requests.Response) -> None:
    etag, modified = whole.headers["ETag"], whole.headers["Last-Modified"]
    for headers, status in (
        ({"If-None-Match": etag}, 304),
        ({"If-None-Match": '"other"'}, 200),
        ({"If-Modified-Since": modified}, 304),
        ({"If-Modified-Since": "Sun, 22 Nov 2020 04:00:00 GMT"}, 200),
        ({"If-Match": etag}, 200),
        ({"If-Match": '"other"'}, 412),
        ({"If-Unmodified-Since": modified}, 200),
        ({"If-Unmodified-Since": "Sun, 22 Nov 2020 04:00:00 GMT"}, 412),
    ):
        found = front.request("GET", link, headers=headers)
        assert found.status_code == status, headers
        assert status != 200 or found.content == whole.content


def test_content_is_compressed_once(front: Front, link: str, whole: requests.Response) -> None:
    text = front.request("GET", link, headers={"Accept": "text/csv", "Accept-Encoding": "gzip"}, stream=True)
    assert text.headers["Content-Encoding"] == "gzip"
    assert text.headers["Content-Type"] == "text/csv; charset=utf-8; header=present"
    assert text.headers["Vary"] == "Accept, Accept-Encoding"
    assert text.headers["ETag"] != whole.headers["ETag"]
    assert text.raw.read(decode_content=False) == whole.content


def test_files_cannot_be_requested_without_a_link(front: Front, link: str) -> None:
    (file,) = (path for path in front.service.installation.files_folder.rglob(f"{NORTH}.members.csv.gz"))
    key = file.relative_to(front.service.installation.files_folder)
    assert front.request("GET", f"/daybreak-files/{key}").status_code == 404


def test_small_file_is_sent_by_the_service(front: Front, link: str) -> None:
    found = front.request("GET", link, headers={"Range": "bytes=0-9"})
    assert (found.status_code, len(found.content)) == (206, 10)
    assert front.service.logged(found.headers["X-Request-Id"])["length"] == 10


def test_s3_and_iceberg_have_their_own_host(front: Front) -> None:
    service, (secret, _) = front.service, front.service.installation.create_token(MAYA, NORTH)
    attached = f"https://localhost:{urlsplit(service.base_url).port}"
    path, bearer = f"{NORTH}/namespaces/daybreak/tables/members", {"Authorization": f"Bearer {secret}"}
    loaded = front.request("GET", f"{attached}/iceberg/v1/{path}", headers=bearer).json()
    vended = loaded["config"]
    assert vended["s3.endpoint"] == f"{attached}/"
    client = boto3.client(
        "s3",
        endpoint_url=vended["s3.endpoint"],
        region_name=vended["s3.region"],
        aws_access_key_id=vended["s3.access-key-id"],
        aws_secret_access_key=vended["s3.secret-access-key"],
        aws_session_token=vended["s3.session-token"],
        verify=front.client.verify,
        config=Config(retries={"total_max_attempts": 1}),
    )
    assert [each["Name"] for each in client.list_buckets()["Buckets"]] == [NORTH]
    (data,) = client.list_objects_v2(Bucket=NORTH, Prefix="iceberg/members/data/")["Contents"]
    head, found = (
        call(Bucket=NORTH, Key=data["Key"], ChecksumMode="ENABLED") for call in (client.head_object, client.get_object)
    )
    content = found["Body"].read()
    assert found["ETag"] == head["ETag"] == data["ETag"]
    assert found["LastModified"] == head["LastModified"] == data["LastModified"]
    assert base64.b64decode(found["ChecksumSHA256"]) == hashlib.sha256(content).digest()
    rows = int(loaded["metadata"]["snapshots"][-1]["summary"]["total-records"])
    assert pl.read_parquet(content).height == rows > 0
    part = client.get_object(Bucket=NORTH, Key=data["Key"], Range="bytes=100-")
    assert part["Body"].read() == content[100:]
    assert "ChecksumSHA256" not in part
    several = client.get_object(Bucket=NORTH, Key=data["Key"], Range="bytes=0-99999,200000-")
    assert (several["ResponseMetadata"]["HTTPStatusCode"], several["Body"].read()) == (200, content)
    with pytest.raises(ClientError, match="PreconditionFailed"):
        client.get_object(Bucket=NORTH, Key=data["Key"], IfMatch='"other"')
    lines = wait_until(
        lambda: [
            each
            for each in service.log_lines()
            if each.get("path") == f"/{NORTH}/{data['Key']}" and each["method"] == "GET"
        ][1:],
        what="the log lines of the requests",
    )
    assert (lines[0]["length"] == len(content) - 100) is not front.accelerated


def test_service_logs_the_address_of_the_client(front: Front) -> None:
    found = front.request("GET", "/nowhere", headers={"X-Forwarded-For": "203.0.113.5", "X-Request-Id": "made-up-0123"})
    assert found.headers["X-Request-Id"] != "made-up-0123"
    assert front.service.logged(found.headers["X-Request-Id"])["address"] == CLIENT


def test_doctor_finds_the_location_of_files(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(front.client.verify))
    settings = load_settings(front.service.installation.folder / "daybreak.toml", {})
    found = check_acceleration(settings)
    assert found == ("nginx has the location /daybreak-files/" if front.accelerated else "off")
    if front.accelerated:
        direct = settings.model_copy(update={"base_url": f"http://127.0.0.1:{front.service.port}"})
        with pytest.raises(OperatorError, match="Add `location /daybreak-files/` to nginx"):
            check_acceleration(direct)
