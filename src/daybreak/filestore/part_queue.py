"""A bounded queue of parts between the thread that makes them and the thread that uploads them."""

import contextlib
import threading
from collections import deque
from collections.abc import Iterable, Iterator


class Interrupted(Exception):
    """The parts ended with an error, which the thread that makes them raises."""


class PartQueue:
    """Holds up to `size` parts. Either side learns when the other one ends early."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._waiting: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._complete = self._interrupted = self._unread = False

    def fill(self, parts: Iterable[bytes]) -> None:
        """Add all parts. Wait while the queue is full, and return early when nothing reads it any more."""
        try:
            for part in parts:
                with self._changed:
                    self._changed.wait_for(lambda: len(self._waiting) < self._size or self._unread)
                    if self._unread:
                        return
                    self._waiting.append(part)
                    self._changed.notify_all()
        except BaseException:
            self._set(interrupted=True)
            raise
        self._set(complete=True)

    def parts(self) -> Iterator[bytes]:
        """Yield the parts. Raises Interrupted when they ended with an error."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._complete or self._interrupted)
                if self._interrupted:
                    raise Interrupted
                if not self._waiting:
                    return
                part = self._waiting.popleft()
                self._changed.notify_all()
            yield part

    @contextlib.contextmanager
    def reader(self) -> Iterator[None]:
        """End the queue when the context ends, so that `fill` does not wait for a reader that failed."""
        try:
            yield
        finally:
            self._set(unread=True)

    def _set(self, *, complete: bool = False, interrupted: bool = False, unread: bool = False) -> None:
        with self._changed:
            self._complete |= complete
            self._interrupted |= interrupted
            self._unread |= unread
            self._changed.notify_all()
