"""Requests for files, signed links and the content that they serve."""

import base64
import gzip
import hashlib
import json
import shutil
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection
from pathlib import Path

import pytest
import requests

from daybreak.catalogue.formats import format_named
from daybreak.catalogue.resources import RESOURCES, resource_named
from tests.acceptance.installation import LARGE_ROWS, MAYA, NORTH, NOT_EXPORTED, SOUTH, VIC, rows_of_csv
from tests.acceptance.service import PATIENCE_SECONDS, Service
from tests.parts.waiting import wait_until

PATHS = [
    (resource.name, name, resource.path_for(format_named(name))) for resource in RESOURCES for name in ("csv", "json")
]


@pytest.fixture(scope="module")
def north(service: Service) -> str:
    """Return a session token for North."""
    return service.token(MAYA, NORTH)


@pytest.fixture(scope="module")
def large(service: Service, north: str) -> str:
    """Return a link to a file of more than 1 MB."""
    return service.link(north, NORTH, "members.csv.gz")


@pytest.fixture(scope="module")
def small(service: Service, north: str) -> str:
    """Return a link to a file of less than 1 kB."""
    return service.link(north, NORTH, "campaign_links.csv.gz")


@pytest.fixture(scope="module")
def large_content(large: str) -> bytes:
    return requests.get(large, timeout=PATIENCE_SECONDS).content


def test_download_paths_are_the_documented_ones() -> None:
    assert [resource.download_path for resource in RESOURCES] == [
        "campaigns.csv.gz",
        "outbound_message_type_usage.csv.gz/segment-based-subscription",
        "campaign_links.csv.gz",
        "members.csv.gz",
        "member_state_changes.csv.gz",
        "member_term_accepts.csv.gz",
        "custom_member_data.csv.gz",
        "communities.csv.gz",
        "member_communities.csv.gz",
    ]


@pytest.mark.parametrize(("resource", "kind", "path"), PATHS)
def test_every_path_returns_its_file(service: Service, north: str, resource: str, kind: str, path: str) -> None:
    redirect = service.request_file(north, NORTH, path)
    assert redirect.status_code == 302
    assert redirect.headers["Cache-Control"] == "no-store"
    data = redirect.json()["data"]
    assert data["url"] == redirect.headers["Location"]
    assert data["url"].startswith(f"{service.base_url}/download/v1/links/{NORTH}/")
    assert (data["resource"], data["format"]) == (resource, kind)
    minutes = (datetime.fromisoformat(data["expires_at"]) - datetime.now(UTC)).total_seconds() / 60
    assert 13 < minutes <= 15
    found = service.get(data["url"])
    assert found.status_code == 200
    assert found.headers["Content-Type"] == "application/gzip"
    assert "Content-Encoding" not in found.headers
    assert found.headers["Content-Disposition"] == f'attachment; filename="{resource}.{kind}.gz"'
    assert (len(found.content), found.headers["Content-Length"]) == (data["bytes"], str(data["bytes"]))
    digest = hashlib.sha256(found.content)
    assert digest.hexdigest() == data["sha256"]
    assert found.headers["Repr-Digest"] == f"sha-256=:{base64.b64encode(digest.digest()).decode()}:"
    assert found.headers["X-Row-Count"] == str(data["rows"])
    assert found.headers["X-Snapshot-Version"] == str(data["version"])
    assert found.headers["Vary"] == "Accept, Accept-Encoding"
    assert parsedate_to_datetime(found.headers["Last-Modified"]) == datetime.fromisoformat(
        data["published_at"]
    ).replace(microsecond=0)
    content = gzip.decompress(found.content)
    names = list(resource_named(resource).column_names)
    if kind == "csv":
        header, *rows = rows_of_csv(content)
        assert header == names
        assert len(rows) == data["rows"]
    else:
        records = json.loads(content)
        assert len(records) == data["rows"]
        assert all(list(record) == names for record in records)


