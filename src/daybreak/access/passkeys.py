"""Passkeys of a seat: adding, renaming and removing them, and their challenges.

A passkey is an additional second factor of a seat that has an authenticator app, which the API's login needs.
"""

from datetime import timedelta
from functools import partial

from msgspec.structs import replace

from daybreak.access.names import normalize_name
from daybreak.access.security_events import second_factor_changed
from daybreak.access.services import Services
from daybreak.access.sessions import ActiveSession, require_recent_password
from daybreak.credentials import passkeys
from daybreak.credentials.passkeys import CHALLENGE_BYTES, InvalidPasskeyResponse, RelyingParty
from daybreak.domain.errors import Conflict, NotFound, RequestError, Unauthenticated
from daybreak.domain.identity import Caller, Passkey, Seat, Session
from daybreak.state.stores import Stores

MAX_PASSKEYS = 10
CHALLENGE_LIFETIME = timedelta(milliseconds=passkeys.TIMEOUT_MILLISECONDS)
_NAME_SUBJECT = "A passkey name"


def are_available(services: Services) -> bool:
    """Return whether browsers offer passkeys at `base_url`."""
    return passkeys.relying_party(services.settings.base_url) is not None


async def list_of_seat(services: Services, seat: Seat) -> list[Passkey]:
    """Return the passkeys of a seat, oldest first."""
    return await services.state.aread(lambda stores: stores.passkeys.list_for(seat.seat_id))


async def begin_adding(services: Services, active: ActiveSession) -> str:
    """Return the JSON options with which the browser creates a passkey, and store their challenge.

    Raises Forbidden(reauthentication_required); Conflict without an authenticator app, or with too many passkeys.
    """
    require_recent_password(services, active.session)
    party, seat = relying_party(services), active.seat
    existing = await list_of_seat(services, seat)
    fault = _fault(seat, existing)
    if fault is not None:
        raise fault
    challenge = await new_challenge(services, active.session)
    options = partial(
        passkeys.creation_options,
        party,
        challenge=challenge,
        seat_id=seat.seat_id,
        email=seat.email,
        existing=[each.credential_id for each in existing],
    )
    return await services.threads.run(seat.seat_id, options)


async def add(services: Services, active: ActiveSession, *, name: str, response: str, caller: Caller) -> Passkey:
    """Add the passkey that the browser created.

    Raises InvalidRequest for the name, Unauthenticated(invalid_passkey), and as `begin_adding` does.
    """
    require_recent_password(services, active.session)
    party, now, origin = relying_party(services), services.clock(), active.origin(services.clock(), caller)
    normalized_name = normalize_name(name, subject=_NAME_SUBJECT)
    challenge = await services.state.awrite(lambda stores: stores.passkeys.take_challenge(active.session.sid, now))
    try:
        if challenge is None:
            raise InvalidPasskeyResponse("no challenge was issued, or it has expired")
        verify = partial(passkeys.verify_creation, party, response, challenge=bytes.fromhex(challenge))
        key = await services.threads.run(active.seat.seat_id, verify)
    except InvalidPasskeyResponse:
        await services.record(origin.event("passkey.added", "invalid_passkey", {"name": normalized_name}))
        raise invalid_passkey() from None
    passkey = Passkey(key.credential_id, active.seat.seat_id, key.public_key, key.sign_count, normalized_name, now)

    def write(stores: Stores) -> RequestError | None:
        # The lock counts passkeys that are added at the same time.
        seat = stores.seats.get_for_update(passkey.seat_id)
        fault = _fault(seat, stores.passkeys.list_for(passkey.seat_id))
        if fault is None and not stores.passkeys.add(passkey):
            fault = Conflict("This passkey is already registered.")
        if fault is None:
            stores.audit.append(origin.event("passkey.added", "ok", {"name": passkey.name}))
            stores.outbox.add(second_factor_changed(active.seat, now, "passkey_added", address=caller.address))
        return fault

    await services.commit(write)
    return passkey


async def find(services: Services, seat: Seat, reference: str) -> Passkey:
    """Return the passkey of a seat with that reference. Raises NotFound."""
    for passkey in await list_of_seat(services, seat):
        if passkey.reference == reference:
            return passkey
    raise _unknown()


async def rename(services: Services, active: ActiveSession, passkey: Passkey, name: str, caller: Caller) -> Passkey:
    """Rename a passkey of the seat. Raises InvalidRequest, NotFound when it was removed."""
    renamed = replace(passkey, name=normalize_name(name, subject=_NAME_SUBJECT))
    event = active.origin(services.clock(), caller).event(
        "passkey.renamed", "ok", {"name": renamed.name, "previous_name": passkey.name}
    )

    def write(stores: Stores) -> None:
        if not stores.passkeys.rename(passkey, renamed.name):
            raise _unknown()
        stores.audit.append(event)

    await services.state.awrite(write)
    return renamed


async def remove(services: Services, active: ActiveSession, passkey: Passkey, caller: Caller) -> bool:
    """Remove a passkey of the seat. Returns False when it was removed before.

    Raises Forbidden(reauthentication_required).
    """
    require_recent_password(services, active.session)
    now = services.clock()
    event = active.origin(now, caller).event("passkey.removed", "ok", {"name": passkey.name})

    def write(stores: Stores) -> bool:
        removed = stores.passkeys.remove(passkey)
        if removed:
            stores.audit.append(event)
            stores.outbox.add(second_factor_changed(active.seat, now, "passkey_removed", address=caller.address))
        return removed

    return await services.state.awrite(write)


def relying_party(services: Services) -> RelyingParty:
    """Return the relying party of the service. Raises NotFound where browsers offer no passkeys."""
    party = passkeys.relying_party(services.settings.base_url)
    if party is None:
        raise NotFound("Passkeys need an https address with a host name.")
    return party


async def new_challenge(services: Services, session: Session) -> bytes:
    """Store a new challenge for a session, in place of an earlier one, and return it."""
    challenge = services.random(CHALLENGE_BYTES)
    expires_at = services.clock() + CHALLENGE_LIFETIME
    await services.state.awrite(lambda stores: stores.passkeys.set_challenge(session.sid, challenge.hex(), expires_at))
    return challenge


def invalid_passkey() -> Unauthenticated:
    """Return the error of a response that does not prove possession of an accepted passkey."""
    return Unauthenticated("The passkey was not accepted. Try again.", code="invalid_passkey")


def _unknown() -> NotFound:
    return NotFound("You have no such passkey.")


def _fault(seat: Seat | None, existing: list[Passkey]) -> Conflict | None:
    """Return why a seat may not add a passkey, None if it may."""
    if seat is None or not seat.second_factor_enrolled:
        return Conflict("Set up the authenticator app first.")
    if len(existing) >= MAX_PASSKEYS:
        return Conflict(f"You have {MAX_PASSKEYS} passkeys. Remove one first.", code="too_many_passkeys")
    return None
