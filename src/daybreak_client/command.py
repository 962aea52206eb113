"""The command `daybreak`: fetch the files of an account.

Exit codes: 0 done, 1 failed, 2 wrong use, 130 interrupted.
"""

import getpass
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter

from daybreak_client import profile as profiles
from daybreak_client.errors import ClientError, NotPublished, Refused, Unreachable, WrongUse
from daybreak_client.output import download_progress, format_bytes, print_note, print_table, print_text
from daybreak_client.profile import Profile
from daybreak_client.published import Account, PublishedSnapshot
from daybreak_client.service import API_TOKEN_PREFIX, AccountFiles, Daybreak

DONE, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130
_UNAUTHENTICATED = 401
_POLL_SECONDS = 60.0
_SECONDS = {"s": 1, "m": 60, "h": 3600}

EXAMPLES = (
    ("Sign in. Prompts for email, password and code", "daybreak login https://export.example.org"),
    ("List your accounts, and select one by a part of its name", "daybreak accounts"),
    ("", 'daybreak use "North Light"'),
    ("Fetch all nine files as CSV; later runs fetch only changed files", "daybreak fetch exports"),
    ("Fetch one file as JSON", "daybreak fetch exports --only members --format json"),
    ("Fetch daily from cron, with the variables below", "daybreak fetch exports --wait 2h"),
    ("Print a link for another program", "daybreak link members"),
)
VARIABLES = {
    "DAYBREAK_SERVICE": "URL of the service. With DAYBREAK_TOKEN, no login is needed.",
    "DAYBREAK_TOKEN": "API token or session token.",
    "DAYBREAK_ACCOUNT": "client_id of the account.",
    "DAYBREAK_PLAIN_HTTP": "Any value allows http:// over a network.",
    "DAYBREAK_PROFILE": "File in which `login` saves the token.",
}
_EPILOGUE = "\n".join(
    [
        "Examples:",
        *(f"  # {purpose}\n  {line}" if purpose else f"  {line}" for purpose, line in EXAMPLES),
        "\nVariables:",
        *(f"  {name:<19} {text}" for name, text in VARIABLES.items()),
    ]
)

ClientId = Annotated[
    str | None,
    Parameter(name="--account", help="client_id of an account. Default: DAYBREAK_ACCOUNT, else the selected one."),
]
AsJson = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON, for programs.")]
Format = Annotated[str, Parameter(help="csv or json; ndjson and parquet if the service offers them.")]


def _version() -> str:
    from importlib.metadata import version

    return version("daybreak")


app = App(
    name="daybreak",
    help="Fetch the files that a messaging platform publishes for your account every day.",
    version=_version,
    help_format="plaintext",
    help_epilogue=_EPILOGUE,
    exit_on_error=False,
    print_error=False,
    result_action="return_value",
)


