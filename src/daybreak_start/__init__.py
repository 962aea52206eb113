"""Start of the commands `daybreak` and `daybreakd`: Ctrl-C ends them without a stack trace, also while they load.

The package contains nothing else, so that few modules are loaded before it handles the signal.
"""

import os
import signal
from contextlib import suppress
from importlib import import_module
from types import FrameType
from typing import NoReturn

_INTERRUPTED = 130


def daybreak() -> None:
    """Run the command of consumers."""
    _run("daybreak_client.command", "daybreak")


def daybreakd() -> None:
    """Run the command of operators."""
    _run("daybreak.cli.main", "daybreakd")


def _run(module: str, command: str) -> None:
    """Run `main` of a module. While it runs, Ctrl-C raises KeyboardInterrupt; before and after, it ends the process."""

    def end(_number: int = signal.SIGINT, _frame: FrameType | None = None) -> NoReturn:
        # The streams of Python may be closed, or in use by what was interrupted.
        with suppress(OSError):
            os.write(2, f"{command}: interrupted\n".encode())
        os._exit(_INTERRUPTED)

    # A process in the background may have been started to ignore the signal.
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        import_module(module).main()
        return
    signal.signal(signal.SIGINT, end)
    try:
        main = import_module(module).main
        signal.signal(signal.SIGINT, signal.default_int_handler)
        main()
    except KeyboardInterrupt:
        end()
    finally:
        signal.signal(signal.SIGINT, end)
