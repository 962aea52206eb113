"""The demo, as somebody meets it who has just cloned the project: it checks itself, its lines can be pasted."""

import gzip
import json
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts.processes import running
from tests.parts.waiting import free_port

PATIENCE_SECONDS = 240
DEMO = (sys.executable, "-m", "daybreak.cli.main", "demo")
SIZES = ("--leaders", "9", "--members", "600", "--messages", "2000")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demo folder that has checked itself once."""
    path = tmp_path_factory.mktemp("demo")
    done = subprocess.run(
        [*DEMO, str(path), *SIZES, "--port", str(free_port()), "--check"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "The files are what the source says."
    assert done.stdout.count("ok    members of") == 6
    assert "WRONG" not in done.stdout
    return path


def test_a_second_start_uses_what_is_there_and_lines_can_be_pasted(
    folder: Path, tmp_path: Path, project_folder: Path
) -> None:
    """The lines that the demo prints, and those of the first five minutes in the README."""
    made = json.loads((folder / "demo.json").read_text("utf-8"))
    port = free_port()
    command = [*DEMO, str(folder), *SIZES, "--port", str(port)]
    with running(command, environment={"PYTHONUNBUFFERED": "1"}) as demo:
        log = demo.wait_for_log("gunzip -c campaigns.json.gz", PATIENCE_SECONDS)
        assert "Using the snapshot" in log
        assert "Making a platform" not in log
        assert json.loads((folder / "demo.json").read_text("utf-8")) == made
        assert made["token"] in log
        pasted = [line for line in log.splitlines() if line.startswith(("curl ", "TOKEN=", "gunzip "))]
        assert len(pasted) == 6
        script = "\n".join(["set -eu", *(line.replace(" | head -3", " > /dev/null") for line in pasted)])
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr
        read_me = (project_folder / "README.md").read_text("utf-8")
        first_minutes = read_me.partition("## The first five minutes")[2].partition("\n## ")[0]
        blocks = re.findall(r"```sh\n(.*?)```", first_minutes, re.DOTALL)
        assert len(blocks) == 4
        address = f"BASE=http://127.0.0.1:{port}"
        script = "\n".join(["set -eu", *blocks]).replace("BASE=http://127.0.0.1:8400", address)
        assert address in script
        script = script.replace(".venv/bin/", f"{Path(sys.executable).parent}/")
        (tmp_path / "read-me").mkdir()
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path / "read-me",
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert '"MEMBER_ID","LEADER_ID"' in done.stdout
        assert "\n204\n" in done.stdout
        assert "session_ended" in done.stdout.splitlines()[-1]
        assert json.loads(gzip.decompress((tmp_path / "read-me" / "members.json.gz").read_bytes()))
        assert len(list((tmp_path / "read-me" / "exports").iterdir())) == 9
        assert demo.stop() == 0
        assert not [line for line in demo.log().splitlines() if line.startswith("{")], "the service logs elsewhere"
    service_log = folder / "service.log"
    assert f"Its log: {service_log}" in log
    assert stat.S_IMODE(service_log.stat().st_mode) == 0o600
    events = [json.loads(line)["event"] for line in service_log.read_text("utf-8").splitlines()]
    assert {"run.published", "ready", "request", "stopped"} <= set(events)
    members = gzip.decompress((tmp_path / "members.csv.gz").read_bytes()).decode()
    assert members.startswith('"MEMBER_ID","LEADER_ID","PHONE_NUMBER"')
    campaigns = json.loads(gzip.decompress((tmp_path / "campaigns.json.gz").read_bytes()))
    assert campaigns
    assert "CAMPAIGN_ID" in campaigns[0]


def test_another_platform_in_the_same_folder_is_refused(folder: Path) -> None:
    done = subprocess.run(
        [*DEMO, str(folder), "--leaders", "3", "--port", str(free_port()), "--check"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert "holds another demo (9 leaders" in done.stderr
