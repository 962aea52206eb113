"""Ctrl-C while a command loads, and while it ends."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
# A test run in the background ignores the signal, and its processes inherit that.
DEFAULT = "signal.signal(signal.SIGINT, signal.default_int_handler)"
WHILE_LOADING = """
class Finder:
    def find_spec(self, name, *_):
        if name == "cyclopts":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Finder())
"""
WHILE_ENDING = "atexit.register(signal.raise_signal, signal.SIGINT)"


@pytest.mark.parametrize(
    ("command", "moment"),
    [("daybreak", WHILE_LOADING), ("daybreak", WHILE_ENDING), ("daybreakd", WHILE_LOADING)],
)
def test_interrupt_shows_no_stack_trace(command: str, moment: str) -> None:
    # The commands as the console scripts call them.
    scripts = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["scripts"]
    module, _, function = scripts[command].partition(":")
    program = f"""
import atexit, signal, sys
{DEFAULT}
{moment}
from {module} import {function}
{function}()
"""
    assert result(program) == (130, f"{command}: interrupted\n")


def test_ignored_interrupt_stays_ignored() -> None:
    program = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
{WHILE_LOADING}
from daybreak_start import daybreak
daybreak()
"""
    assert result(program) == (0, "")


def result(program: str) -> tuple[int, str]:
    """Run a program with `--version`, and return its exit code and standard error."""
    done = subprocess.run(
        [sys.executable, "-c", program, "--version"], check=False, capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stderr
