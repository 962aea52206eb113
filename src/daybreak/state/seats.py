"""Repositories of seats, their passwords and second factors, and of the users of single sign-on providers."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from daybreak.domain.identity import Grant, GrantedAccount, InitialAccount, Seat, SeatIdentity, folded_email
from daybreak.state.records import ACCOUNT_COLUMNS, GRANT_COLUMNS, SEAT_COLUMNS, account_of, columns_of, values_of
from daybreak.state.schema import accounts, grants, passkeys, recovery_codes, seat_identities, seats
from daybreak.state.statements import PreparedRead, Store

_IDENTITIES = sa.select(*columns_of(SeatIdentity, seat_identities)).order_by(
    seat_identities.c.issuer, seat_identities.c.subject
)


# Imports read each seat that they change.
_BY_ID = PreparedRead(seats, SEAT_COLUMNS, seats.c.seat_id == sa.bindparam("seat_id"))
_GRANTED = sa.select(*ACCOUNT_COLUMNS, *GRANT_COLUMNS).join_from(
    grants, accounts, accounts.c.client_id == grants.c.client_id
)


def _granted_of(*row: Any) -> GrantedAccount:
    """Return the account and the grant of a row of `_GRANTED`."""
    width = len(ACCOUNT_COLUMNS)
    return GrantedAccount(account_of(*row[:width]), Grant(*row[width:]))


class SeatStore(Store):
    """Seats, their passwords and their second factors."""

    def by_email(self, email: str) -> Seat | None:
        """Return the seat of an email, ignoring case."""
        return self._first(sa.select(*SEAT_COLUMNS).where(seats.c.email_folded == folded_email(email)), Seat)

    def by_id(self, seat_id: str) -> Seat | None:
        row = _BY_ID.first(self._connection, seat_id=seat_id)
        return None if row is None else Seat(*row)

    def get_for_update(self, seat_id: str) -> Seat | None:
        """Return and lock a seat: other transactions that change or lock it wait until this one ends."""
        # SQLite ignores FOR UPDATE: it allows one write transaction at a time.
        by_id = sa.select(*SEAT_COLUMNS).where(seats.c.seat_id == seat_id)
        return self._first(by_id.with_for_update(key_share=True), Seat)

    def list_all(self) -> list[Seat]:
        return self._all(sa.select(*SEAT_COLUMNS).order_by(seats.c.email_folded), Seat)

    def set_password_hash(self, seat_id: str, password_hash: str) -> None:
        self._change(seats, seat_id, password_hash=password_hash)

    def end_links(self, now: datetime, seat_id: str | None = None) -> None:
        """End the links that set a password and were requested until now: of one seat, or of all."""
        statement = sa.update(seats).values(links_ended_at=now)
        self._execute(statement if seat_id is None else statement.where(seats.c.seat_id == seat_id))

    def links_ended(self, seat_id: str, *, since: datetime) -> bool:
        """Return whether a link that was requested at that instant has ended."""
        ended = sa.exists().where(seats.c.seat_id == seat_id, seats.c.links_ended_at >= since)
        return bool(self._execute(sa.select(ended)).scalar())

    def set_disabled(self, seat_id: str, *, disabled: bool) -> None:
        self._change(seats, seat_id, disabled=disabled)

    def set_operator(self, seat_id: str, *, operator: bool) -> None:
        self._change(seats, seat_id, operator=operator)

    def set_last_client(self, seat_id: str, client_id: str) -> None:
        self._change(seats, seat_id, last_client_id=client_id)

    def set_display(self, seat_id: str, time_zone: str, number_format: str) -> None:
        self._change(seats, seat_id, time_zone=time_zone, number_format=number_format)

    def granted_accounts(self, seat_id: str) -> list[GrantedAccount]:
        """Return every account that the seat has a grant on, inactive ones included, by account name."""
        found = self._all(_GRANTED.where(grants.c.seat_id == seat_id), _granted_of)
        # Sorted here, because the databases order names differently.
        return sorted(found, key=lambda granted: granted.account.sort_key)

    def granted_account(self, seat_id: str, client_id: str) -> GrantedAccount | None:
        """Return an account and the seat's grant on it, None without one."""
        return self._first(_GRANTED.where(grants.c.seat_id == seat_id, grants.c.client_id == client_id), _granted_of)

    def count_granted_accounts(self, seat_id: str) -> int:
        """Return the number of `granted_accounts`."""
        return self._number_of(grants, grants.c.seat_id == seat_id)

    def list_on_account(self, client_id: str, limit: int | None = None) -> list[tuple[Seat, Grant]]:
        """Return the seats with a grant on an account, and their grants, by email."""
        rows = self._execute(
            sa.select(*SEAT_COLUMNS, *GRANT_COLUMNS)
            .join_from(seats, grants, grants.c.seat_id == seats.c.seat_id)
            .where(grants.c.client_id == client_id)
            .order_by(seats.c.email_folded)
            .limit(limit)
        )
        width = len(SEAT_COLUMNS)
        return [(Seat(*row[:width]), Grant(*row[width:])) for row in rows]

    def initial_account(self, seat: Seat) -> InitialAccount | None:
        """Return the account on which a login starts, None when no granted account is active."""
        is_last = sa.case((accounts.c.client_id == (seat.last_client_id or ""), 1), else_=0)
        requires = sa.case((accounts.c.second_factor_required, 1), else_=0)
        active, required, last_is_active = self._execute(
            sa.select(sa.func.count(), sa.func.max(requires), sa.func.max(is_last))
            .join_from(grants, accounts, accounts.c.client_id == grants.c.client_id)
            .where(grants.c.seat_id == seat.seat_id, accounts.c.active)
        ).one()
        if not active:
            return None
        if seat.last_client_id is not None and last_is_active:
            return InitialAccount(seat.last_client_id, bool(required))
        first = next(each.account.client_id for each in self.granted_accounts(seat.seat_id) if each.account.active)
        return InitialAccount(first, bool(required))

    # --- Second factor ---------------------------------------------------------------------------

    def sealed_seed(self, seat_id: str) -> str | None:
        """Return the encrypted seed of the second factor."""
        return self._execute(sa.select(seats.c.sealed_seed).where(seats.c.seat_id == seat_id)).scalar()

    def pending_seed(self, seat_id: str) -> str | None:
        """Return the encrypted seed of an unconfirmed enrolment."""
        return self._execute(sa.select(seats.c.pending_seed).where(seats.c.seat_id == seat_id)).scalar()

    def sealed_seeds(self) -> list[str]:
        """Return the encrypted seeds of all second factors."""
        return list(self._connection.scalars(sa.select(seats.c.sealed_seed).where(seats.c.sealed_seed.is_not(None))))

    def begin_second_factor(self, seat_id: str, sealed_seed: str, now: datetime) -> None:
        self._change(seats, seat_id, pending_seed=sealed_seed, pending_since=now)

    def confirm_second_factor(self, seat_id: str, step: int, recovery_hashes: Sequence[str], now: datetime) -> bool:
        """Activate the pending seed, mark the step as used and replace the recovery codes.

        Returns False when no seed was pending.
        """
        confirmed = self._change(
            seats,
            seat_id,
            seats.c.pending_seed.is_not(None),
            sealed_seed=seats.c.pending_seed,
            enrolled_at=now,
            last_step=step,
            pending_seed=None,
            pending_since=None,
        )
        if not confirmed:
            return False
        self.replace_recovery_codes(seat_id, recovery_hashes)
        return True

    def use_step(self, seat_id: str, step: int) -> bool:
        """Mark a step as used, atomically. Returns False when this or a later one was used before."""
        unused = sa.or_(seats.c.last_step.is_(None), seats.c.last_step < step)
        return self._change(seats, seat_id, seats.c.sealed_seed.is_not(None), unused, last_step=step)

    def replace_recovery_codes(self, seat_id: str, hashes: Sequence[str]) -> None:
        self._execute(sa.delete(recovery_codes).where(recovery_codes.c.seat_id == seat_id))
        if hashes:
            self._execute(
                sa.insert(recovery_codes),
                [{"seat_id": seat_id, "code_hash": code_hash, "used_at": None} for code_hash in hashes],
            )

    def use_recovery_code(self, seat_id: str, code_hash: str, now: datetime) -> bool:
        """Mark a recovery code as used, atomically. Returns False when it is unknown or used."""
        unused = sa.update(recovery_codes).where(
            recovery_codes.c.seat_id == seat_id,
            recovery_codes.c.code_hash == code_hash,
            recovery_codes.c.used_at.is_(None),
        )
        return self._changes(unused.values(used_at=now)) == 1

    def recovery_codes_left(self, seat_id: str) -> int:
        return self._number_of(recovery_codes, recovery_codes.c.seat_id == seat_id, recovery_codes.c.used_at.is_(None))

    def reset_second_factor(self, seat_id: str) -> None:
        """Remove the authenticator app, the recovery codes and the passkeys."""
        # The last step stays, so that a used code is still refused after a new enrolment.
        self._change(seats, seat_id, sealed_seed=None, enrolled_at=None, pending_seed=None, pending_since=None)
        for table in (recovery_codes, passkeys):
            self._execute(sa.delete(table).where(table.c.seat_id == seat_id))

    def reseal_seeds(self, reseal: Callable[[str, str], str | None]) -> int:
        """Replace each encrypted seed by `reseal(seat_id, sealed)`; None keeps it. Returns the number replaced."""
        return self._reseal(seats, (seats.c.sealed_seed, seats.c.pending_seed), reseal)


class IdentityStore(Store):
    """Users of single sign-on providers, and the seats they sign in."""

    def find(self, issuer: str, subject: str) -> SeatIdentity | None:
        is_it = seat_identities.c.issuer == issuer, seat_identities.c.subject == subject
        return self._first(_IDENTITIES.where(*is_it), SeatIdentity)

    def list_for(self, seat_id: str) -> list[SeatIdentity]:
        """Return the users bound to a seat, by issuer and subject."""
        return self._all(_IDENTITIES.where(seat_identities.c.seat_id == seat_id), SeatIdentity)

    def list_all(self) -> list[SeatIdentity]:
        return self._all(_IDENTITIES, SeatIdentity)

    def add(self, identity: SeatIdentity) -> None:
        """Bind a user. Raises Conflict when the user is bound already."""
        self._execute(sa.insert(seat_identities), values_of(identity))

    def remove_all(self, seat_id: str) -> int:
        """Remove every user bound to a seat and return their number."""
        return self._changes(sa.delete(seat_identities).where(seat_identities.c.seat_id == seat_id))
