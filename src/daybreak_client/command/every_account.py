"""Work on several accounts, and waits for the service and for the files of the day. An error of one account does not
stop the others."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeVar

from daybreak_client.command.options import Accounts, Mode
from daybreak_client.command.output import print_json, print_note
from daybreak_client.command.profile import connect, current_profile, selected_account
from daybreak_client.errors import (
    LEFT_OVER,
    ClientError,
    Expired,
    Late,
    NotPublished,
    Refused,
    Unreachable,
    WrongUse,
)
from daybreak_client.service import AccountFiles, Daybreak

T = TypeVar("T")
_POLL_SECONDS = 60.0


class Wait:
    """Waits for an unavailable service and for late files until `seconds` have passed. Announces each of them once."""

    def __init__(self, seconds: float = 0.0, announce: Callable[[str], None] = print_note) -> None:
        self._deadline = time.monotonic() + seconds
        self._announce = announce
        self._announced: set[type[ClientError]] = set()

    def for_service(self, request: Callable[[], T]) -> T:
        """Return the result of a request, which is repeated while the service is unavailable. Raises Unreachable."""
        while True:
            try:
                return request()
            except Unreachable as error:
                self._pause(error, f"Waiting for the service. {error.message}", _POLL_SECONDS)

    def for_files(self, account_files: AccountFiles) -> None:
        """Return when the files of the day are published. Raises Late, Unreachable."""
        while True:
            try:
                published = self.for_service(account_files.published)
                if not published.late:
                    return
                reason, poll_seconds = published.reason or "", _POLL_SECONDS
            except NotPublished as error:
                reason, poll_seconds = error.message, error.retry_after_seconds
            except Expired as error:
                reason, poll_seconds = error.message, _POLL_SECONDS
            late = Late(f"Today's files are not published yet. {reason}".strip())
            self._pause(late, f"Waiting for today's files. {reason}".strip(), poll_seconds)

    def _pause(self, problem: ClientError, announcement: str, poll_seconds: float) -> None:
        """Sleep until the next attempt. Raises the problem after the deadline."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise problem
        if type(problem) not in self._announced:
            self._announced.add(type(problem))
            self._announce(announcement)
        time.sleep(min(left, poll_seconds, _POLL_SECONDS))


@dataclass(frozen=True, slots=True)
class LeftOver:
    """Data of accounts that the user can no longer access, in a `place`.

    `find` returns the client_ids of the accounts of a service with data there; `remove` receives one.
    """

    place: str
    find: Callable[[Daybreak], frozenset[str]]
    remove: Callable[[str], None]


def run_for_accounts(
    accounts: Accounts,
    mode: Mode,
    work: Callable[[AccountFiles], dict[str, object]],
    left_over: LeftOver,
    wait: Wait | None = None,
) -> int:
    """Do the work for the selected accounts, and print what it returns as JSON with `--json`.

    With `--all-accounts`, accounts that are left over are named, or removed with `--prune`. Returns the exit code of
    the first error. If one account was selected, its error is raised.
    """
    if accounts.all_accounts and accounts.account is not None:
        raise WrongUse("Use --account or --all-accounts, not both.")
    if accounts.prune and not accounts.all_accounts:
        raise WrongUse("--prune needs --all-accounts, because it removes the accounts that are not among them.")
    wait, outcome, profile = wait or Wait(), _Outcome(), current_profile(accounts)
    with connect(profile) as service:
        if accounts.all_accounts:
            listed = wait.for_service(service.accounts)
            if accounts.prune and not listed:
                raise WrongUse("The service lists no account. Nothing is removed. Contact its operator.")
            names = {each.client_id: each.name for each in listed}
            for client_id, name in names.items():
                with outcome.recorded_errors(client_id, name):
                    outcome.results.append(work(_account(service, client_id, wait)))
                if outcome.signed_out:
                    print_note("daybreak: The remaining accounts are left out.")
                    break
            for client_id in sorted(left_over.find(service) - names.keys()):
                outcome.add_left_over(left_over, client_id, accounts, mode)
        else:
            outcome.results.append(work(_account(service, selected_account(accounts, profile), wait)))
    if mode.as_json:
        print_json(outcome.results if accounts.all_accounts else outcome.results[0])
    return outcome.exit_code


def _account(service: Daybreak, client_id: str, wait: Wait) -> AccountFiles:
    return wait.for_service(lambda: service.account(client_id))


@dataclass(slots=True)
class _Outcome:
    """Results as JSON values, in the order of the accounts, and the exit code of the first error.

    `signed_out`: the service no longer accepts the token, whatever the account.
    """

    results: list[dict[str, object]] = field(default_factory=list)
    exit_code: int = 0
    signed_out: bool = False

    @contextmanager
    def recorded_errors(self, client_id: str, name: str) -> Iterator[None]:
        """Print and record an error of an account. One of standard output, which all accounts share, is raised."""
        try:
            yield
        except (ClientError, OSError) as error:
            if isinstance(error, OSError) and error.filename is None:
                raise
            message = error.message if isinstance(error, ClientError) else f"{error.filename}: {error.strerror}"
            code = getattr(error, "code", type(error).__name__)
            exit_code = getattr(error, "exit_code", ClientError.exit_code)
            self._fail(client_id, f"{name} ({client_id})", code, message, exit_code)
            self.signed_out = isinstance(error, Refused) and error.status == HTTPStatus.UNAUTHORIZED

    def add_left_over(self, left_over: LeftOver, client_id: str, accounts: Accounts, mode: Mode) -> None:
        """Name an account that is left over, or remove it with `--prune`."""
        if not accounts.prune:
            message = (
                f"You can no longer access this account, and {left_over.place} still contains its data. Remove it "
                "with --prune."
            )
            self._fail(client_id, client_id, "account_left_over", message, LEFT_OVER)
            return
        if not mode.dry_run:
            left_over.remove(client_id)
        if not mode.quiet:
            print_note(f"{client_id}: {'would be ' if mode.dry_run else ''}removed from {left_over.place}.")
        self.results.append({"client_id": client_id, "removed": not mode.dry_run})

    def _fail(self, client_id: str, shown: str, code: str, message: str, exit_code: int) -> None:
        print_note(f"daybreak: {shown}: {message}")
        self.results.append({"client_id": client_id, "error": {"code": code, "message": message}})
        self.exit_code = self.exit_code or exit_code
