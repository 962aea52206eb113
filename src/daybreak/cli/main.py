"""The command `daybreakd`: its verbs, exit codes and error messages.

Exit codes: 0 done, 1 failed, 2 wrong use or configuration, 130 interrupted. The module of a verb is imported when the
verb is used, so that help needs no heavy imports.
"""

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple, is_dataclass
from io import BufferedWriter, FileIO, TextIOWrapper
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError

import daybreak
from daybreak.cli.examples import examples_of
from daybreak.cli.output import describe_error, print_note, print_text
from daybreak.domain.errors import DaybreakError

DONE, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130
STANDARD_OUTPUT = "standard output"
# Most objects of a command live until it ends. Python's default of 700 objects between collections takes 5 % of the
# time of a short command.
_OBJECTS_BETWEEN_COLLECTIONS = 10_000
# Files, folders and sockets of the service are private, whatever the umask of the shell or of the service manager.
PRIVATE_UMASK = 0o077
_EXIT_CODES = {"settings_fault": WRONG_USE, "wrong_use": WRONG_USE, "run_stopped": INTERRUPTED}

VERBS: tuple[tuple[str, str, str], ...] = (
    ("init", "daybreak.cli.init:init", "Create a configuration, a keyring and an empty state database."),
    ("serve", "daybreak.cli.serve:serve", "Run the whole service: web workers and the builder."),
    ("web", "daybreak.cli.web:web", "Run the web workers."),
    ("builder", "daybreak.cli.builder:builder", "Build and publish snapshots on schedule, and deliver events."),
    ("migrate", "daybreak.cli.migrate:migrate", "Migrate the state database to this version."),
    ("doctor", "daybreak.cli.doctor:doctor", "Check settings, source, stores, keyring, mail, clock and disk."),
    ("demo", "daybreak.cli.demo:demo", "Generate a platform, build its files and serve them."),
    ("snapshot", "daybreak.cli.snapshot:app", "Run, list, show, verify, watch, publish, discard, forget."),
    ("rules", "daybreak.cli.rules:rules", "Print the rules of your own models, to approve them."),
    ("member", "daybreak.cli.member:app", "Erase Members from stored files; list receipts."),
    ("directory", "daybreak.cli.directory:app", "Accounts, seats and grants: import, export, sync."),
    ("seat", "daybreak.cli.seat:app", "Passwords, second factors and roles of seats."),
    ("token", "daybreak.cli.token:app", "API tokens: create, change, list, revoke."),
    ("events", "daybreak.cli.events:app", "Webhooks and mails: list, retry, test."),
    ("keys", "daybreak.cli.keys:app", "The keyring: list, rotate, revoke."),
    ("trust", "daybreak.cli.trust:app", "Keys that sign files: show, rotate, revoke."),
    ("audit", "daybreak.cli.audit:audit", "Print the audit trail."),
    ("state", "daybreak.cli.migrate:app", "The state database: copy."),
    ("files", "daybreak.cli.files:app", "The file store: copy."),
    ("completion", "daybreak.cli.main:completion", "Print a script for shell completion."),
)


def make_app(arguments: Sequence[str] = ()) -> App:
    """Build the command with all its verbs, without importing them. The help of the verb in `arguments` has the verb's
    own description and examples.
    """
    words = list(takewhile(lambda word: not word.startswith("-"), arguments))
    app = App(
        name="daybreakd",
        help="Daily snapshot files of a messaging platform, served over HTTP to authorized users.",
        version=daybreak.__version__,
        help_format="plaintext",
        exit_on_error=False,
        print_error=False,
        result_action="return_value",
        suppress_keyboard_interrupt=False,
        help_epilogue=examples_of(words),
        default_parameter=Parameter(validator=_require_utf8),
    )
    for name, where, help_text in VERBS:
        app.command(where, name=name, **({} if name in words[:1] else {"help": help_text}))
    return app


def _require_utf8(_type: object, value: Any) -> None:
    """Raise ValueError for a text with other bytes, which no database accepts. Names of files may have them."""
    has_fields = is_dataclass(value) and not isinstance(value, type)
    for text in astuple(value) if has_fields else (value,):
        if isinstance(text, str) and not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise ValueError("Use UTF-8.") from None


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the verb and end the process with its exit code."""
    os.umask(PRIVATE_UMASK)
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    _set_up_streams()
    codes: list[int] = []
    # Exit functions run in reverse order, so this one runs after those of libraries.
    atexit.register(_leave, codes)
    codes.append(run(sys.argv[1:] if arguments is None else arguments))
    sys.exit(codes[0])


def _leave(codes: Sequence[int]) -> None:
    """End the process with the exit code of its verb, if there is one.

    Releasing each object, as the interpreter does at exit, takes 10 to 20 % of the time of a short command.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    if codes:
        os._exit(codes[0])


class _Output(FileIO):
    """Standard output, whose errors have a file name like those of other files."""

    def write(self, octets: Any, /) -> int:
        try:
            return super().write(octets)
        except OSError as error:
            error.filename = STANDARD_OUTPUT
            raise


def _set_up_streams() -> None:
    """Use UTF-8 in any locale, and the null device for closed streams."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            null = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - open until the process ends
            setattr(sys, name, null)
        else:
            stream.reconfigure(encoding="utf-8")
            if name == "stdout":
                output = BufferedWriter(_Output(stream.fileno(), "w", closefd=False))
                by_lines = stream.line_buffering or stream.write_through
                sys.stdout = TextIOWrapper(output, encoding="utf-8", line_buffering=by_lines)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. An error is one message on standard error."""
    # An empty variable of a shell. As a path it would be the current folder.
    if "" in arguments:
        return _report("An argument is empty. Check the variables in the command line.", WRONG_USE)
    try:
        result = make_app(arguments)(list(arguments))
        sys.stdout.flush()
    except CycloptsError as error:
        return _report(_wrong_use(error), WRONG_USE)
    except KeyboardInterrupt:
        return _report("interrupted", INTERRUPTED)
    except BrokenPipeError as error:
        if error.filename != STANDARD_OUTPUT:
            raise
        # The reader of the output has closed the pipe.
        _discard_output()
        return DONE
    except DaybreakError as error:
        return _report(describe_error(error), _EXIT_CODES.get(error.code, FAILED))
    except ImportError as error:
        # The cause of an error of cyclopts, which imports the module of a verb.
        missing = error.__cause__ or error
        name = missing.name if isinstance(missing, ModuleNotFoundError) else None
        if name is None or name.partition(".")[0] == "daybreak":
            raise
        return _report(f"{name} is not installed. Install Daybreak with the extra `server`.", FAILED)
    except OSError as error:
        # An error on a file or folder of the operator. Anything else is a defect.
        if error.filename is None:
            raise
        if error.filename == STANDARD_OUTPUT:
            _discard_output()
        return _report(describe_error(error), FAILED)
    return result if isinstance(result, int) else DONE


def _wrong_use(error: CycloptsError) -> str:
    """Describe a wrong command line and name its help."""
    surplus = error.unused_tokens if isinstance(error, UnusedCliTokensError) else None
    text = f"Too many arguments: {' '.join(surplus)}" if surplus else str(error)
    return f"{text}\nSee `{' '.join(('daybreakd', *(error.command_chain or ())))} --help`."


def _discard_output() -> None:
    """Redirect buffered output to the null device."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(text: str, code: int) -> int:
    print_note(f"daybreakd: {text}")
    return code


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Shell to complete in.")]) -> None:
    """Print a shell script that completes commands and options."""
    print_text(make_app().generate_completion(shell=shell))


if __name__ == "__main__":
    main()