def test_each_request_returns_another_link(service: Service, north: str) -> None:
    assert service.link(north, NORTH) != service.link(north, NORTH)


def test_replacing_csv_with_json_in_a_link_returns_json(service: Service, large: str) -> None:
    found = service.get(large.replace("csv", "json"))
    assert found.headers["Content-Disposition"] == 'attachment; filename="members.json.gz"'
    assert len(json.loads(gzip.decompress(found.content))) == LARGE_ROWS
    assert service.get(large.replace("csv", "parquet")).json()["code"] == "unknown_file"


@pytest.mark.parametrize(
    "path",
    [
        "campaigns.csv",
        "campaigns",
        "campaigns.csv.gz/x",
        "x.csv.gz",
        "",
        "campaigns.CSV.gz",
        "%2563ampaigns.csv.gz",
    ],
)
def test_unknown_files_are_not_found(service: Service, north: str, path: str) -> None:
    found = service.request_file(north, NORTH, path)
    assert (found.status_code, found.json()["code"]) == (404, "unknown_file")


@pytest.mark.parametrize("path", ["campaigns%2Ecsv%2egz", "%63ampaigns.csv.gz", "campaigns.csv%2Egz?x=%2e"])
def test_percent_encoded_file_name_is_not_found(service: Service, north: str, path: str) -> None:
    """The path is sent unchanged: most clients decode it first."""
    with closing(HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE_SECONDS)) as connection:
        connection.request("GET", f"/download/v1/files/{NORTH}/{path}", headers={"Authorization": f"Bearer {north}"})
        answer = connection.getresponse()
        problem = json.loads(answer.read())
        assert (answer.status, problem["code"]) == (404, "unknown_file")
        assert problem["detail"] == "The path contains percent-encoding. Write its characters as they are."


def test_missing_snapshot_has_a_retry_time(service: Service) -> None:
    token = service.token(MAYA, NOT_EXPORTED)
    for path in (f"/download/v1/files/{NOT_EXPORTED}/campaigns.csv.gz", f"/download/v1/files/{NOT_EXPORTED}"):
        found = service.get(path, token=token)
        assert (found.status_code, found.json()["code"]) == (404, "snapshot_not_ready")
        assert 0 < int(found.headers["Retry-After"]) <= 86_400


def test_account_without_rows_gets_a_header_only_file(service: Service) -> None:
    token = service.token(MAYA, SOUTH)
    found = service.get(service.link(token, SOUTH, "campaigns.csv.gz"))
    assert found.headers["X-Row-Count"] == "0"
    assert len(rows_of_csv(gzip.decompress(found.content))) == 1
    assert json.loads(gzip.decompress(service.get(service.link(token, SOUTH, "campaigns.json.gz")).content)) == []


def test_manifest_lists_every_file_and_freshness(service: Service, north: str) -> None:
    found = service.get(f"/download/v1/files/{NORTH}", token=north)
    assert found.status_code == 200
    data = found.json()["data"]
    assert [entry["resource"] for entry in data["resources"]] == [resource.name for resource in RESOURCES]
    assert data["late"] is False
    for entry in data["resources"]:
        for file in entry["files"]:
            issued = service.get(file["path"], token=north).json()["data"]
            assert (issued["sha256"], issued["bytes"], issued["rows"]) == (file["sha256"], file["bytes"], entry["rows"])
            assert issued["version"] == data["version"]
    assert service.get(f"/download/v1/files/{SOUTH}", token=north).status_code == 403
    denied = service.get(f"/download/v1/files/{NORTH}", token=service.token(VIC))
    assert denied.status_code == 403


# --- Clients --------------------------------------------------------------------------------------


