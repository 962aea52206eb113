"""What ends with a change to a seat or an account, by name, for confirmations."""

from __future__ import annotations

from collections.abc import Sequence

from daybreak.domain.identity import ApiToken, Seat
from daybreak.state.stores import Stores
from daybreak.web.dashboard.formatting import format_ago, format_name, format_number
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.security.view import session_views

Ending = tuple[str, Sequence[str]]

_MAXIMUM_LINES = 20


async def ending_sessions(page: PageRequest, seat: Seat) -> Ending:
    sessions = await page.read(lambda stores: stores.sessions.list_open(seat.seat_id, page.now))
    return _listed("Sessions that end", [view.text for view in await session_views(page, sessions)])


async def ending_tokens(page: PageRequest, *, seat: Seat | None = None, client_id: str | None = None) -> Ending:
    """Return the active API tokens of a seat, of an account, or of a seat on an account."""
    seat_id = seat.seat_id if seat is not None else None

    def read(stores: Stores) -> tuple[list[ApiToken], dict[str, str]]:
        tokens = stores.api_tokens.list_for(client_id=client_id, seat_id=seat_id)
        accounts = stores.seats.granted_accounts(seat_id) if seat_id is not None and client_id is None else []
        return tokens, {each.account.client_id: format_name(each.account.name) for each in accounts}

    tokens, names = await page.read_long(read)
    lines = [
        "\N{NO-BREAK SPACE}· ".join(part for part in (*_token_texts(token, page), names.get(token.client_id)) if part)
        for token in tokens
        if token.state_at(page.now) == "live"
    ]
    return _listed("API tokens that stop working", lines)


async def ending_webhooks(page: PageRequest, seat: Seat, client_id: str | None = None) -> Ending:
    """Return the enabled webhooks that a seat owns, on all accounts or on one."""
    owned = await page.read(lambda stores: stores.webhooks.list_owned(seat.seat_id))
    urls = [webhook.url for webhook in owned if client_id in (None, webhook.client_id)]
    return _listed("Webhooks that stop until another owner or admin takes them over", urls)


def _token_texts(token: ApiToken, page: PageRequest) -> tuple[str, str, str]:
    used = f"last used {format_ago(token.last_used_at, page.now)}" if token.last_used_at else "never used"
    return f"{token.name} (\N{HORIZONTAL ELLIPSIS}{token.last_four})", token.created_by_email, used


def _listed(heading: str, lines: Sequence[str]) -> Ending:
    """Return up to 20 lines. A heading without lines says that there are none."""
    more = len(lines) - _MAXIMUM_LINES
    shown = [*lines[:_MAXIMUM_LINES], f"and {format_number(more)} more"] if more > 0 else lines
    return heading, shown or ["none"]
