"""Process that has imported the service, and forks a process for each command: faster than starting Python each time.

It reads one JSON command per line and answers each with one JSON line:

    {"start": arguments of daybreakd, "environment": {...}, "folder": ..., "log_file": ...} -> {"pid": ...}
    {"wait": pid} -> {"status": exit status, or minus the signal that ended it}
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

_PR_SET_PDEATHSIG = 1


def import_service() -> None:
    """Import the modules of the web workers."""
    # The library of the metrics reads the variable when it is imported, and again in each new process.
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        import daybreak.bootstrap
        import daybreak.cli.builder_process
        import daybreak.cli.serve
        import daybreak.web.app
        import daybreak.web.metrics_server
        import daybreak.web.server  # noqa: F401


def read_lines() -> Iterator[bytes]:
    """Yield the lines of standard input. The stream of Python would be unusable in a forked process after a read."""
    line = b""
    while piece := os.read(0, 65536):
        line += piece
        if line.endswith(b"\n"):
            yield line
            line = b""


def forked() -> list[str]:
    """Answer commands, and exit after the last one. Returns only in a forked process, with its arguments."""
    for line in read_lines():
        command = json.loads(line)
        if "wait" in command:
            answer = {"status": os.waitstatus_to_exitcode(os.waitpid(command["wait"], 0)[1])}
        else:
            pid = os.fork()
            if pid == 0:
                become(command)
                return list(command["start"])
            answer = {"pid": pid}
        os.write(1, f"{json.dumps(answer)}\n".encode())
    sys.exit(0)


def become(command: dict[str, Any]) -> None:
    """Set up a forked process as `processes.running` sets up a program."""
    os.setsid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(command["log_file"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(null)
    os.close(log)
    os.chdir(command["folder"])
    os.environ.clear()
    os.environ.update(command["environment"])
    time.tzset()


def main() -> None:
    import_service()
    from daybreak.cli.main import main as daybreakd

    daybreakd(forked())


if __name__ == "__main__":
    main()
