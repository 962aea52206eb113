"""The command line `daybreak`: its commands, exit codes and error messages."""

import os
import sys
from collections.abc import Sequence
from functools import cache
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Annotated, Any, Literal, TextIO

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError

from daybreak_client.command.fetch import fetch
from daybreak_client.command.files import files, link, s3_credentials, share_profile
from daybreak_client.command.login import accounts, login, logout, profiles, use
from daybreak_client.command.output import print_note
from daybreak_client.command.receipts import receipts
from daybreak_client.command.schema import schema, types
from daybreak_client.command.sync import sync
from daybreak_client.command.verify import verify
from daybreak_client.errors import ClientError

DONE, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130
# Files of a Leader contain personal data. Only their owner may read them, whatever the umask of the shell.
_PRIVATE_UMASK = 0o077

EXAMPLES = (
    ("Sign in. Prompts for email, password and code", "daybreak login https://export.example.org"),
    ("List your accounts, and select one by a part of its name", "daybreak accounts"),
    ("", 'daybreak use "North Light"'),
    ("Fetch all nine files as CSV; later runs fetch only changed files", "daybreak fetch exports"),
    ("Fetch two files as JSON", "daybreak fetch exports --only members,campaigns --format json"),
    ("Fetch all your accounts, each into its own folder", "daybreak fetch exports --all-accounts"),
    ("Fetch daily from cron, with the variables below", "daybreak fetch exports --wait 2h --quiet"),
    ("Keep a database in step, from cron as often as you like", "daybreak sync duckdb:///exports.duckdb"),
    ("", "daybreak sync postgresql://user@host/database --all-accounts --quiet"),
    ("Prove that the tables equal the published files", "daybreak sync duckdb:///exports.duckdb --verify"),
    ("Prove that the files are signed, complete and current", "daybreak verify exports --complete"),
    ("Print a link for another program", "daybreak link members"),
    ("Print SQL that creates tables for the files", "daybreak schema --ddl postgresql"),
    ("Print Python that loads the fetched files into pandas with the right types", "daybreak types --pandas members"),
    ("Write a profile for Delta Sharing clients, with the API token in use", "daybreak share-profile daybreak.share"),
    ("Print credentials for aws, boto3 and other S3 tools, from `credential_process`", "daybreak s3-credentials"),
    ("Sign in to a second service, and use it", "daybreak login https://eu.example.org --profile eu"),
    ("", "daybreak fetch exports-eu --profile eu"),
)
VARIABLES = {
    "DAYBREAK_SERVICE": "URL of the service. With a token, no login is needed.",
    "DAYBREAK_TOKEN": "API token or session token.",
    "DAYBREAK_TOKEN_FILE": "File with the token, in place of DAYBREAK_TOKEN.",
    "DAYBREAK_ACCOUNT": "client_id of the account.",
    "DAYBREAK_PLAIN_HTTP": "Any value allows http:// over a network.",
    "DAYBREAK_PROFILE": "Name of a saved sign-in, or the path of its file.",
}


@cache
def make_app() -> App:
    """Build the command with all its verbs."""
    app = App(
        name="daybreak",
        help="Fetch the files that a messaging platform publishes for your account, or keep a database in step.",
        version=_version,
        help_format="plaintext",
        help_epilogue=epilogue(),
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
        result_action="return_value",
    )
    sign_in = (login, logout, accounts, use, profiles)
    verbs = (files, fetch, sync, verify, receipts, link, schema, types, share_profile, s3_credentials, completion)
    for verb in (*sign_in, *verbs):
        app.command(verb, help_epilogue="")
    return app


def main() -> None:
    """Run the command line of this process and end it with the exit code."""
    os.umask(_PRIVATE_UMASK)
    _open_closed_streams()
    # A full disk must not be mistaken for a complete list, but notes are only for people.
    sys.stdout = _output(sys.stdout, BrokenPipeError)
    sys.stderr = _output(sys.stderr, OSError)
    sys.exit(run(sys.argv[1:]))


class _Output(FileIO):
    """A standard stream that drops what cannot be written because of some errors: the work and its exit code matter."""

    def __init__(self, stream: TextIO, dropped: type[OSError]) -> None:
        super().__init__(os.dup(stream.fileno()), "w")
        self._dropped = dropped

    def write(self, octets: Any, /) -> int:
        try:
            return super().write(octets)
        except self._dropped:
            return memoryview(octets).nbytes


def _output(stream: TextIO, dropped: type[OSError]) -> TextIOWrapper:
    """Return a stream in place of a standard one, with UTF-8 in any locale."""
    by_lines = stream.isatty() or stream is sys.stderr
    return TextIOWrapper(BufferedWriter(_Output(stream, dropped)), encoding="utf-8", line_buffering=by_lines)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. An error is one message on standard error."""
    # An empty variable of a shell. As a path it would be the current folder.
    if "" in arguments:
        return _report(WRONG, "An argument is empty. Check the variables in the command line.")
    try:
        result = make_app()(list(arguments))
        sys.stdout.flush()
    except CycloptsError as error:
        verbs = " ".join(("daybreak", *(error.command_chain or ())))
        unused = isinstance(error, UnusedCliTokensError) and error.unused_tokens
        text = f"Unexpected argument: {' '.join(unused)}." if unused else str(error)
        return _report(WRONG, *text.splitlines(), f"See `{verbs} --help`.")
    except ClientError as error:
        return _report(error.exit_code, error.message)
    except KeyboardInterrupt:
        return _report(INTERRUPTED, "interrupted")
    except OSError as error:
        if error.filename is None:
            _discard_output()
        return _report(FAILED, f"{error.filename or 'standard output'}: {error.strerror}")
    return result if isinstance(result, int) else DONE


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Shell to complete in.")]) -> None:
    """Print a shell script that completes commands and options.

    Save that of bash as ~/.local/share/bash-completion/completions/daybreak.
    """
    sys.stdout.write(make_app().generate_completion(shell=shell) + "\n")


def _version() -> str:
    from importlib.metadata import version

    return version("daybreak")


def _open_closed_streams() -> None:
    """Open the null device in place of closed standard streams. Otherwise another file could get their number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def _discard_output() -> None:
    """Redirect buffered output to the null device."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(code: int, text: str, *more: str) -> int:
    print_note(f"daybreak: {text}", *more)
    return code


def epilogue() -> str:
    """Return the examples and variables as text for a terminal."""
    return "\n".join(
        [
            "Examples:",
            *(f"  # {purpose}\n  {line}" if purpose else f"  {line}" for purpose, line in EXAMPLES),
            "\nVariables:",
            *(f"  {name:<19} {text}" for name, text in VARIABLES.items()),
        ]
    )
