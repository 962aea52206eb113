"""Repository of sessions and devices."""

from collections import Counter
from datetime import datetime

import sqlalchemy as sa

from daybreak.domain.identity import Device, ResolvedSession, Session
from daybreak.state.records import CREDENTIAL_COLUMNS, DEVICE_COLUMNS, SESSION_COLUMNS, credential_parts, values_of
from daybreak.state.schema import accounts, devices, grants, seats, sessions
from daybreak.state.statements import PreparedRead, Store

_RESOLVE = PreparedRead(
    sessions.join(seats, seats.c.seat_id == sessions.c.seat_id)
    .outerjoin(grants, sa.and_(grants.c.seat_id == sessions.c.seat_id, grants.c.client_id == sa.bindparam("client_id")))
    .outerjoin(accounts, accounts.c.client_id == grants.c.client_id),
    (*SESSION_COLUMNS, *CREDENTIAL_COLUMNS),
    sessions.c.sid == sa.bindparam("sid"),
)
_WIDTH = len(SESSION_COLUMNS)
_START = sa.insert(sessions)
_LAST_USED = sa.func.coalesce(sessions.c.last_seen_at, sessions.c.started_at)
_END_OPEN = sa.update(sessions).where(sessions.c.ended_at.is_(None))
_OTHERS = devices.alias("others")
# The device, unless its last login was before the enrolment, and the number of devices with a later login.
_KNOWN_DEVICE = (
    sa.select(
        *DEVICE_COLUMNS,
        sa.select(sa.func.count())
        .where(_OTHERS.c.seat_id == devices.c.seat_id, _OTHERS.c.last_seen_at > devices.c.last_seen_at)
        .scalar_subquery(),
    )
    .join_from(devices, seats, seats.c.seat_id == devices.c.seat_id)
    .where(
        devices.c.device_id == sa.bindparam("device_id"),
        devices.c.seat_id == sa.bindparam("seat_id"),
        sa.or_(seats.c.enrolled_at.is_(None), devices.c.last_seen_at >= seats.c.enrolled_at),
    )
)


class SessionStore(Store):
    """Sessions and the devices that they were started on."""

    def start(self, session: Session) -> None:
        self._execute(_START, values_of(session))

    def replace(self, old_sid: str, session: Session, now: datetime, reason: str) -> bool:
        """End the session `old_sid` and start `session`, atomically.

        Returns False and starts nothing when `old_sid` is unknown or had ended already.
        """
        if not self.end(old_sid, now, reason):
            return False
        self.start(session)
        return True

    def resolve(self, sid: str, client_id: str | None) -> ResolvedSession | None:
        """Return session, seat, account and grant with one statement, None when the sid is unknown."""
        # No account has an empty id, so the join finds no grant.
        row = _RESOLVE.first(self._connection, sid=sid, client_id=client_id or "")
        if row is None:
            return None
        return ResolvedSession(Session(*row[:_WIDTH]), *credential_parts(row[_WIDTH:]))

    def end(self, sid: str, now: datetime, reason: str) -> bool:
        """End a session. Returns False when it had ended already."""
        return self._change(sessions, sid, sessions.c.ended_at.is_(None), ended_at=now, end_reason=reason)

    def end_all(self, seat_id: str, now: datetime, reason: str, *, keep_sid: str | None = None) -> int:
        """End every session of a seat that has not expired, except `keep_sid`, and return their number."""
        statement = _END_OPEN.where(sessions.c.seat_id == seat_id, sessions.c.expires_at > now)
        if keep_sid is not None:
            statement = statement.where(sessions.c.sid != keep_sid)
        return self._changes(statement.values(ended_at=now, end_reason=reason))

    def end_every(self, now: datetime, reason: str) -> dict[str, int]:
        """End every session that has not expired, and return the number for each seat that had any."""
        statement = _END_OPEN.where(sessions.c.expires_at > now).values(ended_at=now, end_reason=reason)
        return dict(Counter(self._connection.scalars(statement.returning(sessions.c.seat_id))))

    def end_unused(self, sid: str, now: datetime, reason: str, *, since: datetime) -> bool:
        """End a session, unless it had ended or was used after `since`. Returns whether it was ended."""
        unused = sessions.c.ended_at.is_(None), since >= _LAST_USED
        return self._change(sessions, sid, *unused, ended_at=now, end_reason=reason)

    def record_activity(self, sid: str, now: datetime, *, not_after: datetime) -> None:
        """Set the last use, unless the session was used after `not_after`."""
        self._change(sessions, sid, not_after >= _LAST_USED, last_seen_at=now)

    def list_open(self, seat_id: str, now: datetime) -> list[tuple[Session, Device | None]]:
        rows = self._execute(
            sa.select(*SESSION_COLUMNS, *DEVICE_COLUMNS)
            .select_from(sessions)
            .outerjoin(devices, devices.c.device_id == sessions.c.device_id)
            .where(
                sessions.c.seat_id == seat_id,
                sessions.c.ended_at.is_(None),
                sessions.c.expires_at > now,
                sessions.c.awaiting_second_factor.is_(False),
            )
            .order_by(sessions.c.started_at.desc(), sessions.c.sid)
        )
        return [(Session(*row[:_WIDTH]), None if row[_WIDTH] is None else Device(*row[_WIDTH:])) for row in rows]

    def mark_reauthenticated(self, sid: str, now: datetime) -> None:
        self._change(sessions, sid, reauthenticated_at=now)

    def save_device(self, device: Device) -> None:
        """Insert a device, or update agent, address and last use of a known one."""
        # A device id of another seat stays with that seat.
        self._upsert(
            devices, [values_of(device)], change=("user_agent", "address", "last_seen_at"), only_if=("seat_id",)
        )

    def known_device(self, device_id: str, seat_id: str, *, at_most: int) -> Device | None:
        """Return a device if it is among the `at_most` devices from which the seat signed in last.

        Devices on which the seat has not signed in since it enrolled its second factor are unknown.
        """
        row = self._execute(_KNOWN_DEVICE, {"device_id": device_id, "seat_id": seat_id}).first()
        return None if row is None or row[-1] >= at_most else Device(*row[:-1])

    def delete_ended(self, before: datetime) -> int:
        """Delete sessions that ended or expired before that instant and return their number."""
        return self._changes(
            sa.delete(sessions).where(sa.or_(sessions.c.ended_at < before, sessions.c.expires_at < before))
        )

    def delete_unused_devices(self, before: datetime) -> int:
        """Delete devices without sessions that were last seen before that instant and return their number."""
        in_use = sa.select(sessions.c.device_id).where(sessions.c.device_id.is_not(None))
        return self._changes(
            sa.delete(devices).where(devices.c.last_seen_at < before, devices.c.device_id.not_in(in_use))
        )
