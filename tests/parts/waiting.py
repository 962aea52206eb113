"""Polling for conditions in other processes."""

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

PATIENT_SECONDS = 100.0
"""Deadline of a state database whose deadline is not under test. On a loaded machine, requests that contend for a row
may wait for longer than the default of 5 seconds.
"""


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
