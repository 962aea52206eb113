"""The command `daybreak`: fetch an account's files, by hand or every day.

Exit codes: 0 done, 1 failed, 2 wrong use, 130 interrupted.
"""

import getpass
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter

from daybreak_client import profile as profiles
from daybreak_client.errors import ClientError, NotPublished, Refused, Unreachable, WrongUse
from daybreak_client.output import note, say, say_table, shown_bytes, watching
from daybreak_client.profile import Profile
from daybreak_client.published import Account, Published
from daybreak_client.service import API_TOKEN_PREFIX, AccountFiles, Daybreak

DONE, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130
_UNAUTHENTICATED = 401
_LOOK_AGAIN_SECONDS = 60.0
_SECONDS = {"s": 1, "m": 60, "h": 3600}

EXAMPLES = (
    ("Sign in; asks for what it needs", "daybreak login https://export.example.org"),
    ("What is in reach? Choose another account by a part of its name", "daybreak accounts"),
    ("", 'daybreak use "North Light"'),
    ("All nine as CSV; the second time those alone that changed", "daybreak fetch exports"),
    ("One of them as JSON", "daybreak fetch exports --only members --format json"),
    ("Every day, from cron, with the variables below", "daybreak fetch exports --wait 2h"),
    ("A link for another program", "daybreak link members"),
)
VARIABLES = {
    "DAYBREAK_SERVICE": "Where the service is; with a token nobody needs to log in.",
    "DAYBREAK_TOKEN": "An API token, or the token of a session.",
    "DAYBREAK_ACCOUNT": "The account's client_id.",
    "DAYBREAK_PLAIN_HTTP": "Anything, to allow http:// over a network.",
    "DAYBREAK_PROFILE": "The file in which `login` keeps the token.",
}
_EPILOGUE = "\n".join(
    [
        "Examples:",
        *(f"  # {wanted}\n  {line}" if wanted else f"  {line}" for wanted, line in EXAMPLES),
        "\nVariables:",
        *(f"  {name:<19} {text}" for name, text in VARIABLES.items()),
    ]
)

ClientId = Annotated[
    str | None, Parameter(name="--account", help="client_id of an account; else DAYBREAK_ACCOUNT, else the chosen one.")
]
AsJson = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON, for programs.")]
Format = Annotated[str, Parameter(help="csv or json; ndjson and parquet where the service makes them.")]


def _version() -> str:
    from importlib.metadata import version

    return version("daybreak")


app = App(
    name="daybreak",
    help="Fetch the files that a messaging platform publishes of your account every day at 04:00 UTC.",
    version=_version,
    help_format="plaintext",
    help_epilogue=_EPILOGUE,
    exit_on_error=False,
    print_error=False,
    result_action="return_value",
)


