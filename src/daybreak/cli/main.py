"""The command `daybreakd`: which verbs there are, and what an error looks like.

Exit codes: 0 done, 1 failed, 2 wrong use or configuration, 130 interrupted. The modules of the verbs are imported when
a verb is used, so that help answers at once.
"""

import gc
import os
import sys
from collections.abc import Sequence
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import App, CycloptsError, UnusedCliTokensError

import daybreak
from daybreak.cli.examples import examples_of
from daybreak.cli.faults import told
from daybreak.cli.output import note
from daybreak.domain.errors import DaybreakError

if TYPE_CHECKING:
    from typing_extensions import Buffer

DONE, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130
STANDARD_OUTPUT = "standard output"
# Most of what a command makes stays until it ends: looked through for what may go every 700 objects, as Python does by
# itself, it costs a short command a twentieth of its time.
_OBJECTS_BETWEEN_COLLECTIONS = 10_000
_EXIT_CODES = {"settings_fault": WRONG_USE, "wrong_use": WRONG_USE, "run_stopped": INTERRUPTED}

VERBS: tuple[tuple[str, str, str], ...] = (
    ("init", "daybreak.cli.init:init", "Write a configuration, a keyring and an empty state database."),
    ("serve", "daybreak.cli.serve:serve", "Run the service: web workers and the builder."),
    ("migrate", "daybreak.cli.serve:migrate", "Bring the state database to this version's shape."),
    ("doctor", "daybreak.cli.doctor:doctor", "Check configuration, source, stores, keyring, clock and disk."),
    ("demo", "daybreak.cli.demo:demo", "Make a believable platform, snapshot it and serve it."),
    ("snapshot", "daybreak.cli.snapshot:app", "Run, list, show, verify, watch, publish, discard."),
    ("directory", "daybreak.cli.directory:app", "Accounts and seats: import, export, sync."),
    ("seat", "daybreak.cli.seat:app", "Passwords, second factors and roles of seats."),
    ("token", "daybreak.cli.token:app", "API tokens: create, list, revoke."),
    ("keys", "daybreak.cli.keys:app", "The keyring: list, rotate."),
    ("audit", "daybreak.cli.audit:audit", "Read the audit trail."),
    ("state", "daybreak.cli.state:app", "The state database: copy."),
    ("completion", "daybreak.cli.completion:completion", "Print a script that completes verbs and options in a shell."),
)


def make_app() -> App:
    """The command with all its verbs, none of them imported yet."""
    app = App(
        name="daybreakd",
        help="Daily snapshot files of a messaging platform, handed to the right people over HTTP.",
        version=daybreak.__version__,
        help_format="plaintext",
        exit_on_error=False,
        print_error=False,
        result_action="return_value",
        suppress_keyboard_interrupt=False,
        help_epilogue=examples_of(""),
    )
    for name, where, help_text in VERBS:
        # A group of verbs ends its help itself; its verbs inherit that.
        epilogue = {} if where.endswith(":app") else {"help_epilogue": examples_of(name)}
        app.command(where, name=name, help=help_text, **epilogue)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: runs the verb and ends the process with its exit code."""
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    _set_up_streams()
    code = run(sys.argv[1:] if arguments is None else arguments)
    # What is alive now goes with the process: the collector need not walk all of it on the way out, a fifth of a short
    # command. But the engine's library would tell of all that was not walked, on standard error.
    if "duckdb" not in sys.modules:
        gc.freeze()
    sys.exit(code)


class _Output(FileIO):
    """Standard output. What goes wrong with it names it, as the errors of other files do."""

    def write(self, octets: "Buffer", /) -> int:
        try:
            return super().write(octets)
        except OSError as error:
            error.filename = STANDARD_OUTPUT
            raise


def _set_up_streams() -> None:
    """Names and documents go in and out as UTF-8 whatever the locale; a stream that was closed goes nowhere."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            nothing = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - as long as the process
            setattr(sys, name, nothing)
        else:
            stream.reconfigure(encoding="utf-8")
            if name == "stdout":
                sys.stdout = _output_of(stream)


def _output_of(stream: TextIOWrapper) -> TextIOWrapper:
    """The same output by way of `_Output`."""
    raw = _Output(stream.fileno(), "w", closefd=False)
    by_lines = stream.line_buffering or stream.write_through
    return TextIOWrapper(BufferedWriter(raw), encoding="utf-8", line_buffering=by_lines)


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and gives its exit code; errors go to standard error as one clear message."""
    try:
        result = make_app()(list(arguments))
        sys.stdout.flush()
    except CycloptsError as error:
        return _complain(_wrong_use(error), WRONG_USE)
    except KeyboardInterrupt:
        return _complain("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has enough.
        _give_up_output()
        return DONE
    except DaybreakError as error:
        return _complain(told(error), _EXIT_CODES.get(error.code, FAILED))
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "daybreak":
            raise
        return _complain(f"{error.name} is not installed: `pip install 'daybreak[server]'` brings the service.", FAILED)
    except OSError as error:
        # A file or folder that the operator named, or that lies in one; anything else is a defect.
        if error.filename is None:
            raise
        if error.filename == STANDARD_OUTPUT:
            _give_up_output()
        return _complain(told(error), FAILED)
    return result if isinstance(result, int) else DONE


def _wrong_use(error: CycloptsError) -> str:
    """What is wrong with a command line, and which help to read."""
    surplus = error.unused_tokens if isinstance(error, UnusedCliTokensError) else None
    text = f"Too many arguments: {' '.join(surplus)}" if surplus else str(error)
    return f"{text}\nSee `{' '.join(('daybreakd', *(error.command_chain or ())))} --help`."


def _give_up_output() -> None:
    """What is still buffered goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(text: str, code: int) -> int:
    note(f"daybreakd: {text}")
    return code


if __name__ == "__main__":
    main()
