"""Server that forks one process per sync, which kills itself at a chosen point. Forking is faster than starting Python.

It reads one JSON command per line and answers each with one JSON line:

    {"service": ..., "account": ..., "target": ..., "at_call": NUMBER or null, "at_cpu_seconds": NUMBER or null}
        -> {"status": exit status, or minus the signal that ended it, "calls": calls of functions if it was not killed}

`at_call` is the number of a call or return of a Python function, in any thread. `at_cpu_seconds` can also be in the
middle of a call of the database's library.
"""

import itertools
import json
import os
import signal
import sys
import threading
from typing import Any

import duckdb  # noqa: F401 - imported once, before processes fork
import psycopg  # noqa: F401

from daybreak_client import Daybreak, sync

TOKEN = "service_api_secret"


def run_until_killed(command: dict[str, Any]) -> int:
    """Sync, and return the number of calls."""
    counter = itertools.count(1)
    calls = 0

    def count(*_event: object) -> None:
        nonlocal calls
        calls = next(counter)
        if calls == command["at_call"]:
            os.kill(os.getpid(), signal.SIGKILL)

    if command["at_cpu_seconds"] is not None:
        # The default action of SIGPROF ends the process immediately.
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, command["at_cpu_seconds"])
    threading.setprofile(count)
    sys.setprofile(count)
    with Daybreak(command["service"], TOKEN) as service:
        sync(service.account(command["account"]), command["target"])
    sys.setprofile(None)
    return calls


def main() -> None:
    """Answer commands until standard input ends."""
    for line in sys.stdin:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            os.write(writing, str(run_until_killed(json.loads(line))).encode())
            os._exit(0)
        os.close(writing)
        _, status = os.waitpid(pid, 0)
        calls = os.read(reading, 100)
        os.close(reading)
        print(json.dumps({"status": os.waitstatus_to_exitcode(status), "calls": int(calls or 0)}), flush=True)


if __name__ == "__main__":
    main()
