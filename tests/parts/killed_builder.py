"""Builder of signed snapshots that is killed. The arguments are those of `main`."""

import os
import signal
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import FrameType
from unittest import mock

from daybreak.snapshots.run import run_manually
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.signing import sign_for_publication
from tests.configured import configured
from tests.parts.erasure import AS_OF
from tests.parts.sources import duckdb_source
from tests.small_platform import context_in


def context_of(folder: Path, platform: Path) -> RunContext:
    """Return a context with the state database, the files and the keys of a folder."""
    source = duckdb_source(platform, folder / "spill", threads=1)
    settings = configured(
        base_url="https://export.example.org", signing={"folder": folder / "signing"}, snapshot={"keep": 3}
    )
    return replace(context_in(folder, settings=settings), source=source)


def main() -> None:
    """Build and publish the snapshot of an hour, in a folder and from a platform.

    The process is killed in a function, at a call after signing has begun, or not at all if that call is 0. Then it
    prints the number of these calls.
    """
    folder, platform, hour, killed_in = sys.argv[1:]
    context = context_of(Path(folder), Path(platform))
    as_of = AS_OF + timedelta(hours=int(hour))
    if killed_in.isdecimal():
        calls = _Calls(int(killed_in))
        sys.setprofile(calls.count)
        run_manually(context, as_of=as_of)
        sys.setprofile(None)
        print(calls.number)
    else:
        with mock.patch(killed_in, _kill):
            run_manually(context, as_of=as_of)
    context.state.close()


class _Calls:
    """Counts calls of the service since the begin of signing. The last one kills the process."""

    def __init__(self, last: int) -> None:
        self.number = 0
        self._last = last

    def count(self, frame: FrameType, event: str, _argument: object) -> None:
        if (
            event == "call"
            and (self.number or frame.f_code is sign_for_publication.__code__)
            and frame.f_globals.get("__name__", "").startswith("daybreak.")
        ):
            self.number += 1
            if self.number == self._last:
                _kill()


def _kill(*_arguments: object, **_options: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
