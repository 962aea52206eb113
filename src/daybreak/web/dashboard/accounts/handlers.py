"""Handlers of the account list, the account switcher and the command palette."""

import unicodedata
from collections.abc import Sequence

from starlette.responses import JSONResponse, Response

from daybreak.access import api_tokens
from daybreak.catalogue.resources import RESOURCES
from daybreak.domain.errors import Forbidden
from daybreak.domain.identity import GrantedAccount
from daybreak.web.dashboard.formatting import format_name
from daybreak.web.dashboard.page_layout import account_path, render_page
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.paging import slice_of
from daybreak.web.dashboard.rendering import is_partial, render_template

_MAXIMUM_QUERY_LENGTH = 100
_PAGE_LENGTH = 60
_SWITCHER_LENGTH = 8
_COMMAND_ACCOUNTS = 12


async def list_accounts(page: PageRequest) -> Response:
    """Show the accounts that match the search, as a page or as a partial for the switcher."""
    query, section = _query(page), page.request.query_params.get("section", "files")
    matches = await _matching_accounts(page, query)
    context: dict[str, object] = {"path": account_path(section), "current_id": page.client_id}
    if is_partial(page):
        more = max(0, len(matches) - _SWITCHER_LENGTH)
        context |= {"entries": matches[:_SWITCHER_LENGTH], "more_accounts": more, "as_grid": False}
        return render_template(page, "accounts/list.html", context)
    search = {"q": query, "section": section}
    shown = slice_of(page, matches, _PAGE_LENGTH, lambda number: page.url("accounts", **search, page=number))
    context |= {"entries": shown.items, "more_accounts": 0, "as_grid": True}
    return render_page(page, "accounts/page.html", {**context, "slice": shown, "query": query, "section": section})


async def list_commands(page: PageRequest) -> Response:
    """Return the actions, files and accounts that match the search of the command palette, as JSON."""
    query, section = _query(page), page.request.query_params.get("section", "files")
    words = _folded(query).split()
    files = [_item("File", each.title, each.name, page.url(f"files/{each.name}/preview")) for each in RESOURCES]
    found = [
        each
        for each in [*await _actions(page), *files]
        if all(word in _folded(" ".join((each["label"], each["detail"], each["kind"]))) for word in words)
    ]
    path = account_path(section)
    accounts = [
        _item(
            "Account",
            format_name(entry.account.name),
            entry.account.phone_number,
            f"{page.dashboard.root}/dashboard/{entry.account.client_id}/{path}",
        )
        for entry in (await _matching_accounts(page, query))[:_COMMAND_ACCOUNTS]
    ]
    return JSONResponse({"items": [*found, *accounts]}, headers={"Cache-Control": "no-store"})


def _item(kind: str, label: str, detail: str, url: str) -> dict[str, str]:
    return {"kind": kind, "label": label, "detail": detail, "url": url}


async def _actions(page: PageRequest) -> list[dict[str, str]]:
    """Return the actions that the user may begin. Each opens its page, which asks to confirm."""
    actions = [_item("Action", "Sign out everywhere", "", page.url("settings/security/sign-out-everywhere"))]
    if page.has_password:
        actions.append(_item("Action", "Change password", "", page.url("settings/security") + "#password-title"))
    if page.seat.operator:
        actions.append(_item("Action", "Run now", "Operator", page.operator_url("runs")))
    try:
        tokens = await api_tokens.list_of_account(page.services, page.principal)
    except Forbidden:
        return actions
    actions.append(_item("Action", "Create API token", "", page.url("settings/tokens/new")))
    for token in tokens:
        if token.state_at(page.now) == "live":
            url = page.url(f"settings/tokens/{token.token_id}/revoke")
            detail = f"API token \N{HORIZONTAL ELLIPSIS}{token.last_four}"
            actions.append(_item("Action", f"Revoke {format_name(token.name)}", detail, url))
    return actions


async def _matching_accounts(page: PageRequest, query: str) -> Sequence[GrantedAccount]:
    """Return the accounts of the seat whose name, number or id contain every word, by name."""
    accounts, words = await page.services.granted_accounts(page.seat.seat_id), _folded(query).split()

    def matches(entry: GrantedAccount) -> bool:
        text = _folded(f"{entry.account.name} {entry.account.phone_number} {entry.account.client_id}")
        return all(word in text for word in words)

    if not words:
        return accounts
    return await page.services.run_without_blocking(
        page.seat.seat_id, len(accounts), lambda: list(filter(matches, accounts))
    )


def _folded(text: str) -> str:
    """Return text for searches: without case and accents."""
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(character for character in decomposed if not unicodedata.combining(character)).casefold()


def _query(page: PageRequest) -> str:
    return page.request.query_params.get("q", "")[:_MAXIMUM_QUERY_LENGTH]
