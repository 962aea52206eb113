"""Operators' actions on one seat, with the confirmations of those that end something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from starlette.responses import Response

from daybreak.access import operators
from daybreak.domain.errors import OperatorError
from daybreak.domain.identity import Seat
from daybreak.state.stores import Stores
from daybreak.web.dashboard.confirmation import Confirmation
from daybreak.web.dashboard.operator.endings import ending_sessions, ending_tokens, ending_webhooks
from daybreak.web.dashboard.operator.seats import invite_seat, requested_seat
from daybreak.web.dashboard.outcome import Flash, PageOutcome
from daybreak.web.dashboard.page_request import PageRequest


@dataclass(frozen=True, slots=True)
class SeatAction:
    """An action on a seat.

    Attributes:
        name: Last part of its path.
        run: Performs it.
        done: Message afterwards.
        title: The action as a heading, and as the label of its button.
        text: What it does.
        ends: What the confirmation lists.
    """

    name: str
    run: Callable[[Stores, Seat, PageRequest], object]
    done: str
    title: str = ""
    text: str = ""
    ends: tuple[Literal["sessions", "tokens", "webhooks"], ...] = ()


async def confirm_action(action: SeatAction, page: PageRequest) -> Confirmation:
    """Describe what an action on the seat in the path ends."""
    seat = await requested_seat(page)
    ends = [await ending_sessions(page, seat)] if "sessions" in action.ends else []
    if "tokens" in action.ends:
        ends.append(await ending_tokens(page, seat=seat))
    if "webhooks" in action.ends:
        ends.append(await ending_webhooks(page, seat))
    return Confirmation(
        title=action.title,
        about=seat.email,
        text=action.text,
        ends=ends,
        button=action.title,
        cancel=f"seats/{seat.seat_id}",
    )


async def perform_action(action: SeatAction, page: PageRequest) -> Response | PageOutcome:
    """Perform an action on the seat in the path."""
    seat = await requested_seat(page)
    try:
        await page.dashboard.services.state.awrite(lambda stores: action.run(stores, seat, page))
    except OperatorError as error:
        return PageOutcome(409, flash=Flash("bad", error.message))
    return page.redirect(f"seats/{seat.seat_id}", done=action.done)


def _reset_second_factor(stores: Stores, seat: Seat, page: PageRequest) -> None:
    operators.reset_second_factor(stores, seat, page.now, actor=page.seat.email)


def _sign_out(stores: Stores, seat: Seat, page: PageRequest) -> None:
    operators.sign_out(stores, seat, page.now, actor=page.seat.email)


def _disable(stores: Stores, seat: Seat, page: PageRequest) -> None:
    if seat.seat_id == page.seat.seat_id:
        raise OperatorError("You can't disable your own seat. Ask another operator.")
    operators.set_disabled(stores, seat, page.now, disabled=True, actor=page.seat.email)


def _enable(stores: Stores, seat: Seat, page: PageRequest) -> None:
    operators.set_disabled(stores, seat, page.now, disabled=False, actor=page.seat.email)


HARMLESS_ACTIONS = (
    SeatAction("invite", invite_seat, "seat-invited"),
    SeatAction("enable", _enable, "seat-enabled"),
)
"""Actions that end nothing, and need no confirmation."""

CONFIRMED_ACTIONS = (
    SeatAction(
        "disable",
        _disable,
        "seat-disabled",
        "Disable seat",
        "The person can't sign in, and scripts with their API tokens stop working immediately, until the seat is "
        "enabled again.",
        ("sessions", "tokens", "webhooks"),
    ),
    SeatAction(
        "reset-second-factor",
        _reset_second_factor,
        "factor-reset",
        "Reset second factor",
        "Removes authenticator app, recovery codes and passkeys, and the operator role. API tokens stay valid.",
        ("sessions",),
    ),
    SeatAction(
        "sign-out",
        _sign_out,
        "seat-signed-out",
        "End all sessions",
        "Download links issued in these sessions stop working. API tokens stay valid.",
        ("sessions",),
    ),
)
"""Actions that end something, which their confirmation lists."""
