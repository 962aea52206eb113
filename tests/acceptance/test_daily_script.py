"""What the documented script for every day says when it gets nothing: why, in words, with an error's status."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.service import PATIENCE_SECONDS, Service
from tests.acceptance.world import FOREIGN, MAYA, NORTH, NOT_EXPORTED
from tests.parts.waiting import free_port


@pytest.fixture
def script(tmp_path: Path, project_folder: Path) -> Path:
    """The script as the page has it."""
    text = (project_folder / "docs/fetching.md").read_text("utf-8")
    (found,) = re.findall(r"<<'END'\n(.*?)END\n", text, re.DOTALL)
    path = tmp_path / "fetch-exports.sh"
    path.write_text(found)
    return path


def fetch(script: Path, token: str, files: str) -> subprocess.CompletedProcess[str]:
    folder = script.parent / "exports"
    folder.mkdir()
    return subprocess.run(
        ["bash", script, folder],
        env={**os.environ, "TOKEN": token, "FILES": files, "WAIT_MINUTES": "0"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


@pytest.mark.parametrize(
    ("client_id", "good", "told"),
    [
        (NORTH, False, "invalid_token"),
        (FOREIGN, True, "not_your_account"),
        (NOT_EXPORTED, True, "does not know this account"),
    ],
)
def test_a_refusal_is_told_with_its_reason(
    service: Service, script: Path, client_id: str, good: bool, told: str
) -> None:
    token = service.token(MAYA, client_id if client_id != FOREIGN else None) if good else "service_api_x"
    done = fetch(script, token, f"{service.address}/download/v1/files/{client_id}")
    assert (done.returncode, done.stdout) == (1, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in (script.parent / "exports").iterdir()) == ["manifest.json"]


def test_a_service_that_is_away_is_told(script: Path) -> None:
    done = fetch(script, "service_api_x", f"http://127.0.0.1:{free_port()}/download/v1/files/{NORTH}")
    assert done.returncode == 7, "curl's own for a connection that is refused"
    assert "curl: (7)" in done.stderr