def main() -> None:
    """Entry point: runs the verb and ends the process with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and gives its exit code; errors go to standard error as one clear message."""
    try:
        app(list(arguments))
        sys.stdout.flush()
    except CycloptsError as error:
        verbs = " ".join(("daybreak", *(error.command_chain or ())))
        return _complain(f"{error}\nSee `{verbs} --help`.", WRONG)
    except WrongUse as error:
        return _complain(error.message, WRONG)
    except ClientError as error:
        return _complain(error.message, FAILED)
    except KeyboardInterrupt:
        return _complain("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has enough.
        _give_up_output()
        return DONE
    except OSError as error:
        if error.filename is None:
            _give_up_output()
        return _complain(f"{error.filename or 'standard output'}: {error.strerror}", FAILED)
    return DONE


@app.command(help_epilogue="")
def login(
    address: Annotated[str, Parameter(help="Where the service is, such as https://export.example.org.")],
    *,
    email: Annotated[str | None, Parameter(help="Your email; asked for when it is not given.")] = None,
    api_token: Annotated[bool, Parameter(negative="", help="With an API token, which is asked for.")] = False,
    account: Annotated[str | None, Parameter(help="client_id of the account that an API token is bound to.")] = None,
    plain_http: Annotated[bool, Parameter(negative="", help="Allow http:// over a network.")] = False,
) -> None:
    """Sign in, and stay so.

    Asks on the terminal, else reads line by line. The token is kept in a file that
    you alone can read: DAYBREAK_PROFILE, else ~/.config/daybreak/profile.json.
    """
    if api_token and account is None:
        raise WrongUse("Name the account that the API token is bound to: --account CLIENT_ID.")
    with Daybreak(address, plain_http=plain_http) as service:
        if api_token:
            service.token = _secret("API token: ")
            assert account is not None
            told = _told_of(service.account(account))
            chosen = account
        else:
            service.log_in(email or _typed("Email: "), _secret("Password: "), lambda: _secret("Code: "))
            accounts = service.accounts()
            current = next((each for each in accounts if each.current), accounts[0])
            chosen = current.client_id
            told = f"{current.name} is the account" + (
                "." if len(accounts) == 1 else f", one of {len(accounts)}: see `daybreak accounts`."
            )
        assert service.token is not None
        profiles.save(_profile_file(), Profile(service.address, service.token, chosen, plain_http))
    note(f"Signed in to {service.address}. {told}")


@app.command(help_epilogue="")
def logout() -> None:
    """End the session, and every link that came from it; an API token is only forgotten."""
    found = profiles.load(_profile_file())
    if found is None:
        note("Nobody is signed in.")
        return
    if not found.token.startswith(API_TOKEN_PREFIX):
        with _service(found) as service:
            try:
                service.log_out()
            except Refused as refusal:
                # It has ended already, elsewhere or by its time.
                if refusal.status != _UNAUTHENTICATED:
                    raise
    profiles.forget(_profile_file())


@app.command(help_epilogue="")
def accounts(*, as_json: AsJson = False) -> None:
    """List the accounts in reach, by name."""
    found, chosen = _signed_in()
    with _service(found) as service:
        reach = service.accounts()
    if as_json:
        _say_json([{"client_id": each.client_id, "name": each.name, "roles": list(each.roles)} for each in reach])
        return
    say_table(
        ("", "account", "name", "roles"),
        [("*" if each.client_id == chosen else "", each.client_id, each.name, ", ".join(each.roles)) for each in reach],
    )


@app.command(help_epilogue="")
def use(account: Annotated[str, Parameter(help="Its client_id, or a part of its name.")]) -> None:
    """Choose the account that the other verbs are about."""
    found = profiles.load(_profile_file())
    if found is None:
        raise _nobody()
    with _service(found) as service:
        chosen = _named(service.accounts(), account)
        service.account(chosen.client_id)
    profiles.save(_profile_file(), Profile(found.address, found.token, chosen.client_id, found.plain_http))
    note(f"{chosen.name} ({chosen.client_id}) is the account.")


@app.command(help_epilogue="")
def files(*, account: ClientId = None, as_json: AsJson = False) -> None:
    """Show what there is of the account, and how fresh."""
    found, chosen = _signed_in(account)
    with _service(found) as service:
        published = service.account(_given(chosen)).published()
    if as_json:
        _say_json(_as_json(published))
        return
    say_table(
        ("file", "rows", "size"),
        [(file.name, f"{file.rows:,}", shown_bytes(file.size_bytes)) for file in published.files],
        frozenset({"rows", "size"}),
    )
    note(_freshness(published))


@app.command(help_epilogue="")
def fetch(
    folder: Annotated[Path, Parameter(help="Where the copies lie; made if need be.")] = Path(),
    *,
    only: Annotated[
        list[str] | None, Parameter(negative="", help="A resource such as members; again for more; else all.")
    ] = None,
    format: Annotated[
        list[str] | None, Parameter(negative="", help="csv, json, ...; again for more; else csv.")
    ] = None,
    account: ClientId = None,
    wait: Annotated[
        str | None,
        Parameter(help="Wait so long for files that are late, or a service that is away, such as 2h; then fail."),
    ] = None,
) -> None:
    """Bring a folder up to what is published, and print which files changed.

    Each is compared with its digest, and none is put in place before all are there:
    after an error the folder holds what it held before. What was interrupted goes
    on where it was.
    """
    found, chosen = _signed_in(account)
    patience_seconds = None if wait is None else _seconds(wait)
    with _service(found) as service:
        of_account = service.account(_given(chosen))
        if patience_seconds is not None:
            _wait_for(of_account, patience_seconds)
        with watching() as tell:
            fetched = of_account.fetch(folder, only or (), format or ("csv",), tell)
    for file in fetched.brought:
        say(str(folder / file.name))
    note(f"{len(fetched.brought)} of {len(fetched.files)} files changed. {_freshness(fetched.published)}")


@app.command(help_epilogue="")
def link(
    resource: Annotated[str, Parameter(help="Such as members.")], format: Format = "csv", *, account: ClientId = None
) -> None:
    """Print a signed link to a file, good for some minutes and for whoever has it."""
    found, chosen = _signed_in(account)
    with _service(found) as service:
        say(service.account(_given(chosen)).link(resource, format))


def _wait_for(of_account: AccountFiles, patience_seconds: float) -> None:
    """Returns once files are out and not late. Raises Unreachable when they are not in time."""
    deadline = time.monotonic() + patience_seconds
    told = False
    while True:
        try:
            published = of_account.published()
            late, why, look_again_seconds = published.late, published.reason or "", _LOOK_AGAIN_SECONDS
        except NotPublished as not_yet:
            late, why, look_again_seconds = True, not_yet.message, not_yet.retry_after_seconds
        except Unreachable as away:
            late, why, look_again_seconds = True, away.message, _LOOK_AGAIN_SECONDS
        if not late:
            return
        left = deadline - time.monotonic()
        if left <= 0:
            raise Unreachable(f"The files of today are not out yet. {why}".strip())
        if not told:
            note(f"Waiting for the files of today. {why}".strip())
            told = True
        time.sleep(min(left, look_again_seconds, _LOOK_AGAIN_SECONDS))


def _signed_in(account: str | None = None) -> tuple[Profile, str | None]:
    """Who is to ask, of the environment or as saved, and for which account. Raises WrongUse when nobody."""
    chosen = account or os.environ.get("DAYBREAK_ACCOUNT")
    address, token = os.environ.get("DAYBREAK_SERVICE"), os.environ.get("DAYBREAK_TOKEN")
    if address and token:
        return Profile(address, token, chosen, bool(os.environ.get("DAYBREAK_PLAIN_HTTP"))), chosen
    if address or token:
        raise WrongUse("Set both DAYBREAK_SERVICE and DAYBREAK_TOKEN, or neither and `daybreak login`.")
    found = profiles.load(_profile_file())
    if found is None:
        raise _nobody()
    return found, chosen or found.client_id


def _nobody() -> WrongUse:
    return WrongUse("Nobody is signed in: `daybreak login ADDRESS`, or set DAYBREAK_SERVICE and DAYBREAK_TOKEN.")


def _service(found: Profile) -> Daybreak:
    return Daybreak(found.address, found.token, plain_http=found.plain_http)


def _given(client_id: str | None) -> str:
    if client_id is None:
        raise WrongUse("Name the account: --account CLIENT_ID, or the variable DAYBREAK_ACCOUNT.")
    return client_id


def _named(reach: Sequence[Account], text: str) -> Account:
    """The account of that id, or the one with that in its name. Raises WrongUse."""
    wanted = text.casefold()
    exact = [each for each in reach if wanted in {each.client_id, each.name.casefold()}]
    found = exact or [each for each in reach if wanted in each.name.casefold()]
    if len(found) != 1:
        names = ", ".join(f"{each.name} ({each.client_id})" for each in (found or reach)[:10])
        raise WrongUse(f"{'Several accounts have' if found else 'No account has'} {text!r} in the name: {names}.")
    return found[0]


def _told_of(of_account: AccountFiles) -> str:
    """How fresh the files are; shows that the token is good. Raises Refused when it is not."""
    try:
        return _freshness(of_account.published())
    except NotPublished as not_yet:
        return not_yet.message


def _freshness(published: Published) -> str:
    shown = f"They show {published.as_of:%Y-%m-%d %H:%M} UTC"
    if published.late:
        return f"{shown} and are late: {published.reason or 'the next should be out'}."
    return f"{shown}; the next are expected at {published.next_expected_at:%Y-%m-%d %H:%M}."


def _as_json(published: Published) -> dict[str, object]:
    return {
        "client_id": published.client_id,
        "snapshot_id": published.snapshot_id,
        "as_of": published.as_of.isoformat(),
        "published_at": published.published_at.isoformat(),
        "next_expected_at": published.next_expected_at.isoformat(),
        "late": published.late,
        "reason": published.reason,
        "files": [
            {"file": file.name, "resource": file.resource, "format": file.format, "rows": file.rows,
             "bytes": file.size_bytes, "sha256": file.sha256}
            for file in published.files
        ],
    }  # fmt: skip


def _say_json(value: Any) -> None:
    say(json.dumps(value))


def _seconds(text: str) -> float:
    found = re.fullmatch(r"([0-9]+)([smh])", text)
    if found is None:
        raise WrongUse(f"--wait: {text!r} is no time span; write one such as 90s, 30m or 2h.")
    return int(found[1]) * _SECONDS[found[2]]


def _typed(prompt: str) -> str:
    """A line of the terminal, or the next of a pipe."""
    if sys.stdin.isatty():
        sys.stderr.write(prompt)
        sys.stderr.flush()
    return sys.stdin.readline().rstrip("\r\n")


def _secret(prompt: str) -> str:
    """As `_typed`, without showing it."""
    return getpass.getpass(prompt) if sys.stdin.isatty() else _typed(prompt)


def _profile_file() -> Path:
    return profiles.profile_file(os.environ)


def _give_up_output() -> None:
    """What is still buffered goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(text: str, code: int) -> int:
    note(f"daybreak: {text}")
    return code


if __name__ == "__main__":
    main()
