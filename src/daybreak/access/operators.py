"""Operators' actions on seats and API tokens. Each runs in the caller's transaction and is recorded in the audit trail.

Call as `state.write(lambda stores: operators.set_disabled(stores, seat, ...))`. `actor` is `operator` for the command
line, or the email of a seat with the operator role.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from daybreak.access import api_tokens
from daybreak.access.end_credentials import EndReason, end_all_credentials, end_credentials
from daybreak.access.enrolment import Enrolment, enrolment_of, recovery_hashes
from daybreak.access.names import normalize_name
from daybreak.access.passwords import create_reset, has_password_login
from daybreak.access.security_events import password_changed, second_factor_changed, token_leaked
from daybreak.credentials import totp
from daybreak.credentials.keyring import Keyring
from daybreak.credentials.redaction import redact
from daybreak.domain.audit import AuditEvent
from daybreak.domain.errors import OperatorError
from daybreak.domain.events import EventType, new_event
from daybreak.domain.identity import MAX_SUBJECT_LENGTH, ApiToken, Seat, SeatIdentity, is_subject
from daybreak.settings import Settings
from daybreak.state.stores import Stores


def find_seat(stores: Stores, email: str) -> Seat:
    """Return the seat of an email. Raises OperatorError."""
    seat = stores.seats.by_email(email.strip())
    if seat is None:
        raise OperatorError(f"No seat has the email {email}.")
    return seat


def set_password_hash(stores: Stores, seat: Seat, password_hash: str, now: datetime, *, actor: str) -> int:
    """Set a seat's password hash, end its sessions and links, and return the number of sessions."""
    stores.seats.set_password_hash(seat.seat_id, password_hash)
    stores.outbox.add(password_changed(seat, now, "set_by_operator"))
    ended = end_credentials(stores, seat.seat_id, EndReason.PASSWORD_SET, now)
    _record(stores, seat, "password.set", now, actor)
    return ended


def issue_link(
    stores: Stores,
    seat: Seat,
    unknown_hash: str,
    now: datetime,
    *,
    settings: Settings,
    random: Callable[[int], bytes],
    actor: str,
) -> str:
    """Return the token of a link that sets a password, for the operator to pass on. It lasts as long as an invitation.

    A present password becomes `unknown_hash`, of a password that no person knows. Sessions and earlier links end.
    Raises OperatorError.
    """
    if not settings.oidc.password_login:
        raise OperatorError("Passwords are off. Set oidc.password_login to true.")
    _require_link(stores, seat)
    if seat.password_hash is not None:
        set_password_hash(stores, seat, unknown_hash, now, actor=actor)
    else:
        end_credentials(stores, seat.seat_id, EndReason.PASSWORD_SET, now)
        _record(stores, seat, "seat.invited", now, actor)
    # Requested after the end of the earlier links.
    requested_at = now + timedelta(microseconds=1)
    token, link = create_reset(seat, EventType.SEAT_INVITED, requested_at, now, random)
    stores.password_resets.replace(link)
    return token


def invite(stores: Stores, seat: Seat, now: datetime, *, actor: str) -> None:
    """Queue a mail with a link that sets the first password of a seat. Raises OperatorError."""
    _require_link(stores, seat)
    if seat.password_hash is not None:
        raise OperatorError(f"{seat.email} has a password. Reset the password instead.")
    key = f"{seat.seat_id} {now.isoformat()}"
    stores.outbox.add(new_event(EventType.SEAT_INVITED, key, now, {"invited_by": actor}, seat_id=seat.seat_id))
    _record(stores, seat, "seat.invited", now, actor)


def set_disabled(stores: Stores, seat: Seat, now: datetime, *, disabled: bool, actor: str) -> None:
    """Disable a seat, which ends its sessions and links and blocks its API tokens, or enable it again."""
    stores.seats.set_disabled(seat.seat_id, disabled=disabled)
    if disabled:
        end_credentials(stores, seat.seat_id, EndReason.SEAT_DISABLED, now)
    _record(stores, seat, "seat.disabled" if disabled else "seat.enabled", now, actor)


def sign_out(stores: Stores, seat: Seat, now: datetime, *, actor: str) -> int:
    """End the sessions and links of a seat and return the number of sessions. Its API tokens stay valid."""
    ended = end_credentials(stores, seat.seat_id, EndReason.SIGNED_OUT, now)
    _record(stores, seat, "seat.signed_out", now, actor)
    return ended


