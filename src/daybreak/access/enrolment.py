"""Enrolment of a second factor, during a session or a login that requires one, and its recovery codes."""

import io
from dataclasses import dataclass

from daybreak.access.end_credentials import EndReason, end_credentials
from daybreak.access.login import SessionStarted, find_device, updated_device
from daybreak.access.second_factor import LoginCompletion, count_attempt, decrypt_seed, invalid_code
from daybreak.access.security_events import second_factor_changed
from daybreak.access.services import Services
from daybreak.access.sessions import ActiveSession, pending_login, renew, require_recent_password
from daybreak.credentials import totp
from daybreak.domain.errors import Conflict, Forbidden, RequestError
from daybreak.domain.identity import Caller, ResolvedSession, Seat, Session
from daybreak.state.stores import Stores

# The name that authenticator apps show next to the email.
_PRODUCT = "Daybreak"


@dataclass(frozen=True, slots=True)
class Enrolment:
    """Key for the setup of an authenticator app, in three forms. Shown once, never logged.

    `qr_svg` is an SVG element of `otpauth_uri`; `manual_key` is base32.
    """

    manual_key: str
    otpauth_uri: str
    qr_svg: str


@dataclass(frozen=True, slots=True)
class Enrolled:
    """Ten recovery codes, to be shown once, and the session, with the login that the enrolment completed, if any."""

    recovery_codes: tuple[str, ...]
    session: Session
    started: SessionStarted | None = None


async def begin(services: Services, active: ActiveSession) -> Enrolment:
    """Create a new seed. The current second factor stays valid until the new one is confirmed.

    Raises Forbidden(reauthentication_required).
    """
    require_recent_password(services, active.session)
    return await _begin(services, active.seat)


async def begin_required(services: Services, token: str) -> Enrolment:
    """Create a new seed for a pending dashboard login of a seat without a second factor.

    Raises Unauthenticated; Forbidden(second_factor_required) for any other pending login.
    """
    return await _begin(services, (await _login_that_may_enrol(services, token)).seat)


async def confirm(services: Services, active: ActiveSession, code: str, caller: Caller) -> Enrolled:
    """Activate the new seed with one of its codes. Other sessions of the seat end; a dashboard session gets a new id.

    Raises Unauthenticated (`invalid_code`, `session_ended`), Conflict when no enrolment was started, RateLimited,
    Forbidden.
    """
    require_recent_password(services, active.session)
    return await _confirm(LoginCompletion(services, active.resolved, caller, None, services.clock(), "otp"), code)


async def confirm_required(
    services: Services, token: str, code: str, caller: Caller, *, device_id: str | None = None
) -> Enrolled:
    """Activate the new seed of a pending dashboard login, which completes the login. Raises as `confirm` does."""
    login = await _login_that_may_enrol(services, token)
    return await _confirm(LoginCompletion(services, login, caller, device_id, services.clock(), "otp"), code)


async def replace_recovery_codes(services: Services, active: ActiveSession, caller: Caller) -> tuple[str, ...]:
    """Replace the recovery codes with ten new ones and return them.

    Raises Forbidden(reauthentication_required), Conflict when the seat has no second factor.
    """
    require_recent_password(services, active.session)
    codes = totp.new_recovery_codes(services.random)
    hashes = recovery_hashes(codes, active.seat.seat_id)
    now = services.clock()
    event = active.origin(now, caller).event("second_factor.recovery_codes_replaced", "ok")
    notice = second_factor_changed(active.seat, now, "recovery_codes_replaced", address=caller.address)

    def write(stores: Stores) -> RequestError | None:
        # Locked, because parallel replacements would keep the codes of each other.
        seat = stores.seats.get_for_update(active.seat.seat_id)
        if seat is None or not seat.second_factor_enrolled:
            return Conflict("Set up the second factor first.")
        stores.seats.replace_recovery_codes(seat.seat_id, hashes)
        stores.audit.append(event)
        stores.outbox.add(notice)
        return None

    await services.commit(write)
    return codes


