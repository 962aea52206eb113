"""The dlt source, into DuckDB."""

import gzip
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests

from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.demo.emails import OWNER_EMAIL
from daybreak_client.service import Daybreak
from tests.acceptance.installation import MAYA, NORTH, SOUTH, Installation
from tests.acceptance.service import PATIENCE_SECONDS, Service, serving
from tests.parts.delta_publisher import community, publishing
from tests.parts.demo_service import AS_OF, make_demo_service
from tests.parts.ports import free_port
from tests.parts.warm import printed_by, running_warm


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a pipeline into a new DuckDB file. dlt must not report its use to its makers."""
    monkeypatch.setenv("RUNTIME__DLTHUB_TELEMETRY", "false")
    monkeypatch.setenv("DLT_DATA_DIR", str(tmp_path / "dlt"))
    import dlt

    return dlt.pipeline(
        "exports",
        destination=dlt.destinations.duckdb(str(tmp_path / "exports.duckdb")),
        dataset_name="daybreak",
        pipelines_dir=str(tmp_path / "pipelines"),
    )


def load(pipeline: Any, service: Service, client_id: str, **options: Any) -> dict[str, int]:
    """Run the source and return the number of loaded rows by table, with the row that deletes."""
    token, _ = service.installation.create_token(MAYA, client_id)
    return run_source(pipeline, service.address, token, client_id, **options)


def run_source(pipeline: Any, address: str, token: str, client_id: str, **options: Any) -> dict[str, int]:
    from daybreak_client.dlt_source import daybreak

    pipeline.run(daybreak(address, token, client_id, **options)).raise_on_failed_jobs()
    counts = pipeline.last_trace.last_normalize_info.row_counts
    return {name: count for name, count in counts.items() if not name.startswith("_dlt")}


def rows(pipeline: Any, table: str, client_id: str) -> list[dict[str, Any]]:
    with (
        pipeline.sql_client() as client,
        client.execute_query(f"SELECT * FROM {table} WHERE leader_id = %s", client_id) as cursor,
    ):
        names = [column[0].upper() for column in cursor.description]
        found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return [{name: value for name, value in row.items() if not name.startswith("_")} for row in found]


def published(service: Service, client_id: str, resource: str) -> list[dict[str, Any]]:
    link = service.link(service.token(MAYA, client_id), client_id, f"{resource}.json.gz")
    return list(json.loads(gzip.decompress(requests.get(link, timeout=PATIENCE_SECONDS).content)))


def as_published(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if hasattr(value, "hour")
        else value.isoformat() if hasattr(value, "isoformat") else value
        for name, value in row.items()
    }  # fmt: skip


def assert_published(pipeline: Any, service: Service, client_id: str) -> None:
    """Compare every table with the published file. Values keep their types, and NULL is not the empty string."""
    for table in RESOURCE_NAMES:
        loaded = [as_published(row) for row in rows(pipeline, table, client_id)]
        expected = published(service, client_id, table)
        assert len(loaded) == len(expected), table
        assert as_set(loaded) == as_set(expected), table


def as_set(found: list[dict[str, Any]]) -> set[str]:
    return {json.dumps(row, sort_keys=True) for row in found}


@pytest.mark.release
def test_accounts_share_a_dataset(service: Service, pipeline: Any) -> None:
    for client_id in (NORTH, SOUTH):
        load(pipeline, service, client_id)
    for client_id in (NORTH, SOUTH):
        assert_published(pipeline, service, client_id)
    assert load(pipeline, service, NORTH) == {}, "nothing new"
    assert load(pipeline, service, SOUTH, resources=["campaigns"]) == {}
    token, _ = service.installation.create_token(MAYA, NORTH)
    assert run_source(pipeline, service.address, token, f" {NORTH.upper()} ") == {}, "another spelling"


@pytest.mark.release
def test_new_snapshot_replaces_changed_tables(make_installation: Callable[[], Installation], pipeline: Any) -> None:
    installation = make_installation()
    with serving(installation) as service:
        assert set(load(pipeline, service, NORTH)) == set(RESOURCE_NAMES)
        installation.publish_snapshot(seed=2)
        assert load(pipeline, service, NORTH)
        assert_published(pipeline, service, NORTH)


@pytest.mark.release
def test_deltas_are_loaded(tmp_path: Path, pipeline: Any) -> None:
    """Two days later, only the changed rows are loaded, and deleted rows disappear."""
    directory = make_demo_service(tmp_path, leaders=3, members=300, messages=900)
    client_id = directory.seat(OWNER_EMAIL).client_ids[0]
    token = printed_by(tmp_path, "token", "create", "--seat", OWNER_EMAIL, "--account", client_id)
    days = [f"{AS_OF - timedelta(days=age):%Y-%m-%dT%H:%M:%SZ}" for age in (4, 2, 1)]
    printed_by(tmp_path, "snapshot", "run", "--as-of", days[0])
    address = f"127.0.0.1:{free_port()}"
    environment = {"DAYBREAK_LISTEN": address, "DAYBREAK_BASE_URL": f"http://{address}", "DAYBREAK_WORKERS": "1"}
    command = ["web", "-c", str(tmp_path / "daybreak.toml")]
    with running_warm(command, environment=environment) as program:
        program.wait_for_log('"ready"', PATIENCE_SECONDS)
        first = run_source(pipeline, f"http://{address}", token, client_id)
        for day in days[1:]:
            printed_by(tmp_path, "snapshot", "run", "--as-of", day)
        second = run_source(pipeline, f"http://{address}", token, client_id)
        assert 0 < second["outbound_message_type_usage"] < first["outbound_message_type_usage"]
        with Daybreak(f"http://{address}", token) as service:
            files = service.account(client_id).fetch(tmp_path / "files", formats=["json"]).files
        for file in files:
            expected = json.loads(gzip.decompress((tmp_path / "files" / file.name).read_bytes()))
            loaded = [as_published(row) for row in rows(pipeline, file.resource, client_id)]
            assert len(loaded) == len(expected), file.resource
            assert as_set(loaded) == as_set(expected), file.resource
        assert run_source(pipeline, f"http://{address}", token, client_id) == {}


@pytest.mark.release
def test_rows_of_another_account_are_refused(pipeline: Any) -> None:
    with publishing(NORTH) as (publisher,):
        publisher.publish({"communities": [community(1, "Fans", NORTH)]})
        run_source(pipeline, publisher.service.url, "service_api_token", NORTH)
        for _ in ("a delta", "a full file"):
            publisher.publish({"communities": [community(1, "Fans", SOUTH)]})
            with pytest.raises(Exception, match="rows of another account"):
                run_source(pipeline, publisher.service.url, "service_api_token", NORTH)
            publisher.close_chain()
        assert [row["LEADER_ID"] for row in rows(pipeline, "communities", NORTH)] == [NORTH]
