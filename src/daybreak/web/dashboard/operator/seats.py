"""Handlers of the operator's pages of seats: create, show, end a session, reset the password, and other actions."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from starlette.responses import Response

from daybreak.access import operators, passwords
from daybreak.access.directory import changes
from daybreak.credentials.passwords import new_password
from daybreak.domain.email_address import MAX_EMAIL_LENGTH
from daybreak.domain.errors import OperatorError
from daybreak.domain.events import Delivery, DeliveryState, EventType
from daybreak.domain.identity import ApiToken, Seat
from daybreak.state.deliveries import DeliveryFilter
from daybreak.state.stores import Stores
from daybreak.web.dashboard.formatting import format_datetime
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.rendering import SUCCESS, PageOutcome, invalid_field
from daybreak.web.dashboard.security.handlers import session_reference, session_views


async def show_seat(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
    """Show a seat with its accounts and open sessions."""
    seat, settings = await requested_seat(page), page.services.settings

    invitations = DeliveryFilter(seat_id=seat.seat_id, type=EventType.SEAT_INVITED)
    # Run in a thread: a seat may have thousands of accounts.
    granted, sessions, invited = await page.read_long(
        lambda stores: (
            stores.seats.granted_accounts(seat.seat_id),
            stores.sessions.list_open(seat.seat_id, page.now),
            stores.deliveries.list_recent(invitations, 1),
        )
    )
    context: dict[str, object] = {
        "item": seat,
        "own": seat.seat_id == page.seat.seat_id,
        "granted": granted,
        "can_invite": seat.password_hash is None and passwords.is_available(settings),
        "invitation": describe_mail(invited[0]) if invited else "",
        "password_login": settings.oidc.password_login,
        "sessions": await session_views(page, sessions, f"seats/{seat.seat_id}"),
    }
    return render_page(page, "operator/seat.html", context, outcome)


def describe_mail(delivery: Delivery) -> str:
    """Return whether a mail was sent, and otherwise why not."""
    if delivery.state is DeliveryState.DELIVERED:
        return f"Sent {format_datetime(delivery.finished_at)}."
    if delivery.state is DeliveryState.PENDING:
        return f"Not sent yet. {delivery.detail}".strip()
    return f"Not sent {format_datetime(delivery.finished_at)}: {delivery.detail}"


async def end_session(page: PageRequest) -> Response:
    seat, reference = await requested_seat(page), page.request.path_params["reference"]

    def write(stores: Stores) -> bool:
        sessions = [session for session, _ in stores.sessions.list_open(seat.seat_id, page.now)]
        sids = [each.sid for each in sessions if hmac.compare_digest(session_reference(page, each), reference)]
        return any(operators.end_session(stores, seat, sid, page.now, actor=page.seat.email) for sid in sids)

    ended = await page.services.state.awrite(write)
    return page.redirect(f"seats/{seat.seat_id}", done="session-ended" if ended else "session-gone")


async def reset_password(page: PageRequest) -> Response:
    """Make the password of a seat unusable, and show a link that sets another. All sessions of the seat end."""
    seat, services = await requested_seat(page), page.services
    unknown_hash = await services.hashing.hash(new_password(services.random))
    token = await services.state.awrite(lambda stores: _issue_link(stores, seat, page, unknown_hash))
    return _link_page(page, seat, token, created=False)


async def show_new_seat_form(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
    settings = page.services.settings
    context: dict[str, object] = {
        "email": page.fields.get("email", ""),
        "can_invite": passwords.is_available(settings),
        "password_login": settings.oidc.password_login,
    }
    return render_page(page, "operator/new_seat.html", context, outcome)


async def create_seat(page: PageRequest) -> Response | PageOutcome:
    """Create a seat, and have an invitation mailed or show the link that sets its password, if it may have one."""
    services = page.services
    email = page.form.get("email", "").strip()[: MAX_EMAIL_LENGTH + 1]
    by_mail = page.form.get("first_password") == "by-mail"
    seat = Seat(services.new_id(), email)

    def write(stores: Stores) -> str:
        changes.add_seat(stores, seat, page.now, actor=page.seat.email)
        if by_mail:
            invite_seat(stores, seat, page)
        elif services.settings.oidc.password_login:
            return _issue_link(stores, seat, page)
        return ""

    try:
        token = await services.state.awrite(write)
    except OperatorError as error:
        return invalid_field("email", error.message)
    if token:
        return _link_page(page, seat, token, created=True)
    return page.redirect(f"seats/{seat.seat_id}", done="seat-invited" if by_mail else "seat-created")


def invite_seat(stores: Stores, seat: Seat, page: PageRequest) -> None:
    """Queue the mail of an invitation. Raises OperatorError."""
    if not passwords.is_available(page.services.settings):
        raise OperatorError("This service sends no mail. Set mail.url, or reset the password of the seat.")
    operators.invite(stores, seat, page.now, actor=page.seat.email)


def _issue_link(stores: Stores, seat: Seat, page: PageRequest, unknown_hash: str = "") -> str:
    services, actor = page.services, page.seat.email
    settings, random = services.settings, services.random
    return operators.issue_link(stores, seat, unknown_hash, page.now, settings=settings, random=random, actor=actor)


async def requested_seat(page: PageRequest) -> Seat:
    """Return the seat in the path. Raises NotFound."""
    seat_id = page.request.path_params["seat_id"]
    return await page.find(lambda stores: stores.seats.by_id(seat_id), "No such seat.")


def _link_page(page: PageRequest, seat: Seat, token: str, *, created: bool) -> Response:
    context: dict[str, object] = {
        "item": seat,
        "link": passwords.link_url(page.services.settings, token),
        "created": created,
        "history_url": page.url(f"seats/{seat.seat_id}"),
    }
    return render_page(page, "operator/seat_link.html", context)


@dataclass(frozen=True, slots=True)
class SeatAction:
    """An action on a seat.

    Attributes:
        name: Last part of its path.
        run: Performs it. Raises OperatorError.
        done: Message afterwards.
        template: Page that asks to confirm it, and names what it ends; "" for an action that ends nothing.
    """

    name: str
    run: Callable[[Stores, Seat, PageRequest], object]
    done: str
    template: str = ""


async def perform_action(action: SeatAction, page: PageRequest) -> Response:
    seat = await requested_seat(page)
    await page.services.state.awrite(lambda stores: action.run(stores, seat, page))
    return page.redirect(f"seats/{seat.seat_id}", done=action.done)


def _by_operator(change: Callable[..., object], stores: Stores, seat: Seat, page: PageRequest) -> None:
    change(stores, seat, page.now, actor=page.seat.email)


def _of_other_seat(change: Callable[..., object], stores: Stores, seat: Seat, page: PageRequest) -> None:
    """Perform a change that would lock out its operator on the own seat."""
    if seat.seat_id == page.seat.seat_id:
        raise OperatorError("You can't do this to your own seat. Ask another operator.")
    _by_operator(change, stores, seat, page)


HARMLESS_ACTIONS = (
    SeatAction("invite", invite_seat, "seat-invited"),
    SeatAction("enable", partial(_by_operator, partial(operators.set_disabled, disabled=False)), "seat-enabled"),
)
CONFIRMED_ACTIONS = (
    SeatAction(
        "disable",
        partial(_of_other_seat, partial(operators.set_disabled, disabled=True)),
        "seat-disabled",
        "operator/disable.html",
    ),
    SeatAction(
        "reset-second-factor",
        partial(_of_other_seat, operators.reset_second_factor),
        "factor-reset",
        "operator/reset_second_factor.html",
    ),
    SeatAction("sign-out", partial(_by_operator, operators.sign_out), "seat-signed-out", "operator/sign_out.html"),
)


async def load_seat(page: PageRequest) -> dict[str, object]:
    """Return the variables of pages that ask to confirm an action on the seat in the path: what it can end."""
    seat = await requested_seat(page)
    sessions = await page.read(lambda stores: stores.sessions.list_open(seat.seat_id, page.now))
    views = await session_views(page, sessions, f"seats/{seat.seat_id}")
    return {"item": seat, "sessions": views, **await load_ending(page, seat)}


async def load_ending(page: PageRequest, seat: Seat, client_id: str | None = None) -> dict[str, object]:
    """Return the live API tokens and the webhooks of a seat, on all accounts or on one.

    With those on all accounts, `names` has the names of the accounts by id.
    """
    owned = await page.read(lambda stores: stores.webhooks.list_owned(seat.seat_id))
    webhooks = [webhook for webhook in owned if client_id in (None, webhook.client_id)]
    return {"webhooks": webhooks, **await load_live_tokens(page, seat_id=seat.seat_id, client_id=client_id)}


async def load_live_tokens(
    page: PageRequest, *, seat_id: str | None = None, client_id: str | None = None
) -> dict[str, object]:
    """Return the live API tokens of a seat, of an account, or of a seat on an account."""

    def read(stores: Stores) -> tuple[list[ApiToken], dict[str, str]]:
        tokens = stores.api_tokens.list_for(client_id=client_id, seat_id=seat_id)
        live = [token for token in tokens if token.state_at(page.now) == "live"]
        names = stores.directory.names({token.client_id for token in live}) if client_id is None else {}
        return live, names

    tokens, names = await page.read_long(read)
    return {"tokens": tokens, "names": names}
