"""Ports of the access tables in the state database: seats, sessions, API tokens, throttles, the directory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from daybreak.domain.identity import (
    Account,
    ApiToken,
    Device,
    Grant,
    GrantedAccount,
    InitialAccount,
    Passkey,
    ResolvedSession,
    ResolvedToken,
    Seat,
    SeatIdentity,
    Session,
)


class SeatStore(Protocol):
    """Seats, their passwords and their second factors."""

    def by_email(self, email: str) -> Seat | None:
        """Return the seat of an email, ignoring case."""

    def by_id(self, seat_id: str) -> Seat | None: ...

    def get_for_update(self, seat_id: str) -> Seat | None:
        """Return and lock a seat: other transactions that change or lock it wait until this one ends."""

    def list_all(self) -> list[Seat]: ...

    def set_password_hash(self, seat_id: str, password_hash: str, now: datetime) -> None: ...

    def set_disabled(self, seat_id: str, disabled: bool) -> None: ...  # noqa: FBT001 - the method name explains it

    def set_operator(self, seat_id: str, operator: bool) -> None: ...  # noqa: FBT001 - the method name explains it

    def set_last_client(self, seat_id: str, client_id: str) -> None: ...

    def granted_accounts(self, seat_id: str) -> list[GrantedAccount]:
        """Return every account that the seat has a grant on, inactive ones included, by account name."""

    def emails_on_account(self, client_id: str, *, at_most: int) -> list[str]:
        """Return the emails of seats with a grant on an account, in alphabetical order."""

    def count_granted_accounts(self, seat_id: str) -> int:
        """Return the number of `granted_accounts`."""

    def initial_account(self, seat: Seat) -> InitialAccount | None:
        """Return the account on which a login starts, None when no granted account is active."""

    def sealed_seed(self, seat_id: str) -> str | None:
        """Return the encrypted seed of the second factor."""

    def pending_seed(self, seat_id: str) -> str | None:
        """Return the encrypted seed of an unconfirmed enrolment."""

    def begin_second_factor(self, seat_id: str, sealed_seed: str, now: datetime) -> None: ...

    def confirm_second_factor(self, seat_id: str, step: int, recovery_hashes: Sequence[str], now: datetime) -> bool:
        """Activate the pending seed, mark the step as used and replace the recovery codes.

        Returns False when no seed was pending.
        """

    def use_step(self, seat_id: str, step: int) -> bool:
        """Mark a step as used, atomically. Returns False when this or a later one was used before."""

    def replace_recovery_codes(self, seat_id: str, hashes: Sequence[str]) -> None: ...

    def use_recovery_code(self, seat_id: str, code_hash: str, now: datetime) -> bool:
        """Mark a recovery code as used, atomically. Returns False when it is unknown or used."""

    def recovery_codes_left(self, seat_id: str) -> int: ...

    def reset_second_factor(self, seat_id: str) -> None:
        """Remove the authenticator app, the recovery codes and the passkeys."""

    def reseal_seeds(self, reseal: Callable[[str, str], str | None]) -> int:
        """Replace each encrypted seed by `reseal(seat_id, sealed)`; None keeps it. Returns the number replaced."""


class SessionStore(Protocol):
    """Sessions and the devices that they were started on."""

    def start(self, session: Session) -> None: ...

    def replace(self, old_sid: str, session: Session, now: datetime, reason: str) -> bool:
        """End the session `old_sid` and start `session`, atomically.

        Returns False and starts nothing when `old_sid` is unknown or had ended already.
        """

    def resolve(self, sid: str, client_id: str | None) -> ResolvedSession | None:
        """Return session, seat, account and grant with one statement, None when the sid is unknown."""

    def end(self, sid: str, now: datetime, reason: str) -> bool:
        """End a session. Returns False when it had ended already."""

    def end_all(self, seat_id: str, now: datetime, reason: str, *, keep_sid: str | None = None) -> int:
        """End every session of a seat that has not expired, except `keep_sid`, and return their number."""

    def end_every(self, now: datetime, reason: str) -> dict[str, int]:
        """End every session that has not expired, and return the number for each seat that had any."""

    def end_unused(self, sid: str, now: datetime, reason: str, *, since: datetime) -> bool:
        """End a session, unless it had ended or was used after `since`. Returns whether it was ended."""

    def record_activity(self, sid: str, now: datetime, *, not_after: datetime) -> None:
        """Set the last use, unless the session was used after `not_after`."""

    def list_open(self, seat_id: str, now: datetime) -> list[tuple[Session, Device | None]]: ...

    def mark_reauthenticated(self, sid: str, now: datetime) -> None: ...

    def save_device(self, device: Device) -> None:
        """Insert a device, or update agent, address and last use of a known one."""

    def known_device(self, device_id: str, seat_id: str, *, at_most: int) -> Device | None:
        """Return a device if it is among the `at_most` devices from which the seat signed in last.

        Devices on which the seat has not signed in since it enrolled its second factor are unknown.
        """

    def delete_ended(self, before: datetime) -> int:
        """Delete sessions that ended or expired before that instant and return their number."""

    def delete_unused_devices(self, before: datetime) -> int:
        """Delete devices without sessions that were last seen before that instant and return their number."""


class PasskeyStore(Protocol):
    """Passkeys of seats, and the challenges of sessions as hex."""

    def add(self, passkey: Passkey) -> bool:
        """Add a passkey. Returns False when its credential id is already stored, for any seat."""

    def list_for(self, seat_id: str) -> list[Passkey]:
        """Return the passkeys of a seat, oldest first."""

    def find(self, credential_id: str, seat_id: str) -> Passkey | None: ...

    def record_use(self, passkey: Passkey, sign_count: int, now: datetime) -> bool:
        """Store the signature counter and the time of a use, atomically.

        Returns False when the counter did not increase (WebAuthn §6.1.1), or the passkey was removed. A counter that
        is always 0 is accepted.
        """

    def rename(self, passkey: Passkey, name: str) -> bool: ...

    def remove(self, passkey: Passkey) -> bool: ...

    def set_challenge(self, sid: str, challenge: str, expires_at: datetime) -> None:
        """Store the challenge of a session. It replaces an earlier one."""

    def take_challenge(self, sid: str, now: datetime) -> str | None:
        """Return and delete the challenge of a session, atomically: only one caller receives it.

        Returns None when there is none, or it has expired.
        """


class IdentityStore(Protocol):
    """Users of single sign-on providers, and the seats they sign in."""

    def find(self, issuer: str, subject: str) -> SeatIdentity | None: ...

    def list_for(self, seat_id: str) -> list[SeatIdentity]:
        """Return the users bound to a seat, by issuer and subject."""

    def list_all(self) -> list[SeatIdentity]: ...

    def add(self, identity: SeatIdentity) -> None:
        """Bind a user. Raises Conflict when the user is bound already."""

    def remove_all(self, seat_id: str) -> int:
        """Remove every user bound to a seat and return their number."""


class ApiTokenStore(Protocol):
    """API tokens by the digest of their secret."""

    def add(self, token: ApiToken) -> None: ...

    def resolve(self, digest: str) -> ResolvedToken | None:
        """Return token, seat, account and grant with one statement."""

    def resolve_by_id(self, token_id: str) -> ResolvedToken | None: ...

    def record_use(self, token_id: str, now: datetime, *, not_after: datetime) -> None:
        """Set the last use, unless the token was used after `not_after`."""

    def list_for(self, *, client_id: str | None = None, seat_id: str | None = None) -> list[ApiToken]: ...

    def list_expiring(self, after: datetime, until: datetime) -> list[ApiToken]:
        """Return tokens of enabled seats that are not revoked and expire after one instant and by the other."""

    def rename(self, token_id: str, name: str) -> None: ...

    def set_allowed_networks(self, token_id: str, networks: Sequence[str]) -> None:
        """Replace the networks that requests must come from. Without networks, every address is allowed."""

    def revoke(self, token_id: str, now: datetime, reason: str) -> bool: ...

    def revoke_for_grants(self, grants: Iterable[Grant], now: datetime, reason: str) -> None:
        """Revoke every token that depends on one of the grants."""

    def delete_inactive(self, before: datetime) -> int:
        """Delete tokens that were revoked or expired before that instant and return their number."""


@dataclass(frozen=True, slots=True)
class ThrottleRule:
    """At most `limit` attempts in any `window_seconds` for one `key`."""

    key: str
    limit: int
    window_seconds: int


class ThrottleStore(Protocol):
    """Attempt counters, shared by all workers and nodes."""

    def count(self, rules: Sequence[ThrottleRule], now: datetime, *, attempts: int = 1) -> ThrottleRule | None:
        """Count attempts against every rule, atomically. Returns the exceeded rule, None when all are allowed.

        Refused attempts are not counted.
        """

    def retry_after_seconds(self, rule: ThrottleRule, now: datetime, *, attempts: int = 1) -> int:
        """Return the time until that many attempts are allowed."""

    def clear(self, key: str) -> None: ...

    def delete_expired(self, before: datetime) -> int: ...


@dataclass(frozen=True, slots=True)
class Directory:
    """Accounts, seats and grants as one value."""

    accounts: tuple[Account, ...]
    seats: tuple[Seat, ...]
    grants: tuple[Grant, ...]


class DirectoryStore(Protocol):
    """Accounts, seats and grants in bulk."""

    def load(self) -> Directory: ...

    def put_accounts(self, *accounts: Account) -> None: ...

    def put_seats(self, *seats: Seat) -> None:
        """Insert seats, or change their email, disabled and, unless None, password_hash."""

    def put_grants(self, *grants: Grant) -> None: ...

    def remove_grants(self, *grants: Grant) -> None:
        """Delete grants by seat_id and client_id."""
