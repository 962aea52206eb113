"""The API description, the documentation page, health, metrics and the audit trail."""

import json
import re
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from daybreak import __version__
from daybreak.catalogue.resources import RESOURCES
from daybreak.web.http.problems import PROBLEMS
from tests.acceptance.installation import MAYA, NORTH, SOUTH
from tests.acceptance.service import Service
from tests.parts.waiting import wait_until

SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")


@pytest.mark.release
def test_schemathesis_finds_no_errors(service: Service, tmp_path: Path) -> None:
    """Examples are derived from one seed. File paths differ only by name, so one is enough."""
    command = [
        SCHEMATHESIS if SCHEMATHESIS.exists() else shutil.which("schemathesis") or "schemathesis",
        "run",
        f"{service.address}/openapi.json",
        *("--header", f"Authorization: Bearer {service.token(MAYA, NORTH)}"),
        *("--phases", "examples,coverage,fuzzing", "--checks", "all", "--max-examples", "2", "--seed", "7"),
        *("--exclude-path-regex", r"/files/\{client_id\}/(?!outbound_.*json)"),
        # It would end the session of the other requests.
        *("--exclude-path", "/download/v2/auth/logout"),
        *("--request-timeout", "60", "--no-color"),
    ]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
    assert found.returncode == 0, found.stdout[-6000:] + found.stderr[-2000:]
    assert re.search(r"[1-9]\d* passed", found.stdout)


def test_every_described_path_exists(service: Service) -> None:
    document = service.get("/openapi.json").json()
    assert document["servers"] == [{"url": service.base_url}]
    prefix = "/download/v1/files/{client_id}/"
    files = [
        path
        for path in document["paths"]
        if path.startswith(prefix) and not re.search("/deltas|statement|/receipts", path)
    ]
    assert len(files) == 2 * len(RESOURCES)
    for path, methods in document["paths"].items():
        concrete = (
            (path.replace("{client_id}", NORTH).replace("{snapshot_id}", SOUTH).replace("{file}", "members.csv.gz"))
            .replace("{page}", "files")
            .replace("{edition}", "1.1")
        )
        for method in methods:
            found = service.request(method.upper(), concrete)
            # This service does not sign.
            allowed = {404} if "/statement" in path or "/trust" in path else set()
            assert found.status_code not in {404, 405, 500} - allowed, path


def test_documentation_page_is_served_with_its_styles(service: Service) -> None:
    found = service.get("/docs")
    assert found.status_code == 200
    styles = re.findall(r'<link rel="stylesheet" href="([^"]+)">', found.text)
    assert len(styles) == 2
    for style in styles:
        assert service.get(style).headers["Content-Type"].startswith("text/css")
    for code in PROBLEMS:
        assert f'id="{code}"' in found.text


def test_schema_lists_the_columns_of_every_file(service: Service) -> None:
    found = service.get("/download/v1/schema")
    assert found.status_code == 200
    described = {entry["name"]: entry["schema"]["fields"] for entry in found.json()["resources"]}
    assert {name: [field["name"] for field in fields] for name, fields in described.items()} == {
        resource.name: list(resource.column_names) for resource in RESOURCES
    }
    assert {tuple(entry["endings"]) for entry in found.json()["resources"]} == {(".csv.gz", ".json.gz")}