def end_session(stores: Stores, seat: Seat, sid: str, now: datetime, *, actor: str) -> bool:
    """End one session of a seat. Returns False when it had ended already."""
    ended = stores.sessions.end(sid, now, EndReason.SIGNED_OUT)
    if ended:
        _record(stores, seat, "seat.session_ended", now, actor)
    return ended


def sign_out_all(
    stores: Stores, now: datetime, *, actor: str, reason: EndReason = EndReason.SIGNED_OUT
) -> dict[str, int]:
    """End all sessions and links of all seats. Returns the number of sessions of each seat, and records these seats."""
    ended = end_all_credentials(stores, reason, now)
    for seat in stores.seats.list_all():
        if seat.seat_id in ended:
            _record(stores, seat, "seat.signed_out", now, actor)
    return ended


def grant_operator(stores: Stores, seat: Seat, now: datetime, *, second_factor: bool, actor: str) -> None:
    """Grant the operator role. Raises OperatorError without an enrolled second factor, if `second_factor` requires it.

    Otherwise a stolen password is enough to enrol a second factor and open the operator pages.
    """
    if second_factor and not seat.second_factor_enrolled:
        raise OperatorError(
            f"{seat.email} has no second factor. Run `daybreakd seat enrol {seat.email}` with the seat's owner. Then "
            "grant the role.",
            code="second_factor_not_enrolled",
        )
    stores.seats.set_operator(seat.seat_id, operator=True)
    _record(stores, seat, "seat.operator_granted", now, actor)


def withdraw_operator(stores: Stores, seat: Seat, now: datetime, *, actor: str) -> None:
    stores.seats.set_operator(seat.seat_id, operator=False)
    _record(stores, seat, "seat.operator_withdrawn", now, actor)


def reset_second_factor(stores: Stores, seat: Seat, now: datetime, *, actor: str) -> int:
    """Remove a lost second factor, end the sessions and links of the seat, and return the number of sessions.

    The operator role is withdrawn with it.
    """
    stores.seats.reset_second_factor(seat.seat_id)
    if seat.operator:
        withdraw_operator(stores, seat, now, actor=actor)
    stores.outbox.add(second_factor_changed(seat, now, "reset_by_operator"))
    ended = end_credentials(stores, seat.seat_id, EndReason.FACTOR_RESET, now)
    _record(stores, seat, "second_factor.reset", now, actor)
    return ended


def bind_identity(stores: Stores, seat: Seat, issuer: str, subject: str, now: datetime, *, actor: str) -> None:
    """Bind a user of a single sign-on provider to a seat, whose sessions and links end.

    Raises OperatorError if either is bound already, or no provider can have such a user.
    """
    if not is_subject(subject):
        raise OperatorError(f"A subject has 1 to {MAX_SUBJECT_LENGTH} characters and no line breaks. Copy it exactly.")
    bound = [each.subject for each in stores.identities.list_for(seat.seat_id) if each.issuer == issuer]
    if bound:
        raise OperatorError(f"{seat.email} is bound to {bound[0]}. Run `daybreakd seat unbind {seat.email}` first.")
    other = stores.identities.find(issuer, subject)
    if other is not None:
        owner = stores.seats.by_id(other.seat_id)
        raise OperatorError(f"{subject} is bound to {owner.email if owner else other.seat_id}. Unbind that seat first.")
    stores.identities.add(SeatIdentity(issuer, subject, seat.seat_id, now))
    end_credentials(stores, seat.seat_id, EndReason.IDENTITY_BOUND, now)
    _record(stores, seat, "identity.bound", now, actor)


def unbind_identities(stores: Stores, seat: Seat, now: datetime, *, actor: str) -> tuple[int, int]:
    """Remove the users bound to a seat and end its sessions. Returns the number of users and of sessions."""
    stores.seats.get_for_update(seat.seat_id)
    removed = stores.identities.remove_all(seat.seat_id)
    ended = end_credentials(stores, seat.seat_id, EndReason.IDENTITY_UNBOUND, now) if removed else 0
    if removed:
        _record(stores, seat, "identity.unbound", now, actor)
    return removed, ended


