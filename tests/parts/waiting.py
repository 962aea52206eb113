"""Waiting for what another process does: by asking again, never by guessing how long it takes."""

import socket
import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that nothing listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(predicate: Callable[[], Answer], seconds: float = 60, *, what: str = "", every: float = 0.05) -> Answer:
    """Call ``predicate`` until its answer is true, and return that answer.

    ``OSError`` (nobody listens yet) counts as "not yet". Raises ``TimeoutError`` naming ``what`` after ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while True:
        trouble: OSError | None = None
        try:
            answer = predicate()
        except OSError as error:
            trouble = error
        else:
            if answer:
                return answer
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds} s for {what or predicate}") from trouble
        time.sleep(every)


def listens(port: int) -> bool:
    """Say whether something accepts connections on that port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex(("127.0.0.1", port)) == 0