def test_health_and_readiness_report_ok(service: Service) -> None:
    assert service.get("/healthz").json()["status"] == "ok"
    assert service.get("/readyz").json() == {
        "status": "ready",
        "parts": {"state": "ok", "files": "ok"},
        "failing_tasks": [],
    }
    for path in ("/healthz", "/readyz", "/openapi.json", "/docs", "/download/v1/schema"):
        head, get = service.request("HEAD", path), service.get(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["Content-Length"] == get.headers["Content-Length"]


def test_metrics_are_summed_over_the_workers(service: Service) -> None:
    before = _requests_counted(service)
    for _ in range(20):
        service.get("/healthz")
    # A request is counted after its response was sent.
    wait_until(lambda: _requests_counted(service) >= before + 20)


def test_metrics_are_not_on_the_public_listener(service: Service) -> None:
    assert service.get("/metrics").status_code == 404


def test_metrics_report_freshness(service: Service) -> None:
    token = service.token(MAYA, SOUTH)
    manifest = service.get(f"/download/v1/files/{SOUTH}", token=token).json()["data"]
    lines = service.metrics().splitlines()
    values = {name: float(value) for name, _, value in (line.partition(" ") for line in lines) if "_files_" in name}
    assert values == {
        "daybreak_files_late": float(manifest["late"]),
        "daybreak_files_late_since_timestamp_seconds": 0,
        "daybreak_files_expected_timestamp_seconds": datetime.fromisoformat(manifest["next_expected_at"]).timestamp(),
        "daybreak_files_as_of_timestamp_seconds": datetime.fromisoformat(manifest["as_of"]).timestamp(),
        "daybreak_files_lost": 0,
        "daybreak_files_lost_since_timestamp_seconds": 0,
    }


def test_metrics_count_rejected_logins_and_nodes(service: Service) -> None:
    rejected = 'daybreak_http_refusals_total{code="invalid_credentials"}'

    def value(name: str) -> float:
        lines = service.metrics().splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} ")), 0)

    before = value(rejected)
    assert service.log_in(MAYA, password="wrong").status_code == 401
    wait_until(lambda: value(rejected) == before + 1, what="the rejected login in the metrics")
    # Heartbeats begin with the service.
    wait_until(lambda: value(f'daybreak_nodes{{role="web",version="{__version__}"}}') == 1, what="the heartbeat")
    assert value("daybreak_keyrings") == 1


def _requests_counted(service: Service) -> int:
    text = service.metrics()
    counted = re.findall(r'^daybreak_http_requests_total\{.*route="/healthz".*\} (\d+)', text, re.MULTILINE)
    return sum(int(number) for number in counted)


def test_audit_trail_lists_links_and_downloads(service: Service) -> None:
    token = service.token(MAYA, SOUTH)
    answer = service.request_file(token, SOUTH, "members.csv.gz")
    fetch = service.get(answer.headers["Location"].replace(service.base_url, service.address))
    # Events of other tests may arrive later.
    request_ids = {answer.headers["X-Request-Id"], fetch.headers["X-Request-Id"]}

    def lines() -> list[dict[str, object]]:
        found = service.get(f"/download/v1/audit/{SOUTH}", token=token)
        assert found.status_code == 200
        assert found.headers["Content-Type"] == "application/x-ndjson"
        return [json.loads(line) for line in found.text.splitlines()]

    def seen() -> set[tuple[object, ...]]:
        return {
            (line["action"], line["result"], line["actor"]) for line in lines() if line["request_id"] in request_ids
        }

    # Each worker writes its events after a quarter of a second, so the download may precede the link.
    expected = {("link.issued", "ok", MAYA), ("file.fetched", "ok", MAYA)}
    wait_until(lambda: seen() == expected, what="the audit events of the link and the download")
    assert all("client_id" not in line for line in lines())
    head = service.request("HEAD", f"/download/v1/audit/{SOUTH}", token=token)
    assert (head.status_code, head.headers["Content-Type"]) == (200, "application/x-ndjson")
    # The response is streamed, so its length is unknown. 0 would be wrong.
    assert "Content-Length" not in head.headers
    fetched = service.get(f"/download/v1/audit/{SOUTH}?action=file.fetched", token=token).text.splitlines()
    assert {json.loads(line)["action"] for line in fetched} == {"file.fetched"}
    assert service.get(f"/download/v1/audit/{SOUTH}?since=2999-01-01", token=token).text == ""
    # Not an instant, and two instants that have no representation in UTC.
    for since in ("soon", "0001-01-01T00:00:00%2B14:00", "9999-12-31T23:59:59-14:00"):
        assert service.get(f"/download/v1/audit/{SOUTH}?since={since}", token=token).status_code == 400
    assert service.get(f"/download/v1/audit/{NORTH}", token=token).status_code == 403
