"""Calls in other threads, of which a limited number is in progress."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def bounded_map(executor: Executor, function: Callable[[T], R], items: Iterable[T], ahead: int) -> Iterator[R]:
    """Yield the results in order. At most `ahead` calls are queued or running, or have results that wait."""
    calls: deque[Future[R]] = deque()
    for item in items:
        calls.append(executor.submit(function, item))
        if len(calls) >= ahead:
            yield calls.popleft().result()
    while calls:
        yield calls.popleft().result()
