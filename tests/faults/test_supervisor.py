"""What the supervisor bears: a machine that is short of processes for a moment, a process that fails for hours."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.parts.processes import running
from tests.parts.waiting import wait_until

# A worker that dies once; the fork that should replace it is refused.
SHORT_OF_PROCESSES = """
import errno, os, signal, sys
from pathlib import Path
from daybreak.web.supervisor import Duty, Supervisor

lives, fork, forks = Path(sys.argv[1]), os.fork, []

def short_once():
    forks.append(None)
    if len(forks) == 2:
        raise BlockingIOError(errno.EAGAIN, "no more processes")
    return fork()

def work(beat):
    beat()
    with lives.open("a") as file:
        print("a life", file=file)
    if len(lives.read_text().splitlines()) > 1:
        signal.pause()

os.fork = short_once
sys.exit(Supervisor([Duty("worker", work)]).run())
"""

# A builder that has failed for hours, beside a worker that is well.
FAILS_FOR_HOURS = """
import signal, sys
from daybreak.web.supervisor import Duty, Supervisor

def work(beat):
    beat()
    signal.pause()

def build(beat):
    sys.exit(3)

supervisor = Supervisor([Duty("worker", work), Duty("builder", build, beats=False)])
supervisor._children[1].failures = 2000
sys.exit(supervisor.run())
"""


def test_a_process_that_cannot_be_started_is_started_later(tmp_path: Path) -> None:
    lives = tmp_path / "lives"
    with running([sys.executable, "-c", SHORT_OF_PROCESSES, lives]) as service:
        service.wait_for_log("not_started")
        wait_until(lambda: lives.read_text().count("a life") == 2, what="a second life")
        assert service.stop() == 0


def test_a_process_that_fails_for_hours_takes_no_other_along() -> None:
    with running([sys.executable, "-c", FAILS_FOR_HOURS]) as service:
        log = service.wait_for_log("starts_again_in_seconds")
        assert "15.0" in log
        assert service.stop() == 0
