"""Handlers of the operator's pages of seats: create, invite, reset, disable, sign out."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable

from starlette.responses import Response

from daybreak.access import operators, password_reset
from daybreak.access.directory import edits
from daybreak.credentials.passwords import new_password
from daybreak.domain.email_address import MAX_EMAIL_LENGTH
from daybreak.domain.errors import NotFound, OperatorError
from daybreak.domain.identity import Device, GrantedAccount, Seat, Session
from daybreak.state.stores import Stores
from daybreak.web.dashboard.formatting import format_user_agent
from daybreak.web.dashboard.operator.confirmation import prompt_if_needed
from daybreak.web.dashboard.outcome import SUCCESS, PageOutcome, invalid_field
from daybreak.web.dashboard.page_layout import operator_path, render_page
from daybreak.web.dashboard.page_request import PageRequest, read_page_form
from daybreak.web.dashboard.rendering import redirect
from daybreak.web.dashboard.security.view import session_reference

Action = Callable[[Stores, Seat, PageRequest], object]


def _reset_second_factor(stores: Stores, seat: Seat, page: PageRequest) -> None:
    operators.reset_second_factor(stores, seat, page.now, actor=page.seat.email)


def _invite(stores: Stores, seat: Seat, page: PageRequest) -> None:
    if not password_reset.is_available(page.dashboard.services.settings):
        raise OperatorError("This service sends no mail. Set mail.url, or reset the password of the seat.")
    operators.invite(stores, seat, page.now, actor=page.seat.email)


def _sign_out(stores: Stores, seat: Seat, page: PageRequest) -> None:
    operators.sign_out(stores, seat, page.now, actor=page.seat.email)


def _disable(stores: Stores, seat: Seat, page: PageRequest) -> None:
    if seat.seat_id == page.seat.seat_id:
        raise OperatorError("You can't disable your own seat. Ask another operator.")
    operators.set_disabled(stores, seat, page.now, disabled=True, actor=page.seat.email)


def _enable(stores: Stores, seat: Seat, page: PageRequest) -> None:
    operators.set_disabled(stores, seat, page.now, disabled=False, actor=page.seat.email)


_ACTIONS: dict[str, tuple[Action, str]] = {
    "reset-second-factor": (_reset_second_factor, "factor-reset"),
    "invite": (_invite, "seat-invited"),
    "sign-out": (_sign_out, "seat-signed-out"),
    "disable": (_disable, "seat-disabled"),
    "enable": (_enable, "seat-enabled"),
}
"""Function and message of each action, by the last part of its path."""


async def show_seat(page: PageRequest) -> Response:
    """Show a seat with its accounts and open sessions."""
    return await _seat_page(page, await _requested_seat(page))


async def act_on_seat(page: PageRequest) -> Response:
    """Perform the action in the path."""
    await read_page_form(page)
    seat, name = await _requested_seat(page), page.request.path_params["action"]
    prompt = prompt_if_needed(page, f"seats/{seat.seat_id}")
    if prompt is not None:
        return prompt
    if name not in _ACTIONS:
        raise NotFound("No such action.")
    action, done = _ACTIONS[name]
    try:
        await page.dashboard.services.state.awrite(lambda stores: action(stores, seat, page))
    except OperatorError as error:
        return await _seat_page(page, seat, invalid_field("seat", error.message))
    return redirect(page.dashboard, operator_path(page, f"seats/{seat.seat_id}", done=done))


async def end_session(page: PageRequest) -> Response:
    """End one session of a seat."""
    await read_page_form(page)
    seat, state, reference = (
        await _requested_seat(page),
        page.dashboard.services.state,
        page.request.path_params["reference"],
    )
    path = f"seats/{seat.seat_id}"
    prompt = prompt_if_needed(page, path)
    if prompt is not None:
        return prompt

    def write(stores: Stores) -> bool:
        sessions = [session for session, _ in stores.sessions.list_open(seat.seat_id, page.now)]
        sids = [each.sid for each in sessions if hmac.compare_digest(session_reference(page, each), reference)]
        return any(operators.end_session(stores, seat, sid, page.now, actor=page.seat.email) for sid in sids)

    ended = await state.awrite(write)
    return redirect(page.dashboard, operator_path(page, path, done="session-ended" if ended else "session-gone"))


async def reset_password(page: PageRequest) -> Response:
    """Set a new password and show it once. All sessions of the seat end."""
    await read_page_form(page)
    seat, services = await _requested_seat(page), page.dashboard.services
    prompt = prompt_if_needed(page, f"seats/{seat.seat_id}")
    if prompt is not None:
        return prompt
    password = new_password(services.random)
    hashed = await services.access.hashing.hash(password)
    actor = page.seat.email
    await services.state.awrite(lambda stores: operators.set_password_hash(stores, seat, hashed, page.now, actor=actor))
    return _password_page(page, seat, password, created=False)


async def show_new_seat_form(page: PageRequest) -> Response:
    """Show the form of a new seat, after the password prompt if needed."""
    return prompt_if_needed(page, "seats/new") or _form_page(page, "")


async def create_seat(page: PageRequest) -> Response:
    """Create a seat, and have an invitation mailed or show its first password once."""
    form, services = await read_page_form(page), page.dashboard.services
    prompt = prompt_if_needed(page, "seats/new")
    if prompt is not None:
        return prompt
    email = form.get("email", "").strip()[: MAX_EMAIL_LENGTH + 1]
    by_mail = form.get("first_password") == "by-mail"
    password = "" if by_mail else new_password(services.random)
    seat = Seat(services.access.new_id(), email, await services.access.hashing.hash(password) if password else None)

    def write(stores: Stores) -> None:
        edits.add_seat(stores, seat, page.now, actor=page.seat.email)
        if by_mail:
            _invite(stores, seat, page)

    try:
        await services.state.awrite(write)
    except OperatorError as error:
        return _form_page(page, email, invalid_field("email", error.message))
    if by_mail:
        return redirect(page.dashboard, operator_path(page, f"seats/{seat.seat_id}", done="seat-invited"))
    return _password_page(page, seat, password, created=True)


def _form_page(page: PageRequest, email: str, outcome: PageOutcome = SUCCESS) -> Response:
    can_invite = password_reset.is_available(page.dashboard.services.settings)
    context: dict[str, object] = {"email": email, "can_invite": can_invite}
    return render_page(page, "operator/new_seat.html", "people", context, outcome)


def _password_page(page: PageRequest, seat: Seat, password: str, *, created: bool) -> Response:
    context: dict[str, object] = {
        "item": seat,
        "password": password,
        "created": created,
        "sign_in_url": f"{page.dashboard.services.settings.base_url}/dashboard/sign-in",
        "history_url": page.dashboard.root + operator_path(page, f"seats/{seat.seat_id}"),
    }
    return render_page(page, "operator/seat_password.html", "people", context)


async def _seat_page(page: PageRequest, seat: Seat, outcome: PageOutcome = SUCCESS) -> Response:
    def read(stores: Stores) -> tuple[list[GrantedAccount], list[tuple[Session, Device | None]]]:
        return stores.seats.granted_accounts(seat.seat_id), stores.sessions.list_open(seat.seat_id, page.now)

    # Run in a thread: a seat may have thousands of accounts.
    granted, sessions = await asyncio.to_thread(page.dashboard.services.state.read, read)
    path = operator_path(page, f"seats/{seat.seat_id}")
    context: dict[str, object] = {
        "item": seat,
        "own": seat.seat_id == page.seat.seat_id,
        "granted": granted,
        "can_invite": seat.password_hash is None and password_reset.is_available(page.dashboard.services.settings),
        "password_login": page.dashboard.services.settings.oidc.password_login,
        "sessions": [
            {
                "reference": session_reference(page, session),
                "current": session.sid == page.session.sid,
                "agent": format_user_agent(device.user_agent if device is not None else ""),
                "address": device.address if device is not None else "",
                "started_at": session.started_at,
                "api": session.kind == "api",
            }
            for session, device in sessions
        ],
        "history_url": page.dashboard.root + path if page.request.method == "POST" else "",
    }
    return render_page(page, "operator/seat.html", "people", context, outcome)


async def _requested_seat(page: PageRequest) -> Seat:
    seat_id = page.request.path_params["seat_id"]
    seat = await page.dashboard.services.state.aread(lambda stores: stores.seats.by_id(seat_id))
    if seat is None:
        raise NotFound("No such seat.")
    return seat
