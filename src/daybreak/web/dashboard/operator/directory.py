"""Handlers of the operator's lists of accounts and of seats."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TypeVar

from starlette.responses import Response

from daybreak.domain.identity import Account, Grant
from daybreak.state.directory import Directory
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.paging import Slice, slice_of

T = TypeVar("T")

_MAXIMUM_QUERY_LENGTH = 100
_PAGE_LENGTH = 50


async def list_accounts(page: PageRequest) -> Response:
    """List the accounts that match the search, with the permissions of their seats."""
    query = _query(page)
    # Run in threads: there may be 100,000 accounts.
    directory = await load_directory(page)
    context = await page.run_task(lambda: _accounts_context(page, directory, query)) | await _sync_context(page)
    return render_page(page, "operator/accounts.html", {"query": query, **context})


async def list_seats(page: PageRequest) -> Response:
    """List the seats that match the search."""
    query = _query(page)
    directory = await load_directory(page)
    context = await page.run_task(lambda: _seats_context(page, directory, query)) | await _sync_context(page)
    return render_page(page, "operator/seats.html", {"query": query, **context})


async def load_directory(page: PageRequest) -> Directory:
    """Read all accounts, seats and grants."""
    return await page.run_task(lambda: page.dashboard.services.state.read(lambda stores: stores.directory.load()))


async def _sync_context(page: PageRequest) -> dict[str, object]:
    """Return the status of the synchronization with the platform, None without one."""
    return {"sync": await page.dashboard.services.state.aread(lambda stores: stores.directory.sync_status())}


def _accounts_context(page: PageRequest, directory: Directory, query: str) -> dict[str, object]:
    emails = {seat.seat_id: seat.email for seat in directory.seats}
    grants: defaultdict[str, list[Grant]] = defaultdict(list)
    for grant in directory.grants:
        grants[grant.client_id].append(grant)
    words = query.casefold().split()

    def matches(account: Account) -> bool:
        users = (emails.get(grant.seat_id, "") for grant in grants[account.client_id])
        text = " ".join((account.name, account.phone_number, account.client_id, *users)).casefold()
        return all(word in text for word in words)

    accounts = sorted(filter(matches, directory.accounts), key=lambda account: account.sort_key)
    shown = _slice(page, accounts, "people", query)
    return {
        **_totals(directory),
        "slice": shown,
        "accounts": [
            {
                "account": account,
                "grants": [(emails.get(grant.seat_id, ""), grant) for grant in grants[account.client_id]],
            }
            for account in shown.items
        ],
    }


def _seats_context(page: PageRequest, directory: Directory, query: str) -> dict[str, object]:
    account_counts = Counter(grant.seat_id for grant in directory.grants)
    words = query.casefold().split()
    seats = [
        seat for seat in directory.seats if all(word in seat.email.casefold() or word in seat.seat_id for word in words)
    ]
    shown = _slice(page, seats, "seats", query)
    return {
        **_totals(directory),
        "slice": shown,
        "seats": [{"seat": seat, "accounts": account_counts[seat.seat_id]} for seat in shown.items],
    }


def _totals(directory: Directory) -> dict[str, object]:
    return {"total_accounts": len(directory.accounts), "total_seats": len(directory.seats)}


def _slice(page: PageRequest, items: Sequence[T], path: str, query: str) -> Slice[T]:
    return slice_of(page, items, _PAGE_LENGTH, lambda number: page.url(path, q=query, page=number))


def _query(page: PageRequest) -> str:
    return page.request.query_params.get("q", "").strip()[:_MAXIMUM_QUERY_LENGTH]
