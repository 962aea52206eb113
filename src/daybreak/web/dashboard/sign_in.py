"""Signing in and out: password, second factor, the enrolment that an account may force."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from daybreak.access import second_factor, sessions
from daybreak.access.authorization import session_fault
from daybreak.access.login import SecondFactorOwed, SessionStarted, login
from daybreak.access.reach import reach_of
from daybreak.domain.errors import Conflict, DaybreakError, Forbidden, RateLimited, Unauthenticated, Unavailable
from daybreak.domain.identity import Seat, SessionStanding
from daybreak.web.dashboard.desk import Desk, go_to, render
from daybreak.web.dashboard.doorway import gate_page
from daybreak.web.dashboard.enrolment import begun_enrolment, codes_context, enrolment_context
from daybreak.web.dashboard.forms import own_path
from daybreak.web.dashboard.presentation import span
from daybreak.web.dashboard.session_cookie import FORM_COOKIE_SECONDS, clear_cookie, read_cookie, set_cookie
from daybreak.web.dashboard.visit import (
    AlreadyIn,
    Flash,
    SecondFactorNeeded,
    SignInNeeded,
    csrf_field,
    first_account,
    read_own_form,
)
from daybreak.web.problems import problem_headers, status_of
from daybreak.web.request_facts import facts_of
from daybreak.web.routing import Route, methods

_DEVICE_SECONDS = 365 * 86400
_ENDED: dict[str, Flash] = {
    "yes": Flash("warn", "Your session has ended.", "Please sign in again."),
    "form": Flash("warn", "Your session had ended, so nothing was saved.", "Sign in, and you are back at the form."),
    "everywhere": Flash("good", "You are signed out everywhere.", ""),
    "out": Flash("good", "You are signed out.", ""),
}


def sign_in_routes(desk: Desk) -> list[Route]:
    """The routes that need no session, or one that still waits."""
    gate = _Gate(desk)
    return [
        methods("/", GET=gate_page(desk, gate.home)),
        methods("/dashboard", GET=gate_page(desk, gate.home)),
        methods("/dashboard/", GET=gate_page(desk, gate.home)),
        methods("/dashboard/sign-in", GET=gate_page(desk, gate.ask), POST=gate_page(desk, gate.sign_in)),
        methods(
            "/dashboard/second-factor", GET=gate_page(desk, gate.ask_code), POST=gate_page(desk, gate.second_factor)
        ),
        methods("/dashboard/enrol", GET=gate_page(desk, gate.ask_enrolment), POST=gate_page(desk, gate.enrol)),
        methods("/dashboard/sign-out", POST=gate_page(desk, gate.sign_out)),
    ]


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A dashboard login that still owes its second factor."""

    standing: SessionStanding
    token: str

    @property
    def seat(self) -> Seat:
        return self.standing.seat

    @property
    def sid(self) -> str:
        return self.standing.session.sid


