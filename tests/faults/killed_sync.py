"""Sync that kills itself at a chosen point, in a process of `tests.parts.warm`. It prints the calls of functions.

The argument is a JSON object: {"service": ..., "account": ..., "target": ..., "at_call": NUMBER or null,
"at_cpu_seconds": NUMBER or null}

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
    print(run_until_killed(json.loads(sys.argv[1])))
