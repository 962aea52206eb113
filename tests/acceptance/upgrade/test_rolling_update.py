"""Web nodes of a recorded version and of this one serve together while an update is in progress."""

import subprocess
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.upgrade.record import AUTH, INSTANCES, OWNER, PATIENCE_SECONDS, Client, published_files
from tests.acceptance.upgrade.test_upgrade import DAYBREAKD, UPGRADED_AT, restore
from tests.parts.moved_clock import MovedClock
from tests.parts.ports import free_port
from tests.parts.processes import running

pytestmark = pytest.mark.release
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module", params=sorted(path.name for path in INSTANCES.iterdir() if path.is_dir()))
def nodes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Client, Client, dict[str, Any]]]:
    """Return a node of the recorded version, one of this version that has migrated the database, and the record."""
    folder = tmp_path_factory.mktemp("rolling")
    archive = subprocess.run(
        ["git", "archive", request.param, "src"], cwd=ROOT, capture_output=True, check=False, timeout=PATIENCE_SECONDS
    )
    if archive.returncode:
        pytest.skip(f"the history of this checkout does not contain {request.param}: run `git fetch --unshallow`")
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as sources:
        sources.extractall(folder / "earlier", filter="data")
    recorded = restore(INSTANCES / request.param, folder / "instance")
    clock = MovedClock(folder / "offset")
    clock.move_to(UPGRADED_AT)
    command = [*DAYBREAKD, "web", "--config", str(folder / "instance/daybreak.toml")]
    ports = free_port(), free_port()
    of_both = {**clock.environment, "DAYBREAK_LOG_FORMAT": "json", "DAYBREAK_SNAPSHOT__SCHEDULE": "false"}
    earlier, later = ({**of_both, "DAYBREAK_LISTEN": f"127.0.0.1:{port}"} for port in ports)
    earlier["PYTHONPATH"] = str(folder / "earlier/src")
    with running(command, environment=earlier) as old:
        old.wait_for_log('"ready"', PATIENCE_SECONDS)
        with running(command, environment=later) as new:
            new.wait_for_log('"ready"', PATIENCE_SECONDS)
            yield Client(ports[0]), Client(ports[1]), recorded


def test_sessions_and_links_are_valid_on_both_versions(nodes: tuple[Client, Client, dict[str, Any]]) -> None:
    old, new, recorded = nodes
    documents = [node.request("GET", "/openapi.json").text for node in (old, new)]
    assert documents[0] != documents[1], "one node runs the recorded version"
    path = recorded["members_file"]
    client_id = path.split("/")[4]
    for one, other in ((old, new), (new, old)):
        login = one.log_in(OWNER, recorded["passwords"][OWNER]).json()["token"]
        token = one.switch(login, client_id)
        assert path in published_files(other, token, client_id)
        link = other.link(token, path)
        assert [node.request("GET", link).status_code for node in (one, other)] == [200, 200]
        assert one.request("DELETE", f"{AUTH}/logout", token=token).status_code == 204
        assert other.request("GET", f"{AUTH}/context", token=token).status_code == 401
        assert other.request("GET", link).status_code == 403


def test_pages_open_on_both_versions(nodes: tuple[Client, Client, dict[str, Any]]) -> None:
    old, new, recorded = nodes
    client_id = recorded["members_file"].split("/")[4]
    for one, other in ((old, new), (new, old)):
        cookies = one.dashboard_cookies(OWNER, recorded["passwords"][OWNER])
        assert other.request("GET", f"/dashboard/{client_id}/files", cookies=cookies).status_code == 200