class _Gate:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._services = desk.services
        self._access = desk.services.access

    async def home(self, request: Request) -> Response:
        """To the account used last; to sign in when nobody is."""
        standing = await self._standing(request)
        if standing is None:
            return go_to(self._desk, "/dashboard/sign-in")
        if standing.session.awaiting_second_factor:
            raise SecondFactorNeeded
        seat_id = standing.seat.seat_id
        reach = await reach_of(self._services.state, seat_id)
        client_id = first_account(standing.seat, standing.session, reach)
        if client_id is None:
            if any(entry.account.active for entry in reach):
                raise Forbidden(
                    "Every account in your reach asks for a second factor: sign in again with one.",
                    code="second_factor_required",
                )
            raise Forbidden("None of the accounts in reach of this seat is active.", code="no_active_account")
        return go_to(self._desk, f"/dashboard/{client_id}/files")

    async def ask(self, request: Request) -> Response:
        """The page with email and password."""
        asked = request.query_params
        if "ended" not in asked:
            # The back button after signing in, or a bookmark: on to where the person wants to be.
            standing = await self._standing(request)
            if standing is not None and not standing.session.awaiting_second_factor:
                return go_to(self._desk, own_path(asked.get("next"), fallback="/dashboard/"))
        return self._form(
            request, next_path=own_path(asked.get("next"), fallback=""), flash=_ENDED.get(asked.get("ended", ""))
        )

    async def sign_in(self, request: Request) -> Response:
        binding = self._form_binding(request)
        if binding is None:
            # The form cookie lives an hour, or cookies are off: show the page again, with a new one.
            flash = Flash("warn", "This page was open for long.", "Please sign in once more; cookies must be allowed.")
            return self._form(request, flash=flash, status=403)
        form = await read_own_form(self._desk, request, binding)
        email, next_path = form.get("email", "")[:254], own_path(form.get("next"), fallback="")
        try:
            outcome = await login(
                self._access,
                email=email,
                password=form.get("password", "")[:1024],
                caller=facts_of(request).caller,
                device_id=self._device_id(request),
                kind="dashboard",
            )
        except (Unauthenticated, RateLimited, Unavailable) as error:
            return self._form(request, next_path=next_path, email=email, refused=error)
        if isinstance(outcome, SessionStarted):
            return self._signed_in(outcome, next_path)
        return await self._owed(outcome, next_path)

    async def ask_code(self, request: Request) -> Response:
        """The page for the six digits, or for a recovery code."""
        waiting = await self._waiting(request)
        next_path = own_path(request.query_params.get("next"), fallback="")
        if not waiting.seat.second_factor_enrolled:
            return go_to(self._desk, f"/dashboard/enrol?{urlencode({'next': next_path})}")
        return self._code_form(request, waiting, next_path, recovery=request.query_params.get("kind") == "recovery")

    async def second_factor(self, request: Request) -> Response:
        """A code, to a whole session."""
        waiting = await self._waiting(request)
        form = await read_own_form(self._desk, request, waiting.sid)
        recovery, next_path = form.get("kind") == "recovery", own_path(form.get("next"), fallback="")
        answer = second_factor.answer_with_recovery_code if recovery else second_factor.answer
        code = form.get("code", "")[:64].strip()
        try:
            outcome = await answer(
                self._access,
                waiting.token,
                code if recovery else _digits(code),
                facts_of(request).caller,
                device_id=self._device_id(request),
            )
        except (Unauthenticated, RateLimited, Unavailable) as error:
            if error.code == "session_ended":
                raise SignInNeeded(had_session=True) from None
            return self._code_form(request, waiting, next_path, recovery=recovery, refused=error)
        return self._signed_in(outcome, next_path)

    async def ask_enrolment(self, request: Request) -> Response:
        """The page that sets up an owed second factor, with the seed that signing in began."""
        waiting = await self._waiting(request)
        next_path = own_path(request.query_params.get("next"), fallback="")
        if waiting.seat.second_factor_enrolled:
            return go_to(self._desk, f"/dashboard/second-factor?{urlencode({'next': next_path})}")
        return await self._enrolment_form(request, waiting, next_path)

    async def enrol(self, request: Request) -> Response:
        """The code that confirms it; then the recovery codes, in this answer and never again."""
        waiting = await self._waiting(request)
        form = await read_own_form(self._desk, request, waiting.sid)
        next_path = own_path(form.get("next"), fallback="")
        try:
            enrolled = await second_factor.confirm_owed_enrolment(
                self._access,
                waiting.token,
                _digits(form.get("code", "")[:64]),
                facts_of(request).caller,
                device_id=self._device_id(request),
            )
        except (Unauthenticated, RateLimited, Unavailable, Conflict) as error:
            if error.code == "session_ended":
                raise SignInNeeded(had_session=True) from None
            return await self._enrolment_form(request, waiting, next_path, refused=error)
        started = enrolled.started
        onward = next_path or (f"/dashboard/{started.client_id}/files" if started else "/dashboard/")
        response = render(
            self._desk,
            request,
            "recovery_codes_gate.html",
            {
                **codes_context(enrolled.recovery_codes),
                **self._common(waiting.sid),
                "onward": self._desk.root + onward,
                "leave": self._desk.root + onward,
            },
        )
        if started is not None:
            self._give_cookies(response, started)
        return response

    async def sign_out(self, request: Request) -> Response:
        """Ends the session, waiting ones too."""
        standing = await self._standing(request)
        if standing is not None:
            await read_own_form(self._desk, request, standing.session.sid)
            who = sessions.SignedIn(standing.session, standing.seat, "", standing.session.device_id or "", standing)
            await sessions.logout(self._access, who, facts_of(request).caller)
        response = go_to(self._desk, "/dashboard/sign-in?ended=out")
        clear_cookie(response, "session", secure=self._desk.secure)
        return response

    # --- What they share ---------------------------------------------------------------------

    async def _standing(self, request: Request) -> SessionStanding | None:
        """The dashboard session of the cookie, waiting or whole; None when there is none."""
        sid = read_cookie(request, "session", secure=self._desk.secure, keyring=self._services.keyring.current())
        if sid is None:
            return None
        standing = await self._services.state.aread(lambda stores: stores.sessions.standing(sid, None))
        fault = session_fault(standing, self._services.clock())
        if standing is None or isinstance(fault, Unauthenticated) or standing.session.kind != "dashboard":
            return None
        facts_of(request).subject = f"session:{sid}"
        return standing

    async def _waiting(self, request: Request) -> _Waiting:
        standing = await self._standing(request)
        if standing is None:
            raise SignInNeeded(had_session=True)
        if not standing.session.awaiting_second_factor:
            raise AlreadyIn
        token = sessions.issue_waiting_token(self._access, standing.session, now=self._services.clock())
        return _Waiting(standing, token)

    def _form_binding(self, request: Request) -> str | None:
        return read_cookie(request, "form", secure=self._desk.secure, keyring=self._services.keyring.current())

    def _device_id(self, request: Request) -> str | None:
        return read_cookie(request, "device", secure=self._desk.secure, keyring=self._services.keyring.current())

    def _common(self, binding: str) -> dict[str, object]:
        return {
            "csrf_field": lambda: csrf_field(self._desk, binding),
            "publish_clock": self._desk.publish_clock,
            "flash": None,
            "error": "",
        }

    def _form(
        self,
        request: Request,
        *,
        next_path: str = "",
        email: str = "",
        flash: Flash | None = None,
        refused: DaybreakError | None = None,
        status: int = 200,
    ) -> Response:
        binding = self._form_binding(request) or self._services.random(16).hex()
        context = {
            **self._common(binding),
            "next": next_path,
            "email": email,
            "operator_contact": self._services.settings.operator_contact,
            "flash": flash,
        }
        headers: dict[str, str] = {}
        if refused is not None:
            status = status_of(refused)
            headers = _form_headers(refused)
            if isinstance(refused, Unauthenticated):
                context["error"] = refused.message
            else:
                context["flash"] = _refused(refused)
        response = render(self._desk, request, "sign_in.html", context, status=status, headers=headers)
        set_cookie(
            response,
            "form",
            binding,
            secure=self._desk.secure,
            keyring=self._services.keyring.current(),
            seconds=FORM_COOKIE_SECONDS,
        )
        return response

    def _code_form(
        self,
        request: Request,
        waiting: _Waiting,
        next_path: str,
        *,
        recovery: bool,
        refused: DaybreakError | None = None,
    ) -> Response:
        context = {**self._common(waiting.sid), "next": next_path, "recovery": recovery}
        return self._refusable(request, "second_factor.html", context, refused)

    async def _enrolment_form(
        self, request: Request, waiting: _Waiting, next_path: str, *, refused: DaybreakError | None = None
    ) -> Response:
        enrolment = await begun_enrolment(self._desk, waiting.seat)
        if enrolment is None:
            # Signing in begins it; when that was undone since, signing in again begins another.
            raise SignInNeeded(had_session=True)
        landing = await self._services.state.aread(lambda stores: stores.seats.landing(waiting.seat))
        context = {
            **self._common(waiting.sid),
            "next": next_path,
            "seat": waiting.seat,
            **enrolment_context(enrolment),
            "forced": landing is not None and landing.second_factor_required,
        }
        return self._refusable(request, "enrol.html", context, refused)

    def _refusable(
        self, request: Request, template: str, context: dict[str, object], refused: DaybreakError | None
    ) -> Response:
        status, headers = 200, {}
        if refused is not None:
            status, headers = status_of(refused), _form_headers(refused)
            query = {"next": str(context["next"])} | ({"kind": "recovery"} if context.get("recovery") else {})
            context["leave"] = f"{self._desk.root}{request.url.path.removeprefix(self._desk.root)}?{urlencode(query)}"
            if isinstance(refused, Unauthenticated):
                context["error"] = refused.message
            else:
                context["flash"] = _refused(refused)
        return render(self._desk, request, template, context, status=status, headers=headers)

    def _signed_in(self, outcome: SessionStarted, next_path: str) -> Response:
        response = go_to(self._desk, next_path or f"/dashboard/{outcome.client_id}/files")
        self._give_cookies(response, outcome)
        return response

    async def _owed(self, outcome: SecondFactorOwed, next_path: str) -> Response:
        place = "second-factor"
        if not outcome.enrolled:
            await second_factor.begin_owed_enrolment(self._access, outcome.token)
            place = "enrol"
        query = f"?{urlencode({'next': next_path})}" if next_path else ""
        response = go_to(self._desk, f"/dashboard/{place}{query}")
        self._give_session(response, outcome.session.sid, self._access.settings.waiting_lifetime.total_seconds())
        return response

    def _give_cookies(self, response: Response, outcome: SessionStarted) -> None:
        self._give_session(response, outcome.session.sid, self._access.settings.session_lifetime.total_seconds())
        set_cookie(
            response,
            "device",
            outcome.device_id,
            secure=self._desk.secure,
            keyring=self._services.keyring.current(),
            seconds=_DEVICE_SECONDS,
        )
        clear_cookie(response, "form", secure=self._desk.secure)

    def _give_session(self, response: Response, sid: str, seconds: float) -> None:
        set_cookie(
            response,
            "session",
            sid,
            secure=self._desk.secure,
            keyring=self._services.keyring.current(),
            seconds=int(seconds),
        )


def _digits(code: str) -> str:
    """What was typed, without the spaces and dashes that apps show; other digits become ASCII."""
    return "".join(
        str(unicodedata.digit(letter, letter)) for letter in code if not letter.isspace() and letter not in "-\u2013"
    )


def _refused(error: DaybreakError) -> Flash:
    if isinstance(error, RateLimited):
        return Flash("warn", "Too many attempts.", f"The next one counts in {span(float(error.retry_after_seconds))}.")
    if isinstance(error, Unavailable):
        return Flash("warn", "Not at this moment.", error.message)
    return Flash("warn", error.message)


def _form_headers(error: DaybreakError) -> dict[str, str]:
    # No challenge: a browser must not ask for a password of its own.
    return {name: value for name, value in problem_headers(error).items() if name != "WWW-Authenticate"}