def begin_enrolment(
    stores: Stores, seat: Seat, now: datetime, *, keyring: Keyring, random: Callable[[int], bytes]
) -> Enrolment:
    """Create a new seed for a seat. The current second factor stays valid until the seed is confirmed."""
    seed = random(totp.SEED_BYTES)
    sealed = totp.encrypt_seed(seed, seat_id=seat.seat_id, keyring=keyring, random=random)
    stores.seats.begin_second_factor(seat.seat_id, sealed, now)
    return enrolment_of(seed, email=seat.email)


def confirm_enrolment(
    stores: Stores,
    seat: Seat,
    code: str,
    now: datetime,
    *,
    keyring: Keyring,
    random: Callable[[int], bytes],
    actor: str,
) -> tuple[str, ...]:
    """Activate the new seed and return ten recovery codes. Raises OperatorError."""
    sealed = stores.seats.pending_seed(seat.seat_id)
    if sealed is None:
        raise OperatorError(f"No enrolment was started for {seat.email}. Start one first.")
    seed = totp.decrypt_seed(sealed, seat_id=seat.seat_id, keyring=keyring)
    step = totp.matching_step(seed, code, now.timestamp())
    if step is None:
        raise OperatorError("The code is wrong. Check the clock of the device and use a new code.")
    codes = totp.new_recovery_codes(random)
    stores.seats.confirm_second_factor(seat.seat_id, step, recovery_hashes(codes, seat.seat_id), now)
    stores.outbox.add(second_factor_changed(seat, now, "authenticator_enrolled"))
    end_credentials(stores, seat.seat_id, EndReason.FACTOR_ENROLLED, now)
    _record(stores, seat, "second_factor.enrolled", now, actor)
    return codes


def revoke_leaked_tokens(stores: Stores, report: str, now: datetime, *, actor: str, reason: str) -> list[ApiToken]:
    """Revoke every token whose secret is in a text such as a secret scanner's report.

    Returns the tokens that were live. Their owners are notified. Unknown and revoked tokens are ignored.
    """
    revoked = []
    for secret in api_tokens.find_all(report):
        resolved = stores.api_tokens.resolve(api_tokens.digest(secret))
        if resolved is not None and revoke_token(stores, resolved.token, now, actor=actor, reason=reason):
            stores.outbox.add(token_leaked(resolved.token, now))
            revoked.append(resolved.token)
    return revoked


def add_token(stores: Stores, token: ApiToken, now: datetime, *, actor: str) -> None:
    """Store a token that an operator created for a seat. Raises Conflict when the seat has too many."""
    api_tokens.add(stores, token, now)
    stores.audit.append(_token_event(token, "token.created", now, actor))


def change_token(
    stores: Stores, token: ApiToken, now: datetime, *, name: str, allowed_networks: tuple[str, ...], actor: str
) -> None:
    """Set the name and the allowed networks of a token. Raises InvalidRequest."""
    normalized_name = normalize_name(name, subject=api_tokens.NAME_SUBJECT)
    for action, details in api_tokens.apply_changes(stores, token, normalized_name, allowed_networks):
        stores.audit.append(_token_event(token, action, now, actor, details=details))


def revoke_token(stores: Stores, token: ApiToken, now: datetime, *, actor: str, reason: str) -> bool:
    """Revoke a token. Returns False when it was revoked already."""
    reason = redact(reason)
    revoked = stores.api_tokens.revoke(token.token_id, now, reason)
    if revoked:
        stores.audit.append(_token_event(token, "token.revoked", now, actor, details={"reason": reason}))
    return revoked


def _require_link(stores: Stores, seat: Seat) -> None:
    """Raise OperatorError if a link that sets a password would be invalid."""
    if seat.disabled:
        raise OperatorError(f"{seat.email} is disabled. Enable the seat first.")
    if not has_password_login(stores, seat):
        raise OperatorError(f"{seat.email} signs in with single sign-on and needs no password.")


def _token_event(
    token: ApiToken, action: str, now: datetime, actor: str, *, details: Mapping[str, object] | None = None
) -> AuditEvent:
    """Create the event of an operator's action on a token, in the audit trail of its account."""
    return AuditEvent(
        at=now,
        action=action,
        result="ok",
        actor=actor,
        seat_id=token.seat_id,
        client_id=token.client_id,
        subject=token.subject,
        details={**api_tokens.details_of(token), **(details or {})},
    )


def _record(stores: Stores, seat: Seat, action: str, now: datetime, actor: str) -> None:
    stores.audit.append(
        AuditEvent(at=now, action=action, result="ok", actor=actor, seat_id=seat.seat_id, details={"seat": seat.email})
    )
