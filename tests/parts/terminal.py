"""A program on a terminal, whose prompts are answered."""

import contextlib
import os
import pty
import select
import subprocess
from collections.abc import Sequence


def run_on_terminal(command: Sequence[str], answers: Sequence[tuple[str, bytes]]) -> tuple[int, str]:
    """Run a program on a terminal. Return its exit code and what it printed.

    `answers` are prompts, each with the octets that are typed when it is shown.
    """
    parent, child = pty.openpty()
    with subprocess.Popen(command, stdin=child, stdout=child, stderr=child, start_new_session=True) as process:
        os.close(child)
        printed = ""
        for prompt, typed in answers:
            while prompt not in printed:
                printed += os.read(parent, 1000).decode(errors="replace")
            os.write(parent, typed)
        with contextlib.suppress(OSError):  # Linux reports the end of a terminal as an error.
            while select.select([parent], [], [], 20)[0] and (read := os.read(parent, 1000)):
                printed += read.decode(errors="replace")
        try:
            process.wait(20)
        finally:
            process.kill()
    os.close(parent)
    return process.returncode, printed