def test_curl_wget_requests_and_urllib_receive_gzip(service: Service, north: str, tmp_path: Path) -> None:
    url = f"{service.address}/download/v1/files/{NORTH}/members.csv.gz"
    authorization = f"Authorization: Bearer {north}"
    expected = service.request_file(north, NORTH, "members.csv.gz").json()["data"]["sha256"]
    with_urllib = (
        "import sys, urllib.request as u; q = u.Request(sys.argv[1], headers={'Authorization': sys.argv[2]});"
        "open('urllib.gz', 'wb').write(u.urlopen(q).read())"
    )
    commands = [
        ["curl", "-sSfL", "-o", "curl.gz", "-H", authorization, url],
        ["curl", "-sSfL", "--compressed", "-o", "curl-compressed.gz", "-H", authorization, url],
        ["wget", "-q", "-O", "wget.gz", f"--header={authorization}", url],
        [sys.executable, "-c", with_urllib, url, f"Bearer {north}"],
    ]
    for command in commands:
        if shutil.which(command[0]) is not None:
            subprocess.run(command, cwd=tmp_path, check=True, timeout=PATIENCE_SECONDS)
    (tmp_path / "requests.gz").write_bytes(service.get(url, token=north, allow_redirects=True).content)
    got = sorted(path.name for path in tmp_path.iterdir())
    assert {"requests.gz", "urllib.gz"} <= set(got)
    for name in got:
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == expected, name


def test_curl_resumes_a_broken_download(service: Service, large: str, large_content: bytes, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not on this machine")
    part = tmp_path / "members.csv.gz"
    part.write_bytes(large_content[:300_000])
    subprocess.run(["curl", "-sSf", "-C", "-", "-o", part, large], check=True, timeout=PATIENCE_SECONDS)
    assert part.read_bytes() == large_content


# --- Representations ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["large", "small"])
def test_accept_headers_select_the_decoded_content(service: Service, name: str, request: pytest.FixtureRequest) -> None:
    url: str = request.getfixturevalue(name)
    file = service.get(url)
    content = service.get(url, headers={"Accept": "text/csv", "Accept-Encoding": "gzip"})
    assert content.headers["Content-Type"] == "text/csv; charset=utf-8; header=present"
    assert content.headers["Content-Encoding"] == "gzip"
    assert content.headers["Content-Disposition"].endswith('.csv"')
    assert content.content == gzip.decompress(file.content)
    assert content.headers["Content-Length"] == file.headers["Content-Length"]
    assert content.headers["ETag"] != file.headers["ETag"]
    assert content.headers["Vary"] == file.headers["Vary"] == "Accept, Accept-Encoding"
    as_json = service.get(url.replace("csv", "json"), headers={"Accept": "application/json"})
    assert as_json.headers["Content-Type"] == "application/json"
    assert isinstance(as_json.json(), list)


@pytest.mark.parametrize("name", ["large", "small"])
def test_head_has_the_headers_of_get(service: Service, name: str, request: pytest.FixtureRequest) -> None:
    url: str = request.getfixturevalue(name)
    for headers in ({}, {"Accept": "text/csv", "Accept-Encoding": "gzip"}):
        head = service.request("HEAD", url, headers=headers)
        get = service.get(url, headers=headers, stream=True)
        get.close()
        assert head.content == b""
        assert _stable_headers(head) == _stable_headers(get)


def test_head_of_a_file_request_redirects(service: Service, north: str) -> None:
    found = service.request("HEAD", f"/download/v1/files/{NORTH}/campaigns.csv.gz", token=north)
    assert (found.status_code, found.content) == (302, b"")
    assert found.headers["Location"].startswith(service.base_url)


# --- Conditions and ranges ------------------------------------------------------------------------


def test_unchanged_file_is_not_sent_again(service: Service, small: str) -> None:
    first = service.get(small)
    for headers in (
        {"If-None-Match": first.headers["ETag"]},
        {"If-None-Match": f'"x", W/{first.headers["ETag"]}'},
        {"If-Modified-Since": first.headers["Last-Modified"]},
    ):
        found = service.get(small, headers=headers)
        assert (found.status_code, found.content) == (304, b"")
        assert found.headers["ETag"] == first.headers["ETag"]
        assert found.headers["Vary"] == first.headers["Vary"]
    assert service.get(small, headers={"If-None-Match": '"x"'}).status_code == 200
    as_content = {"Accept": "text/csv", "Accept-Encoding": "gzip", "If-None-Match": first.headers["ETag"]}
    assert service.get(small, headers=as_content).status_code == 200
    failed = service.get(small, headers={"If-Match": '"x"'})
    assert (failed.status_code, failed.json()["code"]) == (412, "precondition_failed")


@pytest.mark.parametrize(("name", "first", "status"), [("If-None-Match", '"x"', 304), ("If-Match", '"x"', 200)])
def test_condition_in_two_header_lines_is_one_list(
    service: Service, small: str, name: str, first: str, status: int
) -> None:
    etag = service.request("HEAD", small).headers["ETag"]
    with closing(HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE_SECONDS)) as connection:
        connection.putrequest("GET", small.removeprefix(service.address))
        connection.putheader(name, first)
        connection.putheader(name, etag)
        connection.endheaders()
        assert connection.getresponse().status == status


