"""The documented script for every day fetches changed files, or reports why it cannot."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from daybreak.catalogue.resources import RESOURCES
from tests.acceptance.installation import FOREIGN, MAYA, NORTH, NOT_EXPORTED
from tests.acceptance.service import PATIENCE_SECONDS, Service
from tests.parts.ports import free_port


@pytest.fixture
def script(tmp_path: Path, project_folder: Path) -> Path:
    """Return the path of a copy of the documented script."""
    text = (project_folder / "docs/how-to/fetch-every-day.md").read_text("utf-8")
    (found,) = re.findall(r"> fetch-exports\.sh <<'END'\n(.*?)END\n", text, re.DOTALL)
    path = tmp_path / "fetch-exports.sh"
    path.write_text(found)
    return path


def fetch(script: Path, token: str, address: str, client_id: str) -> subprocess.CompletedProcess[str]:
    folder = script.parent / "exports"
    folder.mkdir(exist_ok=True)
    settings = {
        "DAYBREAK_TOKEN": token,
        "DAYBREAK_SERVICE": address,
        "DAYBREAK_ACCOUNT": client_id,
        "WAIT_MINUTES": "0",
    }
    return subprocess.run(
        ["bash", "-x", script, folder],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def test_changed_and_damaged_files_are_fetched(service: Service, script: Path) -> None:
    def fetched() -> list[str]:
        done = fetch(script, service.token(MAYA, NORTH), service.address, NORTH)
        assert done.returncode == 0, done.stderr
        return re.findall(r"^\+ curl .* -o (\S+)\.new ", done.stderr, re.MULTILINE)

    assert len(fetched()) == len(RESOURCES)
    assert fetched() == []
    (script.parent / "exports" / "members.csv.gz").write_bytes(b"cut")
    (script.parent / "exports" / "campaigns.csv.gz").unlink()
    assert sorted(fetched()) == ["campaigns.csv.gz", "members.csv.gz"]


@pytest.mark.parametrize(
    ("client_id", "valid", "reason"),
    [
        (NORTH, False, "invalid_token"),
        (FOREIGN, True, "not_your_account"),
        (NOT_EXPORTED, True, "has no such account"),
    ],
)
def test_refusal_is_reported_with_its_reason(
    service: Service, script: Path, client_id: str, valid: bool, reason: str
) -> None:
    token = service.token(MAYA, client_id if client_id != FOREIGN else None) if valid else "service_api_x"
    done = fetch(script, token, service.address, client_id)
    assert (done.returncode, done.stdout) == (1, "")
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in (script.parent / "exports").iterdir()) == ["manifest.json"]


def test_unreachable_service_is_reported(script: Path) -> None:
    done = fetch(script, "service_api_x", f"http://127.0.0.1:{free_port()}", NORTH)
    assert done.returncode == 7, "the exit code of curl for a refused connection"
    assert "curl: (7)" in done.stderr