def main() -> None:
    """Run the command line of this process and end it with the exit code."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. An error is one message on standard error."""
    try:
        app(list(arguments))
        sys.stdout.flush()
    except CycloptsError as error:
        verbs = " ".join(("daybreak", *(error.command_chain or ())))
        return _report(f"{error}\nSee `{verbs} --help`.", WRONG)
    except WrongUse as error:
        return _report(error.message, WRONG)
    except ClientError as error:
        return _report(error.message, FAILED)
    except KeyboardInterrupt:
        return _report("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader of the output has closed the pipe.
        _discard_output()
        return DONE
    except OSError as error:
        if error.filename is None:
            _discard_output()
        return _report(f"{error.filename or 'standard output'}: {error.strerror}", FAILED)
    return DONE


@app.command(help_epilogue="")
def login(
    address: Annotated[str, Parameter(help="URL of the service, such as https://export.example.org.")],
    *,
    email: Annotated[str | None, Parameter(help="Your email. Default: prompt for it.")] = None,
    api_token: Annotated[bool, Parameter(negative="", help="Sign in with an API token; prompts for it.")] = False,
    account: Annotated[str | None, Parameter(help="client_id of the API token's account.")] = None,
    plain_http: Annotated[bool, Parameter(negative="", help="Allow http:// over a network.")] = False,
) -> None:
    """Sign in and save the token.

    Prompts on a terminal, otherwise reads lines from standard input. The token is saved with
    mode 0600 in DAYBREAK_PROFILE, else ~/.config/daybreak/profile.json.
    """
    if api_token and account is None:
        raise WrongUse("Specify the account of the API token: --account CLIENT_ID.")
    with Daybreak(address, plain_http=plain_http) as service:
        if api_token:
            service.token = _prompt_secret("API token: ")
            assert account is not None
            status = _status_of(service.account(account))
            selected = account
        else:
            service.log_in(email or _prompt("Email: "), _prompt_secret("Password: "), lambda: _prompt_secret("Code: "))
            accounts = service.accounts()
            current = next((each for each in accounts if each.current), accounts[0])
            selected = current.client_id
            status = f"Selected account: {current.name}" + (
                "." if len(accounts) == 1 else f", one of {len(accounts)}. See `daybreak accounts`."
            )
        assert service.token is not None
        profiles.save(_profile_file(), Profile(service.address, service.token, selected, plain_http))
    print_note(f"Signed in to {service.address}. {status}")


@app.command(help_epilogue="")
def logout() -> None:
    """Sign out. Ends the session and its links; an API token is only removed from the profile."""
    profile = profiles.load(_profile_file())
    if profile is None:
        print_note("You are not signed in.")
        return
    if not profile.token.startswith(API_TOKEN_PREFIX):
        with _service(profile) as service:
            try:
                service.log_out()
            except Refused as refusal:
                # The session has ended already.
                if refusal.status != _UNAUTHENTICATED:
                    raise
    profiles.delete(_profile_file())


@app.command(help_epilogue="")
def accounts(*, as_json: AsJson = False) -> None:
    """List your accounts, by name."""
    profile, selected = _current_profile()
    with _service(profile) as service:
        found = service.accounts()
    if as_json:
        _print_json([{"client_id": each.client_id, "name": each.name, "roles": list(each.roles)} for each in found])
        return
    print_table(
        ("", "account", "name", "roles"),
        [
            ("*" if each.client_id == selected else "", each.client_id, each.name, ", ".join(each.roles))
            for each in found
        ],
    )


@app.command(help_epilogue="")
def use(account: Annotated[str, Parameter(help="client_id of the account, or a part of its name.")]) -> None:
    """Select the account for other commands."""
    profile = profiles.load(_profile_file())
    if profile is None:
        raise _not_signed_in()
    with _service(profile) as service:
        selected = _find_account(service.accounts(), account)
        service.account(selected.client_id)
    profiles.save(_profile_file(), replace(profile, client_id=selected.client_id))
    print_note(f"Selected account: {selected.name} ({selected.client_id}).")


@app.command(help_epilogue="")
def files(*, account: ClientId = None, as_json: AsJson = False) -> None:
    """List the files of the account and their freshness."""
    profile, selected = _current_profile(account)
    with _service(profile) as service:
        published = service.account(_required(selected)).published()
    if as_json:
        _print_json(_as_json(published))
        return
    print_table(
        ("file", "rows", "size"),
        [(file.name, f"{file.rows:,}", format_bytes(file.size_bytes)) for file in published.files],
        frozenset({"rows", "size"}),
    )
    print_note(_freshness(published))


@app.command(help_epilogue="")
def fetch(
    folder: Annotated[Path, Parameter(help="Folder of the files, created if necessary.")] = Path(),
    *,
    only: Annotated[
        list[str] | None, Parameter(negative="", help="Only this resource, such as members. Repeatable.")
    ] = None,
    format: Annotated[
        list[str] | None, Parameter(negative="", help="Format: csv (default), json, ... Repeatable.")
    ] = None,
    account: ClientId = None,
    wait: Annotated[
        str | None,
        Parameter(help="Maximum wait for late files or an unavailable service, such as 2h."),
    ] = None,
) -> None:
    """Download missing and changed files to a folder, and print their paths.

    Files are replaced only after all of them are downloaded and match their digests, so that
    an error leaves the folder unchanged. An interrupted download is resumed the next time.
    """
    profile, selected = _current_profile(account)
    max_wait_seconds = None if wait is None else _parse_duration(wait)
    with _service(profile) as service:
        account_files = service.account(_required(selected))
        if max_wait_seconds is not None:
            _wait_for_files(account_files, max_wait_seconds)
        with download_progress() as on_progress:
            fetched = account_files.fetch(folder, only or (), format or ("csv",), on_progress)
    for file in fetched.downloaded:
        print_text(str(folder / file.name))
    print_note(f"{len(fetched.downloaded)} of {len(fetched.files)} files changed. {_freshness(fetched.published)}")


@app.command(help_epilogue="")
def link(
    resource: Annotated[str, Parameter(help="Resource, such as members.")],
    format: Format = "csv",
    *,
    account: ClientId = None,
) -> None:
    """Print a signed link to a file. Anyone with the link can download the file for some minutes."""
    profile, selected = _current_profile(account)
    with _service(profile) as service:
        print_text(service.account(_required(selected)).link(resource, format))


def _wait_for_files(account_files: AccountFiles, max_wait_seconds: float) -> None:
    """Wait until today's files are published. Raises Unreachable after `max_wait_seconds`."""
    deadline = time.monotonic() + max_wait_seconds
    announced = False
    while True:
        try:
            published = account_files.published()
            late, reason, poll_seconds = published.late, published.reason or "", _POLL_SECONDS
        except NotPublished as error:
            late, reason, poll_seconds = True, error.message, error.retry_after_seconds
        except Unreachable as error:
            late, reason, poll_seconds = True, error.message, _POLL_SECONDS
        if not late:
            return
        left = deadline - time.monotonic()
        if left <= 0:
            raise Unreachable(f"Today's files are not published yet. {reason}".strip())
        if not announced:
            print_note(f"Waiting for today's files. {reason}".strip())
            announced = True
        time.sleep(min(left, poll_seconds, _POLL_SECONDS))


def _current_profile(account: str | None = None) -> tuple[Profile, str | None]:
    """Return the profile from the environment or the saved one, and the account. Raises WrongUse without any."""
    selected = account or os.environ.get("DAYBREAK_ACCOUNT")
    address, token = os.environ.get("DAYBREAK_SERVICE"), os.environ.get("DAYBREAK_TOKEN")
    if address and token:
        return Profile(address, token, selected, bool(os.environ.get("DAYBREAK_PLAIN_HTTP"))), selected
    if address or token:
        raise WrongUse("Set both DAYBREAK_SERVICE and DAYBREAK_TOKEN, or neither and run `daybreak login`.")
    profile = profiles.load(_profile_file())
    if profile is None:
        raise _not_signed_in()
    return profile, selected or profile.client_id


def _not_signed_in() -> WrongUse:
    return WrongUse("You are not signed in. Run `daybreak login URL`, or set DAYBREAK_SERVICE and DAYBREAK_TOKEN.")


def _service(profile: Profile) -> Daybreak:
    return Daybreak(profile.address, profile.token, plain_http=profile.plain_http)


def _required(client_id: str | None) -> str:
    if client_id is None:
        raise WrongUse("Specify the account with --account CLIENT_ID or DAYBREAK_ACCOUNT.")
    return client_id


def _find_account(known: Sequence[Account], text: str) -> Account:
    """Return the account with that id, or with that text in its name. Raises WrongUse."""
    wanted = text.casefold()
    exact = [each for each in known if wanted in {each.client_id, each.name.casefold()}]
    found = exact or [each for each in known if wanted in each.name.casefold()]
    if len(found) != 1:
        names = ", ".join(f"{each.name} ({each.client_id})" for each in (found or known)[:10])
        problem = "Several accounts have" if found else "No account has"
        raise WrongUse(f"{problem} {text!r} in the name. Use one of: {names}.")
    return found[0]


def _status_of(account_files: AccountFiles) -> str:
    """Return the freshness of the files, which also verifies the token. Raises Refused."""
    try:
        return _freshness(account_files.published())
    except NotPublished as error:
        return error.message


def _freshness(published: PublishedSnapshot) -> str:
    as_of = f"Data as of {published.as_of:%Y-%m-%d %H:%M} UTC"
    if published.late:
        return f"{as_of}. New files are late. {published.reason or ''}".strip()
    return f"{as_of}, next files expected at {published.next_expected_at:%Y-%m-%d %H:%M} UTC."


def _as_json(published: PublishedSnapshot) -> dict[str, object]:
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


def _print_json(value: Any) -> None:
    print_text(json.dumps(value))


def _parse_duration(text: str) -> float:
    found = re.fullmatch(r"([0-9]+)([smh])", text)
    if found is None:
        raise WrongUse(f"--wait: {text!r} is not a duration. Use one such as 90s, 30m or 2h.")
    return int(found[1]) * _SECONDS[found[2]]


def _prompt(prompt: str) -> str:
    """Read a line, with a prompt on a terminal."""
    if sys.stdin.isatty():
        sys.stderr.write(prompt)
        sys.stderr.flush()
    return sys.stdin.readline().rstrip("\r\n")


def _prompt_secret(prompt: str) -> str:
    """Read a line without echo."""
    return getpass.getpass(prompt) if sys.stdin.isatty() else _prompt(prompt)


def _profile_file() -> Path:
    return profiles.profile_file(os.environ)


def _discard_output() -> None:
    """Redirect buffered output to the null device."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(text: str, code: int) -> int:
    print_note(f"daybreak: {text}")
    return code


if __name__ == "__main__":
    main()
