"""The authentication endpoints: login, second factor, contexts, logout."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from daybreak.access import second_factor, sessions
from daybreak.access.login import SecondFactorOwed, SessionStarted, login
from daybreak.access.reach import beside_requests
from daybreak.web.answers import (
    CodeRequest,
    ContextList,
    ContextRequest,
    EnrolmentResult,
    EnrolmentView,
    LoginRequest,
    LoginResult,
    PasswordRequest,
    RecoveryCodesResult,
    RecoveryCodesView,
    SwitchResult,
    SwitchView,
    context_view,
    json_answer,
)
from daybreak.web.authentication import bearer, session_of, waiting_of
from daybreak.web.bodies import read_json
from daybreak.web.request_facts import facts_of
from daybreak.web.routing import Route, methods
from daybreak.web.services import Services


def auth_routes(services: Services) -> list[Route]:
    """The routes below /download/v2/auth."""
    endpoints = _AuthEndpoints(services)
    return [
        methods("/download/v2/auth/login", POST=endpoints.log_in),
        methods("/download/v2/auth/login/callback/mfa", POST=endpoints.second_factor),
        methods("/download/v2/auth/context", GET=endpoints.contexts, PUT=endpoints.switch),
        methods("/download/v2/auth/logout", DELETE=endpoints.log_out),
        methods("/download/v2/auth/reauthenticate", POST=endpoints.reauthenticate),
        methods("/download/v2/auth/second-factor", POST=endpoints.begin_enrolment),
        methods("/download/v2/auth/second-factor/confirm", POST=endpoints.confirm_enrolment),
    ]


class _AuthEndpoints:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def log_in(self, request: Request) -> Response:
        sent = await read_json(request, LoginRequest, self._services.settings)
        outcome = await login(
            self._services.access,
            email=sent.email,
            password=sent.password,
            caller=facts_of(request).caller,
            device_id=_device_id(request),
        )
        return json_answer(_login_result(outcome))

    async def second_factor(self, request: Request) -> Response:
        # Who may not ask at all is told so before the body is read.
        await waiting_of(request, self._services)
        sent = await read_json(request, CodeRequest, self._services.settings)
        outcome = await second_factor.answer(
            self._services.access,
            bearer(request),
            sent.totp,
            facts_of(request).caller,
            device_id=_device_id(request),
        )
        return json_answer(_login_result(outcome))

    async def contexts(self, request: Request) -> Response:
        who = await session_of(request, self._services)
        found = await sessions.contexts(self._services.access, who)

        def answer() -> Response:
            return json_answer(ContextList(tuple(context_view(context) for context in found)))

        return await beside_requests(len(found), answer)

    async def switch(self, request: Request) -> Response:
        who = await session_of(request, self._services)
        sent = await read_json(request, ContextRequest, self._services.settings)
        switched = await sessions.switch(self._services.access, who, sent.context.lower(), facts_of(request).caller)
        return json_answer(SwitchResult(SwitchView(switched.client_id, switched.seat_id, switched.token)))

    async def log_out(self, request: Request) -> Response:
        who = await session_of(request, self._services)
        await sessions.logout(self._services.access, who, facts_of(request).caller)
        return Response(status_code=204)

    async def reauthenticate(self, request: Request) -> Response:
        who = await session_of(request, self._services)
        sent = await read_json(request, PasswordRequest, self._services.settings)
        caller = facts_of(request).caller
        await sessions.reauthenticate(self._services.access, who, sent.password, caller)
        return Response(status_code=204)

    async def begin_enrolment(self, request: Request) -> Response:
        who = await session_of(request, self._services)
        begun = await second_factor.begin_enrolment(self._services.access, who)
        view = EnrolmentView(begun.manual_key, begun.otpauth_uri, begun.qr_svg)
        return json_answer(EnrolmentResult(view))

    async def confirm_enrolment(self, request: Request) -> Response:
        who = await session_of(request, self._services)
        sent = await read_json(request, CodeRequest, self._services.settings)
        caller = facts_of(request).caller
        enrolled = await second_factor.confirm_enrolment(self._services.access, who, sent.totp, caller)
        return json_answer(RecoveryCodesResult(RecoveryCodesView(enrolled.recovery_codes)))


def _login_result(outcome: SessionStarted | SecondFactorOwed) -> LoginResult:
    if isinstance(outcome, SecondFactorOwed):
        return LoginResult(seat_id=outcome.seat_id, token=outcome.token)
    return LoginResult(
        seat_id=outcome.seat_id,
        token=outcome.token,
        client_id=outcome.client_id,
        device_id=outcome.device_id,
    )


def _device_id(request: Request) -> str | None:
    """The device the client says it is."""
    return request.headers.get("x-device-id", "").strip().lower() or None
