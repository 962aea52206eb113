"""The second factor: enrolment, the call after the password, recovery codes.

A step is accepted once and the waiting login succeeds once, both in one transaction. Attempts are
counted before the code is looked at.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from msgspec.structs import replace

from daybreak.access import throttle
from daybreak.access.login import SessionStarted, device_of, known_device, started
from daybreak.access.services import AccessServices
from daybreak.access.sessions import SignedIn, Waiting, own_event, require_recent, waiting
from daybreak.access.trail import event
from daybreak.credentials import totp
from daybreak.domain.audit import AuditEvent
from daybreak.domain.errors import (
    Conflict,
    Forbidden,
    RequestError,
    Unauthenticated,
    Unavailable,
)
from daybreak.domain.identity import Caller, Seat, Session
from daybreak.ports.state import Stores

Proof = Literal["otp", "recovery"]
# The name that authenticator apps show beside the email.
_PRODUCT = "Daybreak"


@dataclass(frozen=True, slots=True)
class Enrolment:
    """What a person needs to set up an authenticator app. Shown once, never logged.

    `qr_svg` is a whole SVG element of the otpauth address; `manual_key` is base32.
    """

    manual_key: str
    otpauth_uri: str
    qr_svg: str


@dataclass(frozen=True, slots=True)
class Enrolled:
    """Ten recovery codes, to be shown once; the login, when one was waiting for this."""

    recovery_codes: tuple[str, ...]
    started: SessionStarted | None = None


async def answer(
    services: AccessServices,
    token: str,
    code: str,
    caller: Caller,
    *,
    device_id: str | None = None,
) -> SessionStarted:
    """The second factor's call: the waiting token and a six-digit code to a session.

    Raises Unauthenticated (`invalid_token`, `session_ended`, `invalid_code`),
    Forbidden (`second_factor_not_enrolled`, `no_active_account`), RateLimited, Unavailable.
    """
    return await _finish(services, token, code, caller, device_id=device_id, proof="otp")


async def answer_with_recovery_code(
    services: AccessServices,
    token: str,
    code: str,
    caller: Caller,
    *,
    device_id: str | None = None,
) -> SessionStarted:
    """The same with one of the ten recovery codes, which is used up by it. For the dashboard."""
    return await _finish(services, token, code, caller, device_id=device_id, proof="recovery")


async def begin_enrolment(services: AccessServices, who: SignedIn) -> Enrolment:
    """A new seed for somebody who is signed in and showed the password lately; the factor they
    have stays until the new one is confirmed. Raises Forbidden(reauthentication_required)."""
    require_recent(services, who.session)
    return await _begin(services, who.seat)


async def begin_owed_enrolment(services: AccessServices, token: str) -> Enrolment:
    """A new seed for a dashboard login that owes a second factor and has none.

    Raises Unauthenticated; Forbidden(second_factor_required) for any other waiting token.
    """
    return await _begin(services, _may_enrol(await waiting(services, token)).seat)


async def confirm_enrolment(services: AccessServices, who: SignedIn, code: str, caller: Caller) -> Enrolled:
    """A code of the new seed makes it the seat's factor. Other sessions of the seat end.

    Raises Unauthenticated(invalid_code), Conflict when none was begun, RateLimited, Forbidden.
    """
    require_recent(services, who.session)
    return await _confirm(services, who.seat, who.session, code, caller)


async def confirm_owed_enrolment(
    services: AccessServices,
    token: str,
    code: str,
    caller: Caller,
    *,
    device_id: str | None = None,
) -> Enrolled:
    """The same for a dashboard login that waits, which is complete with it."""
    held = _may_enrol(await waiting(services, token))
    return await _confirm(services, held.seat, held.session, code, caller, device_id=device_id)


async def new_recovery_codes(services: AccessServices, who: SignedIn, caller: Caller) -> tuple[str, ...]:
    """Ten new codes in the place of the old ones. Raises Forbidden(reauthentication_required),
    Conflict when the seat has no second factor."""
    require_recent(services, who.session)
    if not who.seat.second_factor_enrolled:
        raise Conflict("Set up the second factor first.")
    now = services.clock()
    codes = totp.new_recovery_codes(services.random)
    hashes = recovery_hashes(codes, who.seat.seat_id)

    def work(stores: Stores) -> None:
        stores.seats.replace_recovery_codes(who.seat.seat_id, hashes)
        stores.audit.append(own_event("second_factor.recovery_codes_replaced", now, caller, who))

    await services.state.awrite(work)
    return codes


def enrolment_of(seed: bytes, *, email: str) -> Enrolment:
    """Key, address and QR code of a seed."""
    # Imported here: only enrolment draws.
    import segno

    uri = totp.otpauth_uri(seed, issuer=_PRODUCT, email=email)
    drawn = io.BytesIO()
    segno.make(uri, error="m", micro=False).save(
        drawn,
        kind="svg",
        xmldecl=False,
        svgns=True,
        scale=4,
        border=4,
        omitsize=False,
        dark="#000",
        light="#fff",
    )
    return Enrolment(totp.manual_key(seed), uri, drawn.getvalue().decode().strip())


def recovery_hashes(codes: tuple[str, ...], seat_id: str) -> list[str]:
    """What is stored of recovery codes."""
    return [totp.recovery_digest(code, seat_id=seat_id) for code in codes]


def _may_enrol(held: Waiting) -> Waiting:
    # A factor that exists must be shown, not replaced; and a token of the API enrols nothing.
    if held.seat.second_factor_enrolled or held.session.kind != "dashboard":
        raise Forbidden("The second factor is still owed.", code="second_factor_required")
    return held


async def _begin(services: AccessServices, seat: Seat) -> Enrolment:
    now = services.clock()
    seed = services.random(totp.SEED_BYTES)
    sealed = totp.seal(seed, seat_id=seat.seat_id, keyring=services.keyring.current(), random=services.random)
    await services.state.awrite(lambda stores: stores.seats.begin_second_factor(seat.seat_id, sealed, now))
    return enrolment_of(seed, email=seat.email)


async def _confirm(
    services: AccessServices,
    seat: Seat,
    session: Session,
    code: str,
    caller: Caller,
    *,
    device_id: str | None = None,
) -> Enrolled:
    now = services.clock()
    rules = throttle.second_factor_rules(services.settings.limits, seat_id=seat.seat_id)
    await throttle.admit(services.state, rules, now)
    sealed = await services.state.aread(lambda stores: stores.seats.pending_seed(seat.seat_id))
    if sealed is None:
        raise Conflict("No enrolment was begun. Begin it again.")
    step = totp.matching_step(_open(services, sealed, seat), code, now.timestamp())
    codes = totp.new_recovery_codes(services.random)
    hashes = recovery_hashes(codes, seat.seat_id)
    login = _Completion(services, seat, session, caller, device_id, now, "otp")

    def work(stores: Stores) -> SessionStarted | RequestError | None:
        current = stores.seats.held(seat.seat_id)
        begun = stores.seats.pending_seed(seat.seat_id)
        if step is None or begun != sealed:
            stores.audit.append(login.event("second_factor.enrolled", "invalid_code"))
            return _invalid_code()
        if current is None or (session.awaiting_second_factor and current.second_factor_enrolled):
            return Conflict("This seat has a second factor already.")
        stores.seats.confirm_second_factor(seat.seat_id, step, hashes, now)
        stores.throttle.clear(rules[0].key)
        stores.audit.append(login.event("second_factor.enrolled", "ok"))
        stores.sessions.end_all(seat.seat_id, now, "second factor enrolled", keep_sid=session.sid)
        return login.write(stores) if session.awaiting_second_factor else None

    outcome = await services.state.awrite(work)
    if isinstance(outcome, RequestError):
        raise outcome
    return Enrolled(codes, outcome)


async def _finish(
    services: AccessServices,
    token: str,
    code: str,
    caller: Caller,
    *,
    device_id: str | None,
    proof: Proof,
) -> SessionStarted:
    held = await waiting(services, token)
    seat, now = held.seat, services.clock()
    if not seat.second_factor_enrolled:
        raise Forbidden(
            "A second factor is required and this seat has none. Sign in to the dashboard, under "
            f"{services.settings.issuer}/dashboard, to set one up.",
            code="second_factor_not_enrolled",
        )
    rules = throttle.second_factor_rules(services.settings.limits, seat_id=seat.seat_id)
    await throttle.admit(services.state, rules, now)
    step = await _step_of(services, seat, code, now) if proof == "otp" else None
    recovery = totp.recovery_digest(code, seat_id=seat.seat_id) if proof == "recovery" else None
    login = _Completion(services, seat, held.session, caller, device_id, now, proof)

    def work(stores: Stores) -> SessionStarted | RequestError:
        if step is not None:
            good = stores.seats.accept_step(seat.seat_id, step)
        else:
            good = recovery is not None and stores.seats.use_recovery_code(seat.seat_id, recovery, now)
        if not good:
            stores.audit.append(login.event("second_factor", "invalid_code"))
            return _invalid_code()
        stores.throttle.clear(rules[0].key)
        return login.write(stores)

    outcome = await services.state.awrite(work)
    if isinstance(outcome, RequestError):
        raise outcome
    return outcome


async def _step_of(services: AccessServices, seat: Seat, code: str, now: datetime) -> int | None:
    sealed = await services.state.aread(lambda stores: stores.seats.sealed_seed(seat.seat_id))
    if sealed is None:
        return None
    return totp.matching_step(_open(services, sealed, seat), code, now.timestamp())


def _open(services: AccessServices, sealed: str, seat: Seat) -> bytes:
    try:
        return totp.unseal(sealed, seat_id=seat.seat_id, keyring=services.keyring.current())
    except totp.SealBroken:
        # A keyring that was replaced rather than rotated: nothing the person can do.
        raise Unavailable(
            "The second factor cannot be checked here. The operator has to reset it, or to bring back the keyring.",
            code="second_factor_unreadable",
            retry_after_seconds=300,
        ) from None


@dataclass(frozen=True, slots=True)
class _Completion:
    """A waiting login that becomes a session, within the transaction of its proof."""

    services: AccessServices
    seat: Seat
    session: Session
    caller: Caller
    device_id: str | None
    now: datetime
    proof: Proof

    def write(self, stores: Stores) -> SessionStarted | RequestError:
        landing = stores.seats.landing(self.seat)
        if landing is None:
            return Forbidden("None of the accounts in reach of this seat is active.", code="no_active_account")
        known = known_device(stores, self.device_id, self.seat)
        device = device_of(self.services, self.seat, known, self.caller, self.now)
        stores.sessions.remember_device(device)
        complete = replace(
            self.session,
            awaiting_second_factor=False,
            device_id=device.device_id,
            # The session's seven days count from the login.
            expires_at=self.session.started_at + self.services.settings.session_lifetime,
            amr=("pwd", self.proof),
        )
        if not stores.sessions.pass_second_factor(
            complete.sid,
            device_id=device.device_id,
            expires_at=complete.expires_at,
            amr=complete.amr,
        ):
            return Unauthenticated("This login is over. Sign in again.", code="session_ended")
        stores.seats.set_last_client(self.seat.seat_id, landing.client_id)
        stores.audit.append(self.event("second_factor", "ok", landing.client_id))
        return started(self.services, complete, landing.client_id, device.device_id, self.now)

    def event(self, action: str, result: str, client_id: str | None = None) -> AuditEvent:
        return event(
            action,
            result,
            at=self.now,
            caller=self.caller,
            seat=self.seat,
            client_id=client_id,
            subject=f"session:{self.session.sid}",
            details={"proof": self.proof},
        )


def _invalid_code() -> Unauthenticated:
    return Unauthenticated("The code is not right, or was used before.", code="invalid_code")
