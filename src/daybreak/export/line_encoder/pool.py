"""Instances that are used again, because making one takes longer than the rows of a tiny Leader."""

from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from daybreak.export.line_encoder.runtime import Instance


class _UsesInstance(Protocol):
    @property
    def instance(self) -> Instance: ...


T = TypeVar("T", bound=_UsesInstance)


class Pool(Generic[T]):
    """Users of an instance, each for one thread at a time. `new` makes another one when all are in use. One whose
    memory has grown beyond `max_bytes` is not used again.
    """

    def __init__(self, new: Callable[[], T], max_bytes: int) -> None:
        self._new, self._max_bytes = new, max_bytes
        self._free: deque[T] = deque()

    def take(self) -> T:
        """Return one that is not in use."""
        try:
            return self._free.pop()
        except IndexError:
            return self._new()

    def give_back(self, user: T) -> None:
        """Use it again, unless its memory has grown."""
        if user.instance.memory_bytes <= self._max_bytes:
            self._free.append(user)
