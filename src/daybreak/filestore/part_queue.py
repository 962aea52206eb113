"""A bounded queue of parts between the thread that makes them and the thread that stores them."""

from concurrent.futures import Future
from contextlib import suppress
from queue import Full, Queue
from typing import Any, TypeVar

T = TypeVar("T")
_CHECK_SECONDS = 0.5


def pass_on(queue: Queue[T], part: T, reader: Future[Any]) -> None:
    """Add a part as soon as there is space. If the reader has ended, with an error, nothing is added."""
    while not reader.done():
        with suppress(Full):
            queue.put(part, timeout=_CHECK_SECONDS)
            return
