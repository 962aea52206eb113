"""Trace of the service functions called within a block, in the order of their first call."""

import inspect
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import daybreak

_PACKAGE = f"{Path(daybreak.__file__).parent}/"


class Call(NamedTuple):
    """A function, and its module as a path such as `export/survey.py`."""

    module: str
    function: str


class CallTrace:
    """Records calls in this thread, and in threads that start while it is active."""

    def __init__(self) -> None:
        self._calls: dict[Call, None] = {}

    @contextmanager
    def active(self) -> Iterator[None]:
        """Record until the end of the block."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def take(self) -> list[Call]:
        """Return the functions called since the last `take`, each once."""
        taken, self._calls = self._calls, {}
        return list(taken)

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        # Bodies of modules and classes are not optimized.
        is_call = event == "call" and code.co_flags & inspect.CO_OPTIMIZED
        if is_call and code.co_filename.startswith(_PACKAGE):
            self._calls[Call(code.co_filename.removeprefix(_PACKAGE), code.co_name)] = None