def enrolment_of(seed: bytes, *, email: str) -> Enrolment:
    """Return the key, otpauth URI and QR code of a seed."""
    # Imported here, because only enrolments draw QR codes.
    import segno

    uri = totp.otpauth_uri(seed, issuer=_PRODUCT, email=email)
    svg = io.BytesIO()
    segno.make(uri, error="m", micro=False).save(
        svg, kind="svg", xmldecl=False, svgns=True, scale=4, border=4, omitsize=False, dark="#000", light="#fff"
    )
    return Enrolment(totp.manual_key(seed), uri, svg.getvalue().decode().strip())


def recovery_hashes(codes: tuple[str, ...], seat_id: str) -> list[str]:
    """Return the stored form of recovery codes."""
    return [totp.recovery_digest(code, seat_id=seat_id) for code in codes]


async def _login_that_may_enrol(services: Services, token: str) -> ResolvedSession:
    login = await pending_login(services, token)
    # An existing factor must be used, not replaced, and the API does not enrol.
    if login.seat.second_factor_enrolled or login.session.kind != "dashboard":
        raise Forbidden("This login needs a second factor. Send its code first.", code="second_factor_required")
    return login


async def _begin(services: Services, seat: Seat) -> Enrolment:
    now = services.clock()
    seed = services.random(totp.SEED_BYTES)
    sealed = totp.encrypt_seed(seed, seat_id=seat.seat_id, keyring=services.keyring.current(), random=services.random)
    await services.state.awrite(lambda stores: stores.seats.begin_second_factor(seat.seat_id, sealed, now))
    return enrolment_of(seed, email=seat.email)


async def _confirm(completion: LoginCompletion, code: str) -> Enrolled:
    services, now = completion.services, completion.now
    seat, session = completion.login.seat, completion.login.session
    throttle_key = await count_attempt(services, seat, now, completion.device_id or session.device_id)
    sealed = await services.state.aread(lambda stores: stores.seats.pending_seed(seat.seat_id))
    if sealed is None:
        raise Conflict("No enrolment was started. Start again.")
    step = totp.matching_step(decrypt_seed(services, sealed, seat), code, now.timestamp())
    codes = totp.new_recovery_codes(services.random)
    hashes = recovery_hashes(codes, seat.seat_id)

    def write(stores: Stores) -> Enrolled | RequestError:
        current = stores.seats.get_for_update(seat.seat_id)
        if step is None or stores.seats.pending_seed(seat.seat_id) != sealed:
            stores.audit.append(completion.event("second_factor.enrolled", "invalid_code"))
            return invalid_code()
        if current is None or (session.awaiting_second_factor and current.second_factor_enrolled):
            return Conflict("This seat already has a second factor.")
        # Enrolment makes all devices unknown. The code makes the device of this session known again.
        device = find_device(stores, session.device_id, seat)
        continued = _continued_session(completion, stores)
        if isinstance(continued, RequestError):
            return continued
        stores.seats.confirm_second_factor(seat.seat_id, step, hashes, now)
        if device is not None:
            stores.sessions.save_device(updated_device(services, seat, device, completion.caller, now))
        stores.throttle.clear(throttle_key)
        stores.audit.append(completion.event("second_factor.enrolled", "ok", started=continued))
        address = completion.caller.address
        stores.outbox.add(second_factor_changed(seat, now, "authenticator_enrolled", address=address))
        end_credentials(stores, seat.seat_id, EndReason.FACTOR_ENROLLED, now, keep_sid=continued.sid)
        if not session.awaiting_second_factor:
            return Enrolled(codes, continued)
        started = completion.complete(stores, throttle_key)
        return started if isinstance(started, RequestError) else Enrolled(codes, started.session, started)

    return await services.commit(write)


def _continued_session(completion: LoginCompletion, stores: Stores) -> Session | RequestError:
    """Return the session in which the seat enrolls: a login that can be completed, or a session with a new id."""
    session = completion.login.session
    if session.awaiting_second_factor:
        return completion.fault(stores) or session
    return renew(completion.services, stores, session, completion.now, EndReason.FACTOR_ENROLLED)
