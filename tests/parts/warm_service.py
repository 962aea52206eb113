"""Process that has imported the service, and forks a process for each command: faster than starting Python each time.

It reads one JSON command per line and answers each with one JSON line:

    {"start": arguments, "module": ..., "environment": {...}, "folder": ..., "stdin": ..., "stdout": ..., "stderr": ...}
        -> {"pid": ...}

The arguments are those of `daybreakd`, or of another module with `main`. The last three are files.
    {"wait": pid} -> {"status": exit status, or minus the signal that ended it}
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_STANDARD_ERROR = 2
# Libraries that commands, or other libraries, import when they need them.
_LIBRARIES = ("alembic.command", "sqlalchemy.dialects.sqlite", "wasmtime")
# Spark and dlt are large, and few tests use them. Alembic imports its environment.
_LEFT_OUT = ("daybreak.sources.spark", "daybreak.state.migrations", "daybreak_client.dlt_source")


def import_service() -> None:
    """Import all modules of the service and of the client, also those that commands import when they need them."""
    # The library of the metrics reads the variable when it is imported, and again in each new process.
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        import daybreak
        import daybreak_client

        for library in _LIBRARIES:
            importlib.import_module(library)
        for package in (daybreak, daybreak_client):
            for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
                if not module.name.startswith(_LEFT_OUT):
                    importlib.import_module(module.name)
    # Collections in forked processes skip what was imported, and do not copy its pages.
    gc.collect()
    gc.freeze()
    # At the exit, DuckDB's library reports frozen objects as leaks. Functions that are registered later run before.
    atexit.register(lambda: os.dup2(os.open(os.devnull, os.O_WRONLY), _STANDARD_ERROR))


def read_lines() -> Iterator[bytes]:
    """Yield the lines of standard input. The stream of Python would be unusable in a forked process after a read."""
    line = b""
    while piece := os.read(0, 65536):
        line += piece
        if line.endswith(b"\n"):
            yield line
            line = b""


def forked() -> dict[str, Any]:
    """Answer commands, and exit after the last one. Returns only in a forked process, with its command."""
    for line in read_lines():
        command: dict[str, Any] = json.loads(line)
        if "wait" in command:
            answer = {"status": os.waitstatus_to_exitcode(os.waitpid(command["wait"], 0)[1])}
        else:
            pid = os.fork()
            if pid == 0:
                become(command)
                return command
            answer = {"pid": pid}
        os.write(1, f"{json.dumps(answer)}\n".encode())
    sys.exit(0)


def become(command: dict[str, Any]) -> None:
    """Set up a forked process as `processes.running` sets up a program."""
    os.setsid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    outputs = [os.open(command[name], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) for name in ("stdout", "stderr")]
    for target, source in enumerate([os.open(command["stdin"], os.O_RDONLY), *outputs]):
        os.dup2(source, target)
        os.close(source)
    os.chdir(command["folder"])
    os.environ.clear()
    os.environ.update(command["environment"])
    # The library of the metrics needs the variable, see `import_service`. A service with metrics replaces it.
    os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", str(Path(command["stdout"]).parent))
    time.tzset()


def main() -> None:
    import_service()
    from daybreak.cli.main import main as daybreakd

    command = forked()
    if command["module"] is None:
        daybreakd(command["start"])
    sys.argv = [command["module"], *command["start"]]
    importlib.import_module(command["module"]).main()


if __name__ == "__main__":
    main()
