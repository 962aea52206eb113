"""Selection of accounts: search for the switcher, and the default account."""

from __future__ import annotations

from urllib.parse import urlencode

from daybreak.access.authorization import account_fault
from daybreak.domain.identity import GrantedAccount, ResolvedSession, SecondFactorPolicy
from daybreak.web.dashboard.page_request import PageRequest

SWITCHER_LENGTH = 8

_SECTION_PATHS = {
    "files": "files",
    "insight": "insight",
    "activity": "activity",
    "tokens": "settings/tokens",
    "security": "settings/security",
}


def switcher_context(
    page: PageRequest, current_id: str, query: str, section: str, *, limit: int = SWITCHER_LENGTH
) -> dict[str, object]:
    """Return template variables for the first `limit` accounts that match the search.

    Each account links to the current section.
    """
    root = page.dashboard.root
    path = _SECTION_PATHS.get(section, "files")
    words = query.casefold().split()
    matches = [entry for entry in page.accounts if _matches(entry, words)]
    accounts_url = f"{root}/dashboard/{current_id}/accounts"
    return {
        "switcher_accounts": [
            {
                "name": entry.account.name,
                "phone_number": entry.account.phone_number,
                "active": entry.account.active,
                "data_export": entry.grant.data_export,
                "current": entry.account.client_id == current_id,
                "url": f"{root}/dashboard/{entry.account.client_id}/{path}",
            }
            for entry in matches[:limit]
        ],
        "more_accounts": max(0, len(matches) - limit),
        "accounts_url": accounts_url,
        "all_accounts_url": f"{accounts_url}?{urlencode({'q': query, 'section': section})}",
        "as_grid": False,
    }


def default_account_id(
    resolved: ResolvedSession, accounts: tuple[GrantedAccount, ...], policy: SecondFactorPolicy
) -> str | None:
    """Return the account to open after sign-in: the one used last, else the first by name.

    Return None if the session cannot open any of them.
    """
    session, last_id = resolved.session, resolved.seat.last_client_id
    open_ids = [
        entry.account.client_id
        for entry in accounts
        if account_fault(entry.account.status, entry.grant, session, policy) is None
    ]
    if last_id in open_ids:
        return last_id
    return open_ids[0] if open_ids else None


def _matches(entry: GrantedAccount, words: list[str]) -> bool:
    text = f"{entry.account.name} {entry.account.phone_number} {entry.account.client_id}".casefold()
    return all(word in text for word in words)
