"""Handlers of the second step of signing in: the code, or the setup that an account requires.

Settings > Security shows the same setup and recovery codes.
"""

from collections.abc import Awaitable
from dataclasses import dataclass, replace
from hashlib import sha256
from urllib.parse import quote, urlencode

from markupsafe import Markup
from starlette.responses import Response

from daybreak.access import enrolment, passkeys, second_factor
from daybreak.access.enrolment import Enrolment, enrolment_of
from daybreak.access.login import SessionStarted, issue_token
from daybreak.access.services import Services
from daybreak.credentials import totp
from daybreak.domain.errors import Conflict, RateLimited, Unauthenticated, Unavailable
from daybreak.domain.identity import ResolvedSession, Seat
from daybreak.web.dashboard.browser_session import (
    AlreadySignedIn,
    SignInRequired,
    load_session,
    set_sign_in_cookies,
    signed_cookie,
)
from daybreak.web.dashboard.context import DashboardRequest
from daybreak.web.dashboard.forms import csrf_field, login_of, read_verified_form, safe_redirect_path
from daybreak.web.dashboard.rendering import SUCCESS, PageOutcome, redirect, rejected, render_template

_RESTARTED = (
    "The setup was started again in another window or sign-in. "
    "Delete the entry from your app, and scan the new QR code."
)


@dataclass(frozen=True, slots=True)
class PendingSignIn(DashboardRequest):
    """A request of a session that waits for its second factor.

    `next_path` is the path to open after sign-in; "" for the default one.
    """

    resolved: ResolvedSession
    token: str
    next_path: str


async def show_code_form(page: DashboardRequest) -> Response:
    """Ask for a six-digit code, or for a recovery code."""
    pending = await _load(page)
    if not pending.resolved.seat.second_factor_enrolled:
        return redirect(page, f"/dashboard/enrol?{urlencode({'next': pending.next_path})}")
    return await _code_page(pending, recovery=page.request.query_params.get("kind") == "recovery")


async def check_code(page: DashboardRequest) -> Response:
    """Complete the sign-in with a code."""
    pending, form = await _load_with_form(page)
    recovery, code = form.get("kind") == "recovery", form.get("code", "")
    complete = second_factor.complete_login_with_recovery_code if recovery else second_factor.complete_login
    completed = complete(page.services, pending.token, code, page.caller, device_id=signed_cookie(page, "device"))
    return await _complete(pending, completed, recovery=recovery)


async def issue_passkey_options(page: DashboardRequest) -> Response:
    """Return the options with which the browser uses a passkey, as JSON."""
    pending, _ = await _load_with_form(page)
    options = await second_factor.begin_with_passkey(page.services, pending.token)
    return Response(options, media_type="application/json")


async def check_passkey(page: DashboardRequest) -> Response:
    """Complete the sign-in with the browser's response of a passkey."""
    pending, form = await _load_with_form(page)
    response, device_id = form.get("response", ""), signed_cookie(page, "device")
    completed = second_factor.complete_login_with_passkey(
        page.services, pending.token, response, page.caller, device_id=device_id
    )
    return await _complete(pending, completed, field_name="passkey")


async def show_enrolment(page: DashboardRequest) -> Response:
    """Show the setup of a second factor that an account requires."""
    pending = await _load(page)
    if pending.resolved.seat.second_factor_enrolled:
        return redirect(page, f"/dashboard/second-factor?{urlencode({'next': pending.next_path})}")
    return await _enrolment_page(pending)


async def confirm_enrolment(page: DashboardRequest) -> Response:
    """Confirm the setup with a code, complete the sign-in, and show the recovery codes once."""
    pending, form = await _load_with_form(page)
    try:
        enrolled = await enrolment.confirm_required(
            page.services,
            pending.token,
            form.get("code", ""),
            page.caller,
            device_id=signed_cookie(page, "device"),
        )
    except (Unauthenticated, RateLimited, Unavailable, Conflict) as error:
        return await _enrolment_page(pending, rejected(error, "code"), form.get("setup", ""))
    started = enrolled.started
    next_path = pending.next_path or (f"/dashboard/{started.client_id}/files" if started else "/dashboard/")
    next_url = page.dashboard.root + next_path
    codes = recovery_codes_context(enrolled.recovery_codes)
    context = {**codes, "next_url": next_url, "history_url": next_url}
    response = render_template(page, "second_factor/recovery_codes.html", context)
    if started is not None:
        set_sign_in_cookies(page, response, started)
    return response


async def _load(page: DashboardRequest) -> PendingSignIn:
    """Read the session. Raises SignInRequired, or AlreadySignedIn if it does not wait for a second factor."""
    resolved = await load_session(page)
    if not resolved.session.awaiting_second_factor:
        raise AlreadySignedIn
    token = issue_token(page.services, resolved.session, client_id=None, now=page.services.clock())
    next_path = safe_redirect_path(page.request.query_params.get("next"), fallback="")
    return PendingSignIn(page.dashboard, page.request, resolved, token, next_path)


