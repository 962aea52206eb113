"""Polling for conditions in other processes."""

import socket
import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def free_port() -> int:
    """Return a free TCP port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(predicate: Callable[[], Result], seconds: float = 60, *, what: str = "", every: float = 0.05) -> Result:
    """Call `predicate` every `every` seconds until its result is true, and return the result.

    OSError, such as a refused connection, counts as false. Raises TimeoutError with `what` after `seconds`.
    """
    deadline = time.monotonic() + seconds
    while True:
        last_error: OSError | None = None
        try:
            result = predicate()
        except OSError as error:
            last_error = error
        else:
            if result:
                return result
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds} s for {what or predicate}") from last_error
        time.sleep(every)


def listens(port: int) -> bool:
    """Return whether a program accepts connections on that port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex(("127.0.0.1", port)) == 0
