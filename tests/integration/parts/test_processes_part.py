"""Programs that tests start end with the tests."""

import os
import shutil
import signal
import sys
from pathlib import Path

import psutil
import pytest

from tests.parts.presence import absent
from tests.parts.processes import running
from tests.parts.waiting import wait_until

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("child", child.pid, flush=True)
time.sleep(600)
"""


def test_children_are_stopped_with_the_program(tmp_path: Path) -> None:
    with running([sys.executable, "-c", PARENT], log_file=tmp_path / "log") as program:
        child = int(program.wait_for_log("\n").split()[1])
        assert psutil.pid_exists(child)
    assert not program.alive()
    wait_until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)


def test_program_that_ignores_sigterm_is_killed() -> None:
    ignore = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    script = f"{ignore}; print('ready', flush=True); time.sleep(600)"
    with running([sys.executable, "-c", script]) as program:
        program.wait_for_log("ready")
        assert program.stop(seconds=0.2) == -signal.SIGKILL


def test_waiting_for_a_log_fails_when_the_program_exits() -> None:
    with (
        running([sys.executable, "-c", "print('no configuration'); raise SystemExit(3)"]) as program,
        pytest.raises(AssertionError, match="ended with 3:\nno configuration"),
    ):
        program.wait_for_log("ready")


def test_program_ends_when_the_test_run_is_killed(tmp_path: Path) -> None:
    """The kernel kills processes on a machine that is out of memory."""
    if shutil.which("setpriv") is None:
        absent("setpriv", "apt-get install util-linux")
    script = tmp_path / "run.py"
    script.write_text(
        "import sys, time\n"
        "from tests.parts.processes import running\n"
        "command = [sys.executable, '-c', 'import time; print(1, flush=True); time.sleep(600)']\n"
        "with running(command) as program:\n"
        # The kernel kills the program only after setpriv has asked it to, so the program has to be running.
        "    program.wait_for_log('1')\n"
        "    print('started', program.pid, flush=True)\n"
        "    time.sleep(600)\n",
        encoding="utf-8",
    )
    root = Path(__file__).parents[3]
    with running([sys.executable, script], environment={"PYTHONPATH": str(root)}) as run:
        started = int(run.wait_for_log("\n").split()[1])
        os.kill(run.pid, signal.SIGKILL)
        wait_until(lambda: not psutil.pid_exists(started) or psutil.Process(started).status() == psutil.STATUS_ZOMBIE)
