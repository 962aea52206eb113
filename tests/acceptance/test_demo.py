"""The demo: its check of the files, and the commands that it prints."""

import gzip
import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.acceptance.recorded_arguments import record_arguments
from tests.parts.ports import free_port
from tests.parts.processes import running
from tests.parts.waiting import wait_until
from tests.parts.warm import daybreakd, running_warm

PATIENCE_SECONDS = 240
DAYBREAKD = (sys.executable, "-m", "daybreak.cli.main")
DEMO = (*DAYBREAKD, "demo")
SIZES = ("--leaders", "9", "--members", "600", "--messages", "2000")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a demo that has passed its check."""
    path = tmp_path_factory.mktemp("demo")
    done = daybreakd("demo", path, *SIZES, "--port", str(free_port()), "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "The files match the source."
    assert done.stdout.count("ok    members of") == 6
    assert "ok    a file of another account is refused" in done.stdout
    assert "WRONG" not in done.stdout
    return path


@pytest.mark.release
def test_ctrl_c_interrupts_the_start(folder: Path) -> None:
    with running([*DEMO, str(folder), *SIZES, "--port", str(free_port())]) as demo:
        children = Path(f"/proc/{demo.pid}/task/{demo.pid}/children")
        wait_until(lambda: children.read_text("ascii"), PATIENCE_SECONDS)
        assert demo.stop(signal.SIGINT) == 130
        assert demo.log().endswith("daybreakd: interrupted\n")


@pytest.mark.release
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


@pytest.mark.release
@pytest.mark.parametrize("command", ["serve", "web"])
@pytest.mark.parametrize(
    "settings",
    [
        {"LISTEN": "0.0.0.0:{port}"},
        {"LISTEN": "[::]:{port}"},
        {"LISTEN": "127.0.0.1:{port}", "BASE_URL": "https://export.example.org"},
        {"LISTEN": "127.0.0.1:{port}", "BASE_URL": "http://192.0.2.1:8400"},
    ],
)
def test_demo_is_not_served_to_other_machines(folder: Path, command: str, settings: Mapping[str, str]) -> None:
    (line,) = _refusal(folder / "daybreak.toml", command, settings)
    setting = list(settings)[-1].lower()
    assert line.startswith(f"daybreakd: {setting} = '")
    assert "owner@demo.example" in line
    assert "Set listen and base_url to 127.0.0.1" in line


def test_copied_demo_is_not_served_to_other_machines(folder: Path, tmp_path: Path) -> None:
    """The seats identify the demo, not the folder or the configuration."""
    assert _run("init", str(tmp_path / "copy")).returncode == 0
    source, target = (f"sqlite:///{path}" for path in (folder / "state.db", tmp_path / "copied.db"))
    copied = _run("state", "copy", source, target)
    assert copied.returncode == 0, copied.stderr
    config = tmp_path / "copy" / "daybreak.toml"
    (line,) = _refusal(config, "serve", {"LISTEN": "0.0.0.0:{port}", "STATE__URL": target})
    assert line.startswith("daybreakd: listen = '0.0.0.0:")
    environment = {"DAYBREAK_STATE__URL": target}
    for name in ("owner", "analyst", "visitor", "careful", "operator"):
        disabled = _run("seat", "disable", f"{name}@demo.example", "-c", str(folder / "daybreak.toml"), **environment)
        assert disabled.returncode == 0, disabled.stderr
    settings = {"LISTEN": "127.0.0.1:{port}", "BASE_URL": "https://export.example.org", "STATE__URL": target}
    assert _refusal(config, "web", settings) == []


def _refusal(config: Path, command: str, settings: Mapping[str, str]) -> list[str]:
    """Return the error with which a service ends, no line if it starts."""
    environment = {f"DAYBREAK_{name}": value.format(port=free_port()) for name, value in settings.items()}
    with running_warm([command, "--config", config], environment=environment) as service:
        wait_until(
            lambda: not service.alive() or "ready" in service.log(), PATIENCE_SECONDS, what="the end or the start"
        )
        if service.alive():
            return []
        assert service.process.returncode == 1
        return [line for line in service.log().splitlines() if line.startswith("daybreakd: ")]


def _run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return daybreakd(*arguments, environment=environment)


def test_folder_of_another_demo_is_refused(folder: Path) -> None:
    done = daybreakd("demo", folder, "--leaders", "3", "--port", str(free_port()), "--check")
    assert done.returncode == 1
    assert "contains another demo (9 leaders" in done.stderr
