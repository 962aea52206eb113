"""Search of accounts, for the switcher."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from urllib.parse import urlencode

from daybreak.domain.identity import GrantedAccount
from daybreak.web.dashboard.page_request import PageRequest

SWITCHER_LENGTH = 8

_SECTION_PATHS = {
    "files": "files",
    "insight": "insight",
    "activity": "activity",
    "connect": "connect",
    "tokens": "settings/tokens",
    "webhooks": "settings/webhooks",
    "notifications": "settings/notifications",
    "display": "settings/display",
    "security": "settings/security",
}


def switcher_context(page: PageRequest, current_id: str, query: str, section: str) -> dict[str, object]:
    """Return template variables of the switcher: the first accounts that match the search."""
    matches = matching_accounts(page, query)
    return {
        **switcher_urls(page, current_id, query, section),
        "switcher_accounts": account_views(page, matches[:SWITCHER_LENGTH], current_id, section),
        "more_accounts": max(0, len(matches) - SWITCHER_LENGTH),
    }


def switcher_urls(page: PageRequest, current_id: str, query: str, section: str) -> dict[str, object]:
    """Return the URL of the account list, and the one that shows all accounts that match the search."""
    accounts_url = f"{page.dashboard.root}/dashboard/{current_id}/accounts"
    search = urlencode({"q": query, "section": section})
    return {"accounts_url": accounts_url, "all_accounts_url": f"{accounts_url}?{search}"}


def account_path(section: str) -> str:
    """Return the path of a section on an account, that of Files for a section that accounts do not have."""
    return _SECTION_PATHS.get(section, "files")


def matching_accounts(page: PageRequest, query: str) -> list[GrantedAccount]:
    """Return the accounts of the seat whose name, number or id contain every word."""
    words = folded(query).split()
    return [entry for entry in page.accounts if _matches(entry, words)]


def account_views(
    page: PageRequest, entries: Sequence[GrantedAccount], current_id: str, section: str
) -> list[dict[str, object]]:
    """Return list items of accounts. Each links to the current section."""
    path = account_path(section)
    return [
        {
            "name": entry.account.name,
            "phone_number": entry.account.phone_number,
            "active": entry.account.active,
            "data_export": entry.grant.data_export,
            "current": entry.account.client_id == current_id,
            "url": f"{page.dashboard.root}/dashboard/{entry.account.client_id}/{path}",
        }
        for entry in entries
    ]


def _matches(entry: GrantedAccount, words: list[str]) -> bool:
    text = f"{entry.account.name} {entry.account.phone_number} {entry.account.client_id}"
    return all(word in folded(text) for word in words)


def folded(text: str) -> str:
    """Return text for searches: without case and accents."""
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(character for character in decomposed if not unicodedata.combining(character)).casefold()
