"""Sign-in and reauthentication of a seat by a verified user of the single sign-on provider.

The first sign-in by email binds the user to the seat. From then on the user's subject decides, and the email does not:
a changed address at the provider neither moves access nor lets another user take the seat.
"""

from __future__ import annotations

import string
from datetime import UTC, datetime

from daybreak.access.end_credentials import EndReason, end_credentials
from daybreak.access.login import SecondFactorPending, SessionStart, SessionStarted, find_device
from daybreak.access.services import Services
from daybreak.access.sessions import ActiveSession, mark_reauthenticated, session_ended
from daybreak.access.single_sign_on import SignInRefused, VerifiedResponse, login_details, record_refusal
from daybreak.credentials.id_token import CLOCK_SKEW_SECONDS, IdToken
from daybreak.domain.audit import EventOrigin
from daybreak.domain.email_address import is_email_address
from daybreak.domain.errors import RequestError
from daybreak.domain.identity import Caller, Seat, SeatIdentity, Session
from daybreak.settings import OidcSettings
from daybreak.state.stores import Stores

_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


async def sign_in(
    services: Services,
    response: VerifiedResponse,
    caller: Caller,
    *,
    device_id: str | None,
    held_sid: str | None = None,
) -> SessionStarted | SecondFactorPending:
    """Start a dashboard session for the seat of a verified user. The session that the browser held before ends.

    Raises SignInRefused, Forbidden(no_active_account). Refusals are recorded in the audit trail.
    """
    now, settings, id_token = services.clock(), services.settings.oidc, response.id_token
    start: SessionStart | None = None

    def write(stores: Stores) -> Session | RequestError:
        nonlocal start
        seat = _seat_of(stores, id_token, settings, now, caller)
        if isinstance(seat, RequestError):
            return seat
        trusted = settings.trust_second_factor and id_token.second_factor
        start = SessionStart(
            services,
            seat,
            caller,
            find_device(stores, device_id, seat),
            "dashboard",
            now,
            ("sso", "mfa") if trusted else ("sso",),
            proved_at=_proved_at(id_token, now),
            held_sid=held_sid,
            details=login_details(settings),
        )
        return start.write(stores, seat)

    outcome = await services.state.awrite(write)
    if isinstance(outcome, SignInRefused):
        await record_refusal(services, EventOrigin(now, caller), outcome, id_token.subject)
    if isinstance(outcome, RequestError):
        raise outcome
    assert start is not None
    return start.result(outcome)


async def reauthenticate(
    services: Services, active: ActiveSession, response: VerifiedResponse, caller: Caller
) -> Session:
    """Record that the user of a session has entered the credentials at the provider again. The session gets a new id.

    Returns the session. Raises SignInRefused, Unauthenticated(session_ended). Both are recorded in the audit trail.
    """
    now, details = services.clock(), login_details(services.settings.oidc)

    def write(stores: Stores) -> Session | RequestError:
        refused = _reauthentication_fault(stores, active, response)
        if refused is not None:
            stores.audit.append(active.origin(now, caller).event("reauthenticated", refused.reason, details))
            return refused
        return mark_reauthenticated(services, stores, active, caller, now, details) or session_ended()

    return await services.commit(write)


def _seat_of(
    stores: Stores, id_token: IdToken, settings: OidcSettings, now: datetime, caller: Caller
) -> Seat | SignInRefused:
    """Return the locked seat of a user, bound now if the email matches, or the refusal."""
    bound = stores.identities.find(id_token.issuer, id_token.subject)
    if bound is None and settings.match == "email":
        return _bind_by_email(stores, id_token, settings, now, caller)
    seat = stores.seats.get_for_update(bound.seat_id) if bound is not None else None
    # The lock waits for an operator who unbinds the seat, so the binding is read again.
    if seat is None or stores.identities.find(id_token.issuer, id_token.subject) is None:
        return _no_access("no_seat", settings)
    return seat if not seat.disabled else _no_access("seat_disabled", settings)


def _bind_by_email(
    stores: Stores, id_token: IdToken, settings: OidcSettings, now: datetime, caller: Caller
) -> Seat | SignInRefused:
    if id_token.email is None or not is_email_address(id_token.email):
        return SignInRefused(
            "no_email", f"{settings.name} did not send your email address. Ask your operator to check the scopes."
        )
    if not id_token.email_verified:
        return SignInRefused(
            "email_unverified",
            f"{settings.name} has not verified your email address. Verify it there and sign in again, or ask your "
            "operator.",
        )
    found = stores.seats.by_email(id_token.email)
    seat = stores.seats.get_for_update(found.seat_id) if found is not None else None
    # Seats are found by case-folded emails, which can be equal for different mailboxes, such as strasse and straße.
    if seat is None or seat.email.translate(_ASCII_LOWER) != id_token.email.translate(_ASCII_LOWER):
        return _no_access("no_seat", settings)
    if seat.disabled:
        return _no_access("seat_disabled", settings)
    subjects = [each.subject for each in stores.identities.list_for(seat.seat_id) if each.issuer == id_token.issuer]
    if subjects and id_token.subject not in subjects:
        return _no_access("bound_to_another_user", settings)
    if not subjects:
        stores.identities.add(SeatIdentity(id_token.issuer, id_token.subject, seat.seat_id, now))
        end_credentials(stores, seat.seat_id, EndReason.IDENTITY_BOUND, now)
        stores.audit.append(EventOrigin(now, caller, seat).event("identity.bound", "ok", login_details(settings)))
    return seat


def _reauthentication_fault(stores: Stores, active: ActiveSession, response: VerifiedResponse) -> SignInRefused | None:
    """Return why a response does not reauthenticate the session, None if it does."""
    request, id_token = response.request, response.id_token
    bound = stores.identities.find(id_token.issuer, id_token.subject)
    if request.sid != active.session.sid or bound is None or bound.seat_id != active.seat.seat_id:
        return SignInRefused("another_user", "You signed in as another user. Confirm as the user of this session.")
    # A provider that ignores max_age must not pass off an earlier sign-in as a new one (OpenID Connect Core §3.1.2.1).
    if id_token.auth_time is None or id_token.auth_time + CLOCK_SKEW_SECONDS < request.started_at:
        return SignInRefused("not_reauthenticated", "The provider did not ask for your credentials. Try again.")
    return None


def _proved_at(id_token: IdToken, now: datetime) -> datetime | None:
    """Return when the user entered the credentials at the provider, None if the provider does not state it."""
    if id_token.auth_time is None or id_token.auth_time < 0:
        return None
    return min(now, datetime.fromtimestamp(min(id_token.auth_time, now.timestamp()), UTC))


def _no_access(reason: str, settings: OidcSettings) -> SignInRefused:
    # One text for all reasons: it does not state which seats exist.
    return SignInRefused(reason, f"Your user at {settings.name} has no access to this service. Ask your operator.")