@pytest.mark.parametrize(
    ("requested", "part"),
    [
        ("0-0", slice(0, 1)),
        ("100-199", slice(100, 200)),
        ("-5", slice(-5, None)),
        ("1000000-", slice(1_000_000, None)),
        ("70000-900000", slice(70_000, 900_001)),
    ],
)
def test_single_range_is_sent(service: Service, large: str, large_content: bytes, requested: str, part: slice) -> None:
    found = service.get(large, headers={"Range": f"bytes={requested}"})
    assert found.status_code == 206
    assert found.content == large_content[part]
    size = len(large_content)
    first, stop, _ = part.indices(size)
    assert found.headers["Content-Range"] == f"bytes {first}-{stop - 1}/{size}"
    assert found.headers["Content-Length"] == str(stop - first)


def test_multiple_ranges_are_sent_as_multipart(service: Service, large: str, large_content: bytes) -> None:
    found = service.get(large, headers={"Range": "bytes=0-9,500000-500099,-7"})
    assert found.status_code == 206
    kind, _, boundary = found.headers["Content-Type"].partition("; boundary=")
    assert kind == "multipart/byteranges"
    parts = found.content.split(f"--{boundary}".encode())
    assert parts[0] in {b"", b"\r\n"}
    assert parts[-1] == b"--\r\n"
    size, bodies = len(large_content), []
    for part, described in zip(parts[1:-1], ("0-9", "500000-500099", f"{size - 7}-{size - 1}"), strict=True):
        head, _, body = part.partition(b"\r\n\r\n")
        assert f"Content-Range: bytes {described}/{size}".encode() in head
        assert b"Content-Type: application/gzip" in head
        bodies.append(body.removesuffix(b"\r\n"))
    assert bodies == [large_content[:10], large_content[500_000:500_100], large_content[-7:]]
    assert int(found.headers["Content-Length"]) == len(found.content)


def test_overlapping_ranges_are_merged(service: Service, large: str, large_content: bytes) -> None:
    header = "bytes=" + ",".join(["0-"] * 8)
    found = service.get(large, headers={"Range": header})
    assert (found.status_code, found.content) == (206, large_content)
    overlapping = service.get(large, headers={"Range": "bytes=100-199,150-299,300-399"})
    assert (overlapping.status_code, overlapping.content) == (206, large_content[100:400])


