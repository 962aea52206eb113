"""Who may do what, as the state database keeps it: seats, sessions, API tokens, throttles, the directory."""

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
    Landing,
    Reach,
    Seat,
    Session,
    SessionStanding,
    TokenStanding,
)


class SeatStore(Protocol):
    """Seats, their passwords and their second factors."""

    def by_email(self, email: str) -> Seat | None:
        """The seat of an email, whatever its case; None when there is none."""

    def by_id(self, seat_id: str) -> Seat | None: ...

    def held(self, seat_id: str) -> Seat | None:
        """As `by_id`; until the transaction ends nobody else changes the seat, or holds it."""

    def list_all(self) -> list[Seat]: ...

    def set_password_hash(self, seat_id: str, password_hash: str, now: datetime) -> None: ...

    def set_disabled(self, seat_id: str, disabled: bool) -> None: ...  # noqa: FBT001 - the name says it

    def set_operator(self, seat_id: str, operator: bool) -> None: ...  # noqa: FBT001 - the name says it

    def set_last_client(self, seat_id: str, client_id: str) -> None: ...

    def reach(self, seat_id: str) -> list[Reach]:
        """Every account with a grant of the seat, inactive ones too, ordered by account name."""

    def reach_size(self, seat_id: str) -> int:
        """How many those are."""

    def landing(self, seat: Seat) -> Landing | None:
        """Where a login begins; None when no account in reach is active."""

    def sealed_seed(self, seat_id: str) -> str | None:
        """The enrolled second factor's sealed seed."""

    def pending_seed(self, seat_id: str) -> str | None:
        """The sealed seed of an enrolment that is not confirmed yet."""

    def begin_second_factor(self, seat_id: str, sealed_seed: str, now: datetime) -> None: ...

    def confirm_second_factor(self, seat_id: str, step: int, recovery_hashes: Sequence[str], now: datetime) -> bool:
        """Makes the pending seed the seat's factor, its step used, recovery codes replaced.
        False when nothing was pending."""

    def accept_step(self, seat_id: str, step: int) -> bool:
        """Uses a step once: one atomic statement; False when this or a later one was used."""

    def replace_recovery_codes(self, seat_id: str, hashes: Sequence[str]) -> None: ...

    def use_recovery_code(self, seat_id: str, code_hash: str, now: datetime) -> bool:
        """One atomic statement; False when it is unknown or used."""

    def recovery_codes_left(self, seat_id: str) -> int: ...

    def reset_second_factor(self, seat_id: str) -> None: ...

    def reseal_seeds(self, reseal: Callable[[str, str], str | None]) -> int:
        """Writes each sealed seed anew where `reseal(seat_id, sealed)` gives another; how many."""


class SessionStore(Protocol):
    """Logins and the devices they came from."""

    def start(self, session: Session) -> None: ...

    def pass_second_factor(self, sid: str, *, device_id: str, expires_at: datetime, amr: tuple[str, ...]) -> bool:
        """Ends the waiting, once: atomic; False when the session waits no longer or has ended."""

    def standing(self, sid: str, client_id: str | None) -> SessionStanding | None:
        """Session, seat, account and grant by one statement; None when the sid is unknown."""

    def end(self, sid: str, now: datetime, reason: str) -> bool:
        """False when it had ended already."""

    def end_all(self, seat_id: str, now: datetime, reason: str, *, keep_sid: str | None = None) -> int: ...

    def list_open(self, seat_id: str, now: datetime) -> list[tuple[Session, Device | None]]: ...

    def mark_reauthenticated(self, sid: str, now: datetime) -> None: ...

    def remember_device(self, device: Device) -> None:
        """Inserts the device, or brings agent, address and last seen of a known one up to date."""

    def device(self, device_id: str, seat_id: str) -> Device | None: ...

    def forget_ended(self, before: datetime) -> int:
        """Deletes sessions that ended or expired before that instant; how many."""

    def forget_devices(self, before: datetime) -> int:
        """Deletes devices not seen since that instant and with no session left; how many."""


class ApiTokenStore(Protocol):
    """API tokens by the digest of their secret."""

    def add(self, token: ApiToken) -> None: ...

    def standing(self, digest: str) -> TokenStanding | None:
        """Token, seat, account and grant by one statement."""

    def standing_by_id(self, token_id: str) -> TokenStanding | None: ...

    def touch(self, token_id: str, now: datetime, *, not_after: datetime) -> None:
        """Sets last used unless it was used after `not_after` (at most one write a minute)."""

    def list_for(self, *, client_id: str | None = None, seat_id: str | None = None) -> list[ApiToken]: ...

    def revoke(self, token_id: str, now: datetime, reason: str) -> bool: ...

    def revoke_for_grants(self, grants: Iterable[Grant], now: datetime, reason: str) -> None:
        """Revokes every token that stands on one of them."""

    def forget_dead(self, before: datetime) -> int:
        """Deletes tokens revoked or expired before that instant; how many."""


@dataclass(frozen=True, slots=True)
class ThrottleRule:
    """At most `limit` attempts in any `window_seconds` for one `key`."""

    key: str
    limit: int
    window_seconds: int


class ThrottleStore(Protocol):
    """Counted attempts, shared by all workers and nodes."""

    def count(self, rules: Sequence[ThrottleRule], now: datetime) -> ThrottleRule | None:
        """Counts one attempt against every rule, atomically. None = allowed; else the rule that
        is exceeded (then the attempt does not push the window further out)."""

    def retry_after_seconds(self, rule: ThrottleRule, now: datetime) -> int: ...

    def clear(self, key: str) -> None: ...

    def forget(self, before: datetime) -> int: ...


@dataclass(frozen=True, slots=True)
class Directory:
    """Accounts, seats and grants as one value."""

    accounts: tuple[Account, ...]
    seats: tuple[Seat, ...]
    grants: tuple[Grant, ...]


class DirectoryStore(Protocol):
    """Accounts, seats and grants in bulk."""

    def load(self) -> Directory: ...

    def put_accounts(self, *given: Account) -> None: ...

    def put_seats(self, *given: Seat) -> None:
        """Inserts or changes email, disabled and (when not None) password_hash."""

    def put_grants(self, *given: Grant) -> None: ...

    def remove_grants(self, *given: Grant) -> None:
        """Takes away what is named by seat_id and client_id."""
