"""The demo: its check of the files, and the commands that it prints."""

import gzip
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.recorded_arguments import record_arguments
from tests.parts.processes import running
from tests.parts.waiting import free_port

PATIENCE_SECONDS = 240
DEMO = (sys.executable, "-m", "daybreak.cli.main", "demo")
SIZES = ("--leaders", "9", "--members", "600", "--messages", "2000")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a demo that has passed its check."""
    path = tmp_path_factory.mktemp("demo")
    done = subprocess.run(
        [*DEMO, str(path), *SIZES, "--port", str(free_port()), "--check"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "The files match the source."
    assert done.stdout.count("ok    members of") == 6
    assert "WRONG" not in done.stdout
    return path


def test_second_start_reuses_the_demo(folder: Path, tmp_path: Path) -> None:
    """The commands that the demo prints can be pasted into a shell."""
    created = json.loads((folder / "demo.json").read_text("utf-8"))
    port = free_port()
    command = [*DEMO, str(folder), *SIZES, "--port", str(port)]
    with running(command, environment={"PYTHONUNBUFFERED": "1"}) as demo:
        log = demo.wait_for_log("gunzip -c campaigns.json.gz", PATIENCE_SECONDS)
        assert "Using the existing snapshot" in log
        assert "Generating a platform" not in log
        assert json.loads((folder / "demo.json").read_text("utf-8")) == created
        assert created["token"] in log
        pasted = log.partition("# One file by API token")[2].replace(" | head -3", " > /dev/null")
        assert pasted.count("curl ") == 4
        recorded = record_arguments(tmp_path / "programs", os.environ["PATH"])
        done = subprocess.run(
            ["bash", "-euc", pasted],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{recorded.parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        arguments = recorded.read_text("utf-8")
        assert arguments.count("curl ") == 4
        for secret in (created["token"], "eyJ", *re.findall(r"\w+-\w+-\w+-\d{4}", log)):
            assert secret not in arguments, "users of the machine can list the arguments of a process"
        assert stat.S_IMODE((tmp_path / "daybreak-token.txt").stat().st_mode) == 0o600
        assert demo.stop() == 0
        assert not [line for line in demo.log().splitlines() if '"event"' in line], "the service logs to a file"
    service_log = folder / "service.log"
    assert f"Log: {service_log}" in log
    assert stat.S_IMODE(service_log.stat().st_mode) == 0o600
    events = [json.loads(line)["event"] for line in service_log.read_text("utf-8").splitlines()]
    assert {"run.published", "ready", "request", "stopped"} <= set(events)
    members = gzip.decompress((tmp_path / "members.csv.gz").read_bytes()).decode()
    assert members.startswith('"MEMBER_ID","LEADER_ID","PHONE_NUMBER"')
    campaigns = json.loads(gzip.decompress((tmp_path / "campaigns.json.gz").read_bytes()))
    assert campaigns
    assert "CAMPAIGN_ID" in campaigns[0]


def test_folder_of_another_demo_is_refused(folder: Path) -> None:
    done = subprocess.run(
        [*DEMO, str(folder), "--leaders", "3", "--port", str(free_port()), "--check"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert "contains another demo (9 leaders" in done.stderr