def test_unsatisfiable_ranges_fail_and_malformed_are_ignored(
    service: Service, large: str, large_content: bytes
) -> None:
    size = len(large_content)
    for header in (f"bytes={size}-", "bytes=-0", "bytes=" + ",".join(f"{at * 10}-{at * 10}" for at in range(9))):
        found = service.get(large, headers={"Range": header})
        assert (found.status_code, found.json()["code"]) == (416, "range_not_satisfiable")
        assert found.headers["Content-Range"] == f"bytes */{size}"
    eight = service.get(large, headers={"Range": "bytes=" + ",".join(f"{at * 10}-{at * 10}" for at in range(8))})
    assert eight.status_code == 206
    digits = "9" * 5000
    for ignored in (
        "bytes=9-1", "lines=0-1", "bytes=a-b", "bytes=-", "bytes=", "bytes=,", "bytes", "bytes=0-1-2", "bytes=0-0x9",
        "bytes=+0-9", "bytes=0.0-9", "bytes=0-9;q=1", "bytes=\u0661-9", f"bytes={digits}-", f"bytes=-{digits}",
    ):  # fmt: skip
        found = service.get(large, headers={"Range": ignored.encode()})
        assert (found.status_code, found.content) == (200, large_content), ignored[:20]


def test_if_range_requires_a_matching_validator(service: Service, large: str, large_content: bytes) -> None:
    validators = service.request("HEAD", large).headers
    for validator in (validators["ETag"], validators["Last-Modified"]):
        found = service.get(large, headers={"Range": "bytes=5-9", "If-Range": validator})
        assert (found.status_code, found.content) == (206, large_content[5:10])
    for validator in ('"x"', f"W/{validators['ETag']}", "Sun, 22 Nov 2020 04:00:00 GMT"):
        assert service.get(large, headers={"Range": "bytes=5-9", "If-Range": validator}).content == large_content


def test_authorization_header_on_a_link_is_ignored(service: Service, small: str) -> None:
    assert service.get(small, token="nonsense").status_code == 200


def _fetches(service: Service, token: str) -> list[str]:
    """Return the request ids of the downloads in North's audit trail."""
    found = service.get(f"/download/v1/audit/{NORTH}?action=file.fetched", token=token)
    return [json.loads(line)["request_id"] for line in found.text.splitlines()]


def test_every_response_with_content_is_audited(service: Service, north: str) -> None:
    def send(method: str, status: int, headers: dict[str, str]) -> str:
        link = service.link(north, NORTH, "members.csv.gz")
        found = service.request(method, link, headers=headers)
        assert found.status_code == status, headers
        return found.headers["X-Request-Id"]

    etag = service.request("HEAD", service.link(north, NORTH, "members.csv.gz")).headers["ETag"]
    without_content = {
        send("HEAD", 200, {}),
        send("GET", 304, {"If-None-Match": etag}),
        send("GET", 412, {"If-Match": '"another"'}),
        send("GET", 416, {"Range": "bytes=999999999-"}),
    }
    with_content = {
        send("GET", 200, {}),
        send("GET", 200, {"If-None-Match": '"another"'}),
        send("GET", 200, {"If-Modified-Since": "Sun, 22 Nov 2020 04:00:00 GMT"}),
        send("GET", 206, {"Range": "bytes=1-"}),
        send("GET", 206, {"Range": "bytes=-5"}),
        send("GET", 200, {"Range": "bytes=1-", "If-Range": '"another"'}),
    }
    # Each worker writes its events after a quarter of a second.
    wait_until(lambda: with_content <= set(_fetches(service, north)), what="the audit events of the downloads")
    assert not without_content & set(_fetches(service, north))


def test_ranges_of_one_download_are_audited_once(service: Service, north: str) -> None:
    link = service.link(north, NORTH, "members.csv.gz")
    parts = {
        service.get(link, headers={"Range": f"bytes={start}-{start + 9}"}).headers["X-Request-Id"]
        for start in range(0, 200, 10)
    }
    last = service.get(service.link(north, NORTH, "members.csv.gz")).headers["X-Request-Id"]
    wait_until(lambda: last in _fetches(service, north), what="the audit event of a later download")
    wait_until(lambda: not parts.isdisjoint(_fetches(service, north)), what="the audit event of a range")
    # Each of the two workers records the download once.
    assert len(parts.intersection(_fetches(service, north))) <= 2


def _stable_headers(found: requests.Response) -> dict[str, str]:
    changing = {"date", "x-request-id"}
    return {name.lower(): value for name, value in found.headers.items() if name.lower() not in changing}
