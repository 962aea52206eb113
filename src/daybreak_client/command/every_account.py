"""Work on several accounts, and waits for the service and for the files of the day. An error of one account does not
stop the others."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from daybreak_client.command.options import Accounts, Mode
from daybreak_client.command.output import print_note
from daybreak_client.command.profile import connect, current_profile, selected_account
from daybreak_client.errors import LEFT_OVER, ClientError, Expired, Late, NotPublished, Unreachable, WrongUse
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
class Outcome:
    """Results as JSON values, in the order of the accounts, and the exit code of the first error."""

    results: tuple[dict[str, object], ...]
    exit_code: int


@dataclass(frozen=True, slots=True)
class Selection:
    """Names of the selected accounts by client_id. `all_accounts`: all accounts of the user, even if it is one."""

    names: dict[str, str]
    all_accounts: bool


@contextmanager
def signed_in(accounts: Accounts, wait: Wait | None = None) -> Iterator[tuple[Daybreak, Selection]]:
    """Yield the service and the selected accounts. Raises WrongUse, Refused, Unreachable."""
    if accounts.all_accounts and accounts.account is not None:
        raise WrongUse("Use --account or --all-accounts, not both.")
    if accounts.prune and not accounts.all_accounts:
        raise WrongUse("--prune needs --all-accounts, because it removes the accounts that are not among them.")
    profile = current_profile(accounts)
    with connect(profile) as service:
        if accounts.all_accounts:
            found = (wait or Wait()).for_service(service.accounts)
            if accounts.prune and not found:
                raise WrongUse("The service lists no account. Nothing is removed. Contact its operator.")
            yield service, Selection({each.client_id: each.name for each in found}, all_accounts=True)
        else:
            client_id = selected_account(accounts, profile)
            yield service, Selection({client_id: client_id}, all_accounts=False)


def for_each_account(
    service: Daybreak, selection: Selection, work: Callable[[AccountFiles], dict[str, object]], wait: Wait | None = None
) -> Outcome:
    """Do the work for each account. If one account was selected, its error is raised."""
    wait = wait or Wait()
    results: list[dict[str, object]] = []
    exit_code = 0
    for client_id, name in selection.names.items():
        try:
            results.append(work(wait.for_service(partial(service.account, client_id))))
        except (ClientError, OSError) as error:
            # An OSError without a file name is one of standard output, which all accounts share.
            if not selection.all_accounts or (isinstance(error, OSError) and error.filename is None):
                raise
            message = error.message if isinstance(error, ClientError) else f"{error.filename}: {error.strerror}"
            print_note(f"daybreak: {name} ({client_id}): {message}")
            code = getattr(error, "code", type(error).__name__)
            results.append({"client_id": client_id, "error": {"code": code, "message": message}})
            exit_code = exit_code or getattr(error, "exit_code", ClientError.exit_code)
    return Outcome(tuple(results), exit_code)


@dataclass(frozen=True, slots=True)
class LeftOver:
    """Accounts that the user can no longer access, but whose data is in a `place`. `remove` receives a client_id."""

    place: str
    remove: Callable[[str], None]

    def handle(
        self, outcome: Outcome, found: frozenset[str], selection: Selection, accounts: Accounts, mode: Mode
    ) -> Outcome:
        """Name them, or remove them with `--prune`. Returns the outcome with them."""
        results, exit_code = list(outcome.results), outcome.exit_code
        for client_id in sorted(found - selection.names.keys()):
            if not accounts.prune:
                message = (
                    f"You can no longer access this account, and {self.place} still contains its data. Remove it with "
                    "--prune."
                )
                print_note(f"daybreak: {client_id}: {message}")
                results.append({"client_id": client_id, "error": {"code": "account_left_over", "message": message}})
                exit_code = exit_code or LEFT_OVER
                continue
            if not mode.dry_run:
                self.remove(client_id)
            if not mode.quiet:
                print_note(f"{client_id}: {'would be ' if mode.dry_run else ''}removed from {self.place}.")
            results.append({"client_id": client_id, "removed": not mode.dry_run})
        return Outcome(tuple(results), exit_code)