async def _load_with_form(page: DashboardRequest) -> tuple[PendingSignIn, dict[str, str]]:
    pending = await _load(page)
    form = await read_verified_form(page, login_of(pending.resolved.session))
    return replace(pending, next_path=safe_redirect_path(form.get("next"), fallback="")), form


async def _complete(
    pending: PendingSignIn, completed: Awaitable[SessionStarted], *, recovery: bool = False, field_name: str = "code"
) -> Response:
    """Set the cookies of a completed sign-in, or ask again if the second factor is refused."""
    try:
        started = await completed
    except (Unauthenticated, RateLimited, Unavailable) as error:
        return await _code_page(pending, recovery=recovery, outcome=rejected(error, field_name))
    response = redirect(pending, pending.next_path or f"/dashboard/{started.client_id}/files")
    set_sign_in_cookies(pending, response, started)
    return response


def _base_context(pending: PendingSignIn, path: str, **query: str) -> dict[str, object]:
    """Return the variables of both forms. After a POST, reload and back show the page at `path`, with its query."""
    login = login_of(pending.resolved.session)
    url = f"{pending.dashboard.root}/dashboard/{path}?{urlencode({'next': pending.next_path, **query})}"
    return {
        "csrf_field": lambda: csrf_field(pending, login),
        "next": pending.next_path,
        "history_url": url if pending.request.method == "POST" else "",
    }


async def _code_page(pending: PendingSignIn, *, recovery: bool, outcome: PageOutcome = SUCCESS) -> Response:
    services = pending.services
    offers_passkey = (
        not recovery
        and passkeys.are_available(services)
        and bool(await passkeys.list_of_seat(services, pending.resolved.seat))
    )
    context = {
        **_base_context(pending, "second-factor", **({"kind": "recovery"} if recovery else {})),
        "recovery": recovery,
        "offers_passkey": offers_passkey,
        "operator_contact": services.settings.operator_contact,
    }
    return render_template(pending, "second_factor/code.html", context, outcome)


async def _enrolment_page(pending: PendingSignIn, outcome: PageOutcome = SUCCESS, setup: str = "") -> Response:
    seat = pending.resolved.seat
    enrolment = await load_pending_enrolment(pending.services, seat)
    if enrolment is None:
        # Signing in starts an enrolment. If it has been removed, signing in again starts another.
        raise SignInRequired(had_session=True)
    initial_account = await pending.services.state.aread(lambda stores: stores.seats.initial_account(seat))
    context = {
        **_base_context(pending, "enrol"),
        **enrolment_context(enrolment),
        "seat": seat,
        "required_by_account": initial_account is not None and initial_account.second_factor_required,
    }
    outcome = explain_restart(outcome, enrolment, setup)
    return render_template(pending, "second_factor/enrol.html", context, outcome)


async def load_pending_enrolment(services: Services, seat: Seat) -> Enrolment | None:
    """Return the enrolment that was started and not confirmed, from its sealed seed."""
    sealed = await services.state.aread(lambda stores: stores.seats.pending_seed(seat.seat_id))
    if sealed is None:
        return None
    try:
        seed = totp.decrypt_seed(sealed, seat_id=seat.seat_id, keyring=services.keyring.current())
    except totp.SeedDecryptionError:
        return None
    return enrolment_of(seed, email=seat.email)


def enrolment_context(enrolment: Enrolment) -> dict[str, object]:
    """Return the variables of the setup steps. The QR code is generated SVG without user input."""
    key = enrolment.manual_key
    grouped = " ".join(key[start : start + 4] for start in range(0, len(key), 4))
    return {"setup": _setup_of(enrolment), "manual_key": grouped, "qr_code": Markup(enrolment.qr_svg)}  # noqa: S704


def explain_restart(outcome: PageOutcome, enrolment: Enrolment, setup: str) -> PageOutcome:
    """Return the outcome of a form whose code was refused. `setup` names the key of its page, which another window or
    sign-in may have replaced.
    """
    if "code" not in outcome.errors or setup in ("", _setup_of(enrolment)):
        return outcome
    return replace(outcome, errors={"code": _RESTARTED})


def _setup_of(enrolment: Enrolment) -> str:
    """Return what identifies the key of a setup."""
    return sha256(enrolment.manual_key.encode()).hexdigest()[:16]


def recovery_codes_context(codes: tuple[str, ...]) -> dict[str, object]:
    """Return the variables of the recovery code list, with a data URL to download it."""
    text = "Recovery codes for Daybreak. Each code works once.\n\n" + "\n".join(codes) + "\n"
    return {"codes": codes, "codes_url": f"data:text/plain;charset=utf-8,{quote(text)}"}
