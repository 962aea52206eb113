"""Handler of the operator's page of accounts and seats."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict

from starlette.responses import Response

from daybreak.domain.identity import Account, Grant
from daybreak.ports.access_stores import Directory
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest

_MAXIMUM_QUERY_LENGTH = 100
_ROWS_SHOWN = 100


async def show_directory(page: PageRequest) -> Response:
    """Show the accounts and seats that match the search, with their grants."""
    query = page.request.query_params.get("q", "").strip()[:_MAXIMUM_QUERY_LENGTH]
    # Run in threads: there may be 100,000 accounts.
    directory = await asyncio.to_thread(page.dashboard.services.state.read, lambda stores: stores.directory.load())
    context = await asyncio.to_thread(_directory_context, directory, query.casefold())
    return render_page(page, "operator/directory.html", "people", {"query": query, **context})


def _directory_context(directory: Directory, query: str) -> dict[str, object]:
    emails = {seat.seat_id: seat.email for seat in directory.seats}
    grants: defaultdict[str, list[Grant]] = defaultdict(list)
    for grant in directory.grants:
        grants[grant.client_id].append(grant)
    account_counts = Counter(grant.seat_id for grant in directory.grants)

    def matches(account: Account) -> bool:
        users = (emails.get(grant.seat_id, "") for grant in grants[account.client_id])
        return any(query in text.casefold() for text in (account.name, account.client_id, *users))

    accounts = sorted(filter(matches, directory.accounts), key=lambda account: account.name.casefold())
    seats = [seat for seat in directory.seats if query in seat.email.casefold() or query in seat.seat_id]
    return {
        "total_accounts": len(directory.accounts),
        "total_seats": len(directory.seats),
        "accounts": [
            {
                "account": account,
                "grants": [(emails.get(grant.seat_id, ""), grant) for grant in grants[account.client_id]],
            }
            for account in accounts[:_ROWS_SHOWN]
        ],
        "seats": [{"seat": seat, "accounts": account_counts[seat.seat_id]} for seat in seats[:_ROWS_SHOWN]],
        "matching_accounts": len(accounts),
        "matching_seats": len(seats),
    }
