"""Completion of a login with a second factor: a code of the authenticator app, a recovery code, or a passkey.

A code or challenge is accepted once and a pending login is completed once, both in one transaction. An attempt is
counted before the code or response is checked, separately for each known device: guesses elsewhere do not block its
owner.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Literal

from msgspec.structs import replace

from daybreak.access import passkeys, throttle
from daybreak.access.login import SessionStarted, find_device, issue_token, no_active_account, updated_device
from daybreak.access.services import Services
from daybreak.access.sessions import is_pending, login_ended, pending_login
from daybreak.credentials import totp
from daybreak.credentials.passkeys import (
    InvalidPasskeyResponse,
    RelyingParty,
    claimed_credential_id,
    request_options,
    verify_assertion,
)
from daybreak.domain.audit import AuditEvent, EventOrigin
from daybreak.domain.errors import Forbidden, NotFound, RequestError, Unauthenticated, Unavailable
from daybreak.domain.identity import Caller, Passkey, ResolvedSession, Seat, Session
from daybreak.state.stores import Stores

# Values of the claim `amr` (RFC 8176 §2): a code, a recovery code, and possession of a passkey's private key. Without
# attestation it is unknown whether that key is in hardware (`hwk`) or in software (`swk`).
Proof = Literal["otp", "recovery", "pop"]


async def complete_login(
    services: Services, token: str, code: str, caller: Caller, *, device_id: str | None = None
) -> SessionStarted:
    """Complete a pending login with a six-digit code.

    Raises Unauthenticated (`invalid_token`, `session_ended`, `invalid_code`), Forbidden (`second_factor_not_enrolled`,
    `no_active_account`), RateLimited, Unavailable.
    """
    login = await _enrolled_login(services, token)
    completion = LoginCompletion(services, login, caller, device_id, services.clock(), "otp")
    throttle_key = await count_attempt(services, login.seat, completion.now, device_id)
    sealed = await services.state.aread(lambda stores: stores.seats.sealed_seed(login.seat.seat_id))
    seed = None if sealed is None else decrypt_seed(services, sealed, login.seat)
    step = None if seed is None else totp.matching_step(seed, code, completion.now.timestamp())

    def accept(stores: Stores) -> RequestError | None:
        accepted = step is not None and stores.seats.use_step(login.seat.seat_id, step)
        return None if accepted else invalid_code()

    return await services.commit(lambda stores: completion.write(stores, accept, throttle_key))


async def complete_login_with_recovery_code(
    services: Services, token: str, code: str, caller: Caller, *, device_id: str | None = None
) -> SessionStarted:
    """Complete a pending login with a recovery code, which is used up. Raises as `complete_login` does."""
    login = await _enrolled_login(services, token)
    completion = LoginCompletion(services, login, caller, device_id, services.clock(), "recovery")
    throttle_key = await count_attempt(services, login.seat, completion.now, device_id)
    digest = totp.recovery_digest(code, seat_id=login.seat.seat_id)

    def accept(stores: Stores) -> RequestError | None:
        accepted = stores.seats.use_recovery_code(login.seat.seat_id, digest, completion.now)
        return None if accepted else invalid_code()

    return await services.commit(lambda stores: completion.write(stores, accept, throttle_key))


async def count_attempt(services: Services, seat: Seat, now: datetime, device_id: str | None) -> str:
    """Count a second-factor attempt of a seat. `device_id` is the one that the client claims.

    Returns the throttle key that a success clears. Raises RateLimited.
    """
    device = await services.state.aread(lambda stores: find_device(stores, device_id, seat))
    rules = throttle.second_factor_rules(
        services.settings.access, seat_id=seat.seat_id, device_id=None if device is None else device.device_id
    )
    await throttle.count_attempt(services.state, rules, now)
    return rules[0].key


def decrypt_seed(services: Services, sealed: str, seat: Seat) -> bytes:
    """Decrypt the seed of a seat. Raises Unavailable(second_factor_unreadable)."""
    try:
        return totp.decrypt_seed(sealed, seat_id=seat.seat_id, keyring=services.keyring.current())
    except totp.SeedDecryptionError:
        # The keyring was replaced instead of rotated. Only an operator can fix this.
        raise Unavailable(
            "The second factor cannot be checked. Ask your operator to reset it or to restore the keyring.",
            code="second_factor_unreadable",
            retry_after_seconds=300,
        ) from None


def invalid_code() -> Unauthenticated:
    """Return the error of a wrong or used code."""
    return Unauthenticated("The code is wrong or was used before.", code="invalid_code")


@dataclass(frozen=True, slots=True)
class LoginCompletion:
    """The transaction that replaces a pending login by a session with a new id."""

    services: Services
    login: ResolvedSession
    caller: Caller
    device_id: str | None
    now: datetime
    proof: Proof
    details: Mapping[str, object] = field(default_factory=dict)

    def write(
        self, stores: Stores, accept: Callable[[Stores], RequestError | None], throttle_key: str
    ) -> SessionStarted | RequestError:
        """Complete the login if `accept` uses up its proof, or return the error, which `accept` may return.

        A login that has ended uses up no proof: the lock makes parallel completions of the seat wait for each other.
        """
        stores.seats.get_for_update(self.login.seat.seat_id)
        fault = self.fault(stores)
        if fault is not None:
            return fault
        refusal = accept(stores)
        if refusal is not None:
            stores.audit.append(self.event("second_factor", refusal.code))
            return refusal
        return self.complete(stores, throttle_key)

    def fault(self, stores: Stores) -> RequestError | None:
        """Return why the login cannot be completed, whatever the proof. The caller has locked the seat."""
        resolved = stores.sessions.resolve(self.login.session.sid, None)
        if resolved is None or not is_pending(resolved, self.now):
            return login_ended()
        return no_active_account() if stores.seats.initial_account(resolved.seat) is None else None

    def complete(self, stores: Stores, throttle_key: str) -> SessionStarted | RequestError:
        """Start the session after the proof was accepted."""
        seat, pending = self.login.seat, self.login.session
        stores.throttle.clear(throttle_key)
        initial = stores.seats.initial_account(seat)
        if initial is None:
            return no_active_account()
        device = updated_device(self.services, seat, find_device(stores, self.device_id, seat), self.caller, self.now)
        stores.sessions.save_device(device)
        session = replace(
            pending,
            # The id of the pending login must not open the session (ASVS 5.0, 7.2.4).
            sid=self.services.new_id(),
            awaiting_second_factor=False,
            device_id=device.device_id,
            # The lifetime counts from the login, not from the second factor.
            expires_at=pending.started_at + self.services.settings.access.session_lifetime,
            amr=(*pending.amr, self.proof),
            last_seen_at=self.now,
        )
        if not stores.sessions.replace(pending.sid, session, self.now, "second factor completed"):
            return login_ended()
        stores.seats.set_last_client(seat.seat_id, initial.client_id)
        stores.audit.append(self.event("second_factor", "ok", initial.client_id, session))
        token = issue_token(self.services, session, client_id=initial.client_id, now=self.now)
        return SessionStarted(session, initial.client_id, device.device_id, token)

    def event(
        self, action: str, result: str, client_id: str | None = None, started: Session | None = None
    ) -> AuditEvent:
        """Describe a step of the login. `started` is the session that it started."""
        subject = f"session:{self.login.session.sid}"
        origin = EventOrigin(self.now, self.caller, self.login.seat, client_id, subject)
        details = {"session": f"session:{started.sid}"} if started and started.sid != self.login.session.sid else {}
        return origin.event(action, result, {"proof": self.proof, **self.details, **details})


async def _enrolled_login(services: Services, token: str) -> ResolvedSession:
    login = await pending_login(services, token)
    if not login.seat.second_factor_enrolled:
        raise Forbidden(
            f"A second factor is required. Set one up in the dashboard: {services.settings.base_url}/dashboard.",
            code="second_factor_not_enrolled",
        )
    return login


async def begin_with_passkey(services: Services, token: str) -> str:
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


async def complete_login_with_passkey(
    services: Services, token: str, response: str, caller: Caller, *, device_id: str | None = None
) -> SessionStarted:
    """Complete a pending login with the browser's response.

    Raises Unauthenticated (`invalid_token`, `session_ended`, `invalid_passkey`, `passkey_cloned`),
    Forbidden(no_active_account), RateLimited, NotFound where passkeys are not available.
    """
    party, login, now = passkeys.relying_party(services), await pending_login(services, token), services.clock()
    throttle_key = await count_attempt(services, login.seat, now, device_id)
    passkey = await _verify(services, party, login, response, now)
    details = {"name": passkey.name} if passkey is not None else {}
    completion = LoginCompletion(services, login, caller, device_id, now, "pop", details)

    def accept(stores: Stores) -> RequestError | None:
        if passkey is None or stores.passkeys.find(passkey.credential_id, login.seat.seat_id) is None:
            return passkeys.invalid_passkey()
        if stores.passkeys.record_use(passkey, now):
            return None
        return Unauthenticated(
            "This passkey was refused because a copy of it may exist. Enter a code, then remove the passkey in "
            "Security.",
            code="passkey_cloned",
        )

    return await services.commit(lambda stores: completion.write(stores, accept, throttle_key))


async def _verify(
    services: Services, party: RelyingParty, login: ResolvedSession, response: str, now: datetime
) -> Passkey | None:
    """Return the passkey that signed the browser's response, with the counter of the signature. None when the response
    is invalid. The challenge is used up either way.
    """
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
        return replace(passkey, sign_count=await services.threads.run(seat_id, verify))
    except InvalidPasskeyResponse:
        return None
