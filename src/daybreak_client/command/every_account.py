"""Work on several accounts: an error of one account does not stop the others."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from daybreak_client.command.options import Accounts
from daybreak_client.command.output import print_note
from daybreak_client.command.sign_in import connect, current_profile, selected_account
from daybreak_client.errors import ClientError, WrongUse
from daybreak_client.service import AccountFiles, Daybreak


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results as JSON values, in the order of the accounts, and the exit code of the first error."""

    results: tuple[dict[str, object], ...]
    exit_code: int


@contextmanager
def signed_in(accounts: Accounts) -> Iterator[tuple[Daybreak, dict[str, str]]]:
    """Yield the service, and the names of the selected accounts by client_id. Raises WrongUse, Refused, Unreachable."""
    if accounts.all_accounts and accounts.account is not None:
        raise WrongUse("Use --account or --all-accounts, not both.")
    profile = current_profile(accounts)
    with connect(profile) as service:
        if accounts.all_accounts:
            yield service, {each.client_id: each.name for each in service.accounts()}
        else:
            client_id = selected_account(accounts, profile)
            yield service, {client_id: client_id}


def for_each_account(
    service: Daybreak, names: dict[str, str], work: Callable[[AccountFiles], dict[str, object]]
) -> Outcome:
    """Do the work for each account. With one account, its error is raised."""
    if len(names) == 1:
        (client_id,) = names
        return Outcome((work(service.account(client_id)),), 0)
    results: list[dict[str, object]] = []
    exit_code = 0
    for client_id, name in names.items():
        try:
            results.append(work(service.account(client_id)))
        except ClientError as error:
            print_note(f"daybreak: {name} ({client_id}): {error.message}")
            code = getattr(error, "code", type(error).__name__)
            results.append({"client_id": client_id, "error": {"code": code, "message": error.message}})
            exit_code = exit_code or error.exit_code
    return Outcome(tuple(results), exit_code)
