"""Work on several accounts: an error of one account does not stop the others."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from daybreak_client.command.freshness import Wait
from daybreak_client.command.options import Accounts, Mode
from daybreak_client.command.output import print_note
from daybreak_client.command.sign_in import connect, current_profile, selected_account
from daybreak_client.errors import LEFT_OVER, ClientError, WrongUse
from daybreak_client.service import AccountFiles, Daybreak


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
