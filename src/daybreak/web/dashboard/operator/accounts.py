"""Handlers of the operator's pages of accounts: lists of accounts, seats and consumers, API tokens, permissions."""

from collections import Counter, defaultdict
from collections.abc import Callable

from starlette.responses import Response

from daybreak.access import passwords
from daybreak.access.directory import changes
from daybreak.access.operators import find_seat
from daybreak.domain.email_address import MAX_EMAIL_LENGTH
from daybreak.domain.errors import InvalidRequest, OperatorError
from daybreak.domain.identity import ROLES, Account, Grant, Seat
from daybreak.state.consumers import Consumer, ConsumerCounts
from daybreak.state.directory import Directory
from daybreak.state.stores import Stores
from daybreak.web.dashboard.operator.seats import invite_seat, load_ending, load_live_tokens, requested_seat
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.paging import Slice, requested_page, slice_at, slice_of, start_of_page
from daybreak.web.dashboard.rendering import SUCCESS, PageOutcome, invalid_field

_PERMISSIONS = ("role", "data_export", "async_rest_api")
_NEW_GRANT = {"email": "", "role": "analyst", "data_export": "yes"}
_MAXIMUM_QUERY_LENGTH = 100
_PAGE_LENGTH = 50


async def show_account(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
    account = await _requested_account(page)
    path = f"accounts/{account.client_id}"
    grants = await page.read_long(lambda stores: stores.seats.list_on_account(account.client_id))
    context: dict[str, object] = {
        "item": account,
        "roles": ROLES,
        "values": page.fields if "email" in page.fields else _NEW_GRANT,
        "grants": slice_of(page, grants, _PAGE_LENGTH, lambda number: page.url(path, page=number)),
        "can_invite": passwords.is_available(page.services.settings),
    }
    return render_page(page, "operator/account.html", context, outcome)


async def load_tokens(page: PageRequest) -> dict[str, object]:
    """Return the variables of the page that asks to confirm that the API tokens of an account are turned off."""
    account = await _requested_account(page)
    return {"item": account, **await load_live_tokens(page, client_id=account.client_id)}


async def set_api_tokens(page: PageRequest, *, enabled: bool) -> Response:
    account, actor = await _requested_account(page), page.seat.email
    return await _change(
        page,
        account,
        lambda stores: changes.set_api_tokens_enabled(stores, account, page.now, enabled=enabled, actor=actor),
        "api-tokens-on" if enabled else "api-tokens-off",
    )


async def put_grant(page: PageRequest) -> Response | PageOutcome:
    """Add the permissions of a seat on an account, or change them. A person without a seat can be invited."""
    form, account = page.form, await _requested_account(page)
    email, invites = form.get("email", "").strip()[: MAX_EMAIL_LENGTH + 1], form.get("invite") == "yes"
    new_seat = Seat(page.services.new_id(), email, None)

    def work(stores: Stores) -> Seat | None:
        """Return the seat if it would lose a permission, which needs a confirmation."""
        if invites and stores.seats.by_email(email) is None:
            changes.add_seat(stores, new_seat, page.now, actor=page.seat.email)
            invite_seat(stores, new_seat, page)
        seat = find_seat(stores, email)
        grant = _requested_grant(page, account, seat)
        if _reduced_by(grant, seat, stores) is not None:
            return seat
        changes.put_grant(stores, seat, grant, page.now, actor=page.seat.email)
        return None

    try:
        reduced = await page.run_task(lambda: page.services.state.write(work))
    except OperatorError as error:
        return invalid_field("email", error.message)
    if reduced is not None:
        wanted = {name: form[name] for name in _PERMISSIONS if name in form}
        return page.redirect(f"accounts/{account.client_id}/grants/{reduced.seat_id}/reduce", **wanted)
    return page.redirect(f"accounts/{account.client_id}", done="grant-invited" if invites else "grant-saved")


async def load_grant(page: PageRequest) -> dict[str, object]:
    """Return the variables of the page that asks to confirm the removal of a grant: what ends, and for whom."""
    account, seat = await _requested_account(page), await requested_seat(page)
    return {"item": account, "holder": seat, **await load_ending(page, seat, account.client_id)}


async def load_reduced_grant(page: PageRequest) -> dict[str, object] | Response:
    """Return the variables of the page that asks to confirm fewer permissions: also those before and after. Return to
    the account if none would be lost.
    """
    account, seat = await _requested_account(page), await requested_seat(page)
    grant = _requested_grant(page, account, seat)
    before = await page.read(lambda stores: _reduced_by(grant, seat, stores))
    if before is None:
        return page.redirect(f"accounts/{account.client_id}", done="grant-differs")
    return {**await load_grant(page), "before": before, "grant": grant, "permissions": _PERMISSIONS}


async def reduce_grant(page: PageRequest) -> Response:
    """Replace the permissions of the seat in the path on the account by fewer."""
    account, seat = await _requested_account(page), await requested_seat(page)
    grant, actor = _requested_grant(page, account, seat), page.seat.email

    def work(stores: Stores) -> None:
        # Another operator may have changed them since the page was opened.
        if _reduced_by(grant, seat, stores) is None:
            raise OperatorError("The seat would not lose a permission.")
        changes.put_grant(stores, seat, grant, page.now, actor=actor)

    return await _change(page, account, work, "grant-saved")


def _reduced_by(grant: Grant, seat: Seat, stores: Stores) -> Grant | None:
    """Return the present permissions of the seat if the grant lacks one of them, None otherwise."""
    before = changes.grant_of(stores, seat, grant.client_id)
    return before if before is not None and before.exceeds(grant) else None


async def remove_grant(page: PageRequest) -> Response:
    account, seat, actor = await _requested_account(page), await requested_seat(page), page.seat.email
    client_id = account.client_id

    def work(stores: Stores) -> None:
        changes.remove_grant(stores, seat, client_id, page.now, actor=actor)
        if seat.seat_id == page.seat.seat_id and stores.seats.initial_account(seat) is None:
            raise OperatorError("You can't remove your own access to your last account: you could no longer sign in.")

    return await _change(page, account, work, "grant-removed")


async def _change(page: PageRequest, account: Account, work: Callable[[Stores], object], done: str) -> Response:
    await page.run_task(lambda: page.services.state.write(work))
    return page.redirect(f"accounts/{account.client_id}", done=done)


def _requested_grant(page: PageRequest, account: Account, seat: Seat) -> Grant:
    """Return the permissions that a form or a query names. Raises InvalidRequest."""
    role, chosen = page.fields.get("role", ""), page.fields.get
    if role not in ROLES:
        raise InvalidRequest(f"Choose a role: {', '.join(ROLES)}.")
    exports, calls = chosen("data_export") == "yes", chosen("async_rest_api") == "yes"
    return Grant(seat.seat_id, account.client_id, (role,), data_export=exports, async_rest_api=calls)


async def _requested_account(page: PageRequest) -> Account:
    client_id = page.request.path_params["account_id"]
    return await page.find(lambda stores: stores.directory.account(client_id), "No such account.")


async def list_accounts(page: PageRequest) -> Response:
    """List the accounts that match the search, with the permissions of their seats."""
    return await _list(page, "operator/accounts.html", _accounts_context)


async def list_seats(page: PageRequest) -> Response:
    """List the seats that match the search."""
    return await _list(page, "operator/seats.html", _seats_context)


async def _list(
    page: PageRequest, template: str, context_of: Callable[[PageRequest, Directory, str], dict[str, object]]
) -> Response:
    query = page.request.query_params.get("q", "").strip()[:_MAXIMUM_QUERY_LENGTH]
    # Run in threads: there may be 100,000 accounts.
    directory = await page.read_long(lambda stores: stores.directory.load())
    found = await page.run_task(lambda: context_of(page, directory, query))
    context = {
        "query": query,
        "total_accounts": len(directory.accounts),
        "total_seats": len(directory.seats),
        "sync": await page.read(lambda stores: stores.directory.sync_status()),
    }
    return render_page(page, template, {**context, **found})


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
    shown = slice_of(page, accounts, _PAGE_LENGTH, lambda number: page.url("people", q=query, page=number))
    return {
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
    shown = slice_of(page, seats, _PAGE_LENGTH, lambda number: page.url("seats", q=query, page=number))
    return {"slice": shown, "seats": [{"seat": seat, "accounts": account_counts[seat.seat_id]} for seat in shown.items]}


async def list_consumers(page: PageRequest) -> Response:
    """List the API tokens in use, those that were not used for longest first, and how far they are behind."""
    number = requested_page(page)

    def url(other: str) -> str:
        return page.url("consumers", page=other)

    def read(stores: Stores) -> tuple[ConsumerCounts, Slice[Consumer], dict[str, int]]:
        versions = {each.snapshot_id: each.version for each in stores.snapshots.served() if each.version is not None}
        counts = stores.consumers.counts(page.now)
        start = start_of_page(number, counts.tokens, _PAGE_LENGTH)
        found = stores.consumers.list_by_last_use(page.now, start, _PAGE_LENGTH)
        return counts, slice_at(found, start, counts.tokens, _PAGE_LENGTH, url), versions

    # Run in a thread: there may be 100,000 tokens.
    counts, shown, versions = await page.read_long(read)
    newest = max(versions.values(), default=0)
    context: dict[str, object] = {
        "counts": counts,
        "slice": shown,
        "consumers": [{"consumer": each, "version": _version(each, versions, newest)} for each in shown.items],
    }
    return render_page(page, "operator/consumers.html", context)


def _version(consumer: Consumer, versions: dict[str, int], newest: int) -> str:
    """Return the version that a token fetched last, and how many versions are newer."""
    if consumer.latest is None:
        return ""
    version = versions.get(str(consumer.latest.details.get("snapshot_id")))
    if version is None:
        return "no longer kept"
    return "current" if version == newest else f"{version}, {newest - version} behind"
