"""Completion of a login with a passkey.

A challenge is accepted once. An attempt is counted before the response is checked, against the same limits as codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from daybreak.access import passkeys
from daybreak.access.login import SessionStarted
from daybreak.access.second_factor import LoginCompletion, count_attempt
from daybreak.access.services import Services
from daybreak.access.sessions import pending_login
from daybreak.credentials.passkeys import (
    InvalidPasskeyResponse,
    RelyingParty,
    claimed_credential_id,
    request_options,
    verify_assertion,
)
from daybreak.domain.errors import NotFound, RequestError, Unauthenticated
from daybreak.domain.identity import Caller, Passkey, ResolvedSession
from daybreak.state.stores import Stores


async def begin(services: Services, token: str) -> str:
    """Return the JSON options with which the browser uses a passkey for a pending login, and store their challenge.

    Raises Unauthenticated(session_ended); NotFound when the seat has no passkey.
    """
    party, login = passkeys.relying_party(services), await pending_login(services, token)
    accepted = await passkeys.list_of_seat(services, login.seat)
    if not accepted:
        raise NotFound("You have no passkey. Enter a code of your authenticator app.")
    challenge = await passkeys.new_challenge(services, login.session)
    accepted_ids = [each.credential_id for each in accepted]
    options = partial(request_options, party, challenge=challenge, accepted=accepted_ids)
    return await services.threads.run(login.seat.seat_id, options)


async def complete_login(
    services: Services, token: str, response: str, caller: Caller, *, device_id: str | None = None
) -> SessionStarted:
    """Complete a pending login with the browser's response.

    Raises Unauthenticated (`invalid_token`, `session_ended`, `invalid_passkey`, `passkey_cloned`),
    Forbidden(no_active_account), RateLimited, NotFound where passkeys are not available.
    """
    party, login, now = passkeys.relying_party(services), await pending_login(services, token), services.clock()
    throttle_key = await count_attempt(services, login.seat, now, device_id)
    proof = await _verify(services, party, login, response, now)
    details = {"name": proof.passkey.name} if proof is not None else {}
    completion = LoginCompletion(services, login, caller, device_id, now, "pop", details)

    def accept(stores: Stores) -> RequestError | None:
        if proof is None or stores.passkeys.find(proof.passkey.credential_id, login.seat.seat_id) is None:
            return passkeys.invalid_passkey()
        if stores.passkeys.record_use(proof.passkey, proof.sign_count, now):
            return None
        return Unauthenticated(
            "This passkey was refused because a copy of it may exist. Enter a code, then remove the passkey in "
            "Security.",
            code="passkey_cloned",
        )

    return await services.commit(lambda stores: completion.write(stores, accept, throttle_key))


@dataclass(frozen=True, slots=True)
class _Proof:
    """A verified signature of a passkey of the seat, and its counter."""

    passkey: Passkey
    sign_count: int


async def _verify(
    services: Services, party: RelyingParty, login: ResolvedSession, response: str, now: datetime
) -> _Proof | None:
    """Return the proof in the browser's response, None when it is invalid. The challenge is used up either way."""
    seat_id = login.seat.seat_id
    challenge = await services.state.awrite(lambda stores: stores.passkeys.take_challenge(login.session.sid, now))
    try:
        credential_id = claimed_credential_id(response)
        passkey = await services.state.aread(lambda stores: stores.passkeys.find(credential_id, seat_id))
        if passkey is None or challenge is None:
            return None
        verify = partial(
            verify_assertion,
            party,
            response,
            challenge=bytes.fromhex(challenge),
            seat_id=seat_id,
            public_key=passkey.public_key,
        )
        sign_count = await services.threads.run(seat_id, verify)
    except InvalidPasskeyResponse:
        return None
    return _Proof(passkey, sign_count)
