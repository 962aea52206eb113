"""What the service says of itself is complete and true."""

import json
import re
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path

from daybreak.catalogue.resources import RESOURCES
from daybreak.web.problems import PROBLEMS
from tests.acceptance.service import Service
from tests.acceptance.world import MAYA, NORTH, SOUTH
from tests.parts.waiting import wait_until

SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")


def test_schemathesis_finds_nothing(service: Service, tmp_path: Path) -> None:
    """Examples are derived from one seed. The paths of the files differ in name alone: one stands for all."""
    command = [
        SCHEMATHESIS if SCHEMATHESIS.exists() else shutil.which("schemathesis") or "schemathesis",
        "run",
        f"{service.address}/openapi.json",
        *("--header", f"Authorization: Bearer {service.token(MAYA, NORTH)}"),
        *("--phases", "examples,coverage,fuzzing", "--checks", "all", "--max-examples", "2", "--seed", "7"),
        *("--exclude-path-regex", r"/files/\{client_id\}/(?!outbound_.*json)"),
        # It would end the session that the others are tried with; it has tests of its own.
        *("--exclude-path", "/download/v2/auth/logout"),
        *("--request-timeout", "60", "--no-color"),
    ]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
    assert found.returncode == 0, found.stdout[-6000:] + found.stderr[-2000:]
    assert re.search(r"[1-9]\d* passed", found.stdout)


def test_openapi_names_every_path_and_problem(service: Service) -> None:
    document = service.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert document["servers"] == [{"url": service.base_url}]
    files = [path for path in document["paths"] if path.startswith("/download/v1/files/{client_id}/")]
    assert len(files) == 2 * len(RESOURCES)
    assert set(document["components"]["schemas"]["Problem"]["properties"]["code"]["examples"]) == set(PROBLEMS)
    for path in document["paths"]:
        # Whatever it needs, it is there: nothing that is described answers "not found".
        concrete = (
            path.replace("{client_id}", NORTH).replace("{snapshot_id}", SOUTH).replace("{file}", "members.csv.gz")
        )
        method = next(iter(document["paths"][path])).upper()
        found = service.request(method, concrete)
        assert found.status_code not in {405, 500}, path
        assert found.status_code != 404, path


def test_the_page_needs_no_other_host(service: Service) -> None:
    found = service.get("/docs")
    assert found.status_code == 200
    addresses = re.findall(r"""(?:href|src)=['"]?([^'"> ]+)""", found.text)
    assert addresses
    assert all(address.startswith((service.base_url, "#")) for address in addresses)
    assert "<script" not in found.text
    style = service.get("/docs/style.css")
    assert style.headers["Content-Type"].startswith("text/css")
    for code in PROBLEMS:
        assert f"id='{code}'" in found.text


def test_the_schema_of_the_files(service: Service) -> None:
    found = service.get("/download/v1/schema")
    assert found.status_code == 200
    described = {entry["name"]: entry["schema"]["fields"] for entry in found.json()["resources"]}
    assert {name: [field["name"] for field in fields] for name, fields in described.items()} == {
        resource.name: list(resource.column_names) for resource in RESOURCES
    }
    assert {tuple(entry["endings"]) for entry in found.json()["resources"]} == {(".csv.gz", ".json.gz")}


def test_health_and_readiness(service: Service) -> None:
    assert service.get("/healthz").json()["status"] == "ok"
    assert service.get("/readyz").json() == {"status": "ready", "parts": {"state": "ok", "files": "ok"}}
    for path in ("/healthz", "/readyz", "/openapi.json", "/docs", "/download/v1/schema"):
        head, get = service.request("HEAD", path), service.get(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["Content-Length"] == get.headers["Content-Length"]


def test_metrics_add_up_over_the_workers(service: Service) -> None:
    before = _requests_counted(service)
    for _ in range(20):
        service.get("/healthz")
    # The other worker shows what it counted a second later at most.
    wait_until(lambda: _requests_counted(service) >= before + 20)


def test_metrics_say_how_fresh_the_files_are(service: Service) -> None:
    token = service.token(MAYA, SOUTH)
    told = service.get(f"/download/v1/files/{SOUTH}", token=token).json()["data"]
    lines = service.get("/metrics").text.splitlines()
    values = {name: float(value) for name, _, value in (line.partition(" ") for line in lines) if "_files_" in name}
    assert values == {
        "daybreak_files_late": float(told["late"]),
        "daybreak_files_as_of_timestamp_seconds": datetime.fromisoformat(told["as_of"]).timestamp(),
    }


def _requests_counted(service: Service) -> int:
    text = service.get("/metrics").text
    counted = re.findall(r'^daybreak_http_requests_total\{.*route="/healthz".*\} (\d+)', text, re.MULTILINE)
    return sum(int(number) for number in counted)


def test_the_trail_of_an_account(service: Service) -> None:
    token = service.token(MAYA, SOUTH)
    answer = service.ask(token, SOUTH, "members.csv.gz")
    fetch = service.get(answer.headers["Location"].replace(service.base_url, service.address))
    # Other tests use the service, too: what they did before may come later.
    own = {answer.headers["X-Request-Id"], fetch.headers["X-Request-Id"]}

    def lines() -> list[dict[str, object]]:
        found = service.get(f"/download/v1/audit/{SOUTH}", token=token)
        assert found.status_code == 200
        assert found.headers["Content-Type"] == "application/x-ndjson"
        return [json.loads(line) for line in found.text.splitlines()]

    def seen() -> set[tuple[object, ...]]:
        return {(line["action"], line["result"], line["actor"]) for line in lines() if line["request_id"] in own}

    # Each worker writes what it has a quarter of a second later, so the fetch may be there before the link.
    expected = {("link.issued", "ok", MAYA), ("file.fetched", "ok", MAYA)}
    wait_until(lambda: seen() == expected, what="the link and the fetch on the trail")
    assert all("client_id" not in line for line in lines())
    head = service.request("HEAD", f"/download/v1/audit/{SOUTH}", token=token)
    assert (head.status_code, head.headers["Content-Type"]) == (200, "application/x-ndjson")
    # It is written out as it is read, so nobody knows its length before; 0 would be a wrong one.
    assert "Content-Length" not in head.headers
    fetched = service.get(f"/download/v1/audit/{SOUTH}?action=file.fetched", token=token).text.splitlines()
    assert {json.loads(line)["action"] for line in fetched} == {"file.fetched"}
    assert service.get(f"/download/v1/audit/{SOUTH}?since=2999-01-01", token=token).text == ""
    # No instant, and two that no calendar here has in UTC.
    for since in ("soon", "0001-01-01T00:00:00%2B14:00", "9999-12-31T23:59:59-14:00"):
        assert service.get(f"/download/v1/audit/{SOUTH}?since={since}", token=token).status_code == 400
    assert service.get(f"/download/v1/audit/{NORTH}", token=token).status_code == 403
