"""Repository of consumers: who fetches files by API token, and who has stopped. One row for each token is read."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
from msgspec.structs import replace

from daybreak.domain.audit import AuditEvent, AuditQuery
from daybreak.domain.identity import ApiToken
from daybreak.state.audit import AuditStore
from daybreak.state.records import TOKEN_COLUMNS
from daybreak.state.schema import accounts, api_tokens
from daybreak.state.statements import Store

LISTED_FOR = timedelta(days=30)
"""A token that was not used for longer is not listed."""
UNUSED_AFTER = timedelta(days=90)
_STOPPED_AFTER = timedelta(days=3)
# A script counts as daily if it fetched on this many of the last seven days. Scripts of working days do not.
_DAYS = 6
_MAX_STOPPED = 2_000
_MAX_EVENTS = 5_000
_FETCHED = ("file.fetched", "table.queried")


@dataclass(frozen=True, slots=True)
class ConsumerCounts:
    """Accounts that fetched on the previous day (UTC) and those that stopped, tokens in use, and unused tokens.

    An account has stopped if its tokens were last used 3 to 30 days ago.
    """

    yesterday: int
    stopped: int
    tokens: int
    unused: int


@dataclass(frozen=True, slots=True)
class Consumer:
    """A token in use, the name of its account, and its latest download, None if the audit trail has none."""

    token: ApiToken
    account: str
    latest: AuditEvent | None


class ConsumerStore(Store):
    """Accounts and API tokens by their last use."""

    def counts(self, now: datetime) -> ConsumerCounts:
        """Count accounts and tokens. A token that was used today may have been used yesterday as well."""
        today = now.replace(hour=0, minute=0, second=0, microsecond=0)
        used = (
            sa.select(sa.func.max(api_tokens.c.last_used_at).label("at"), sa.func.count().label("tokens"))
            .where(_usable(now), api_tokens.c.last_used_at >= now - LISTED_FOR)
            .group_by(api_tokens.c.client_id)
            .subquery()
        )
        yesterday = sa.case((used.c.at >= today - timedelta(days=1), 1), else_=0)
        stopped = sa.case((used.c.at < now - _STOPPED_AFTER, 1), else_=0)
        sums = [sa.func.coalesce(sa.func.sum(each), 0) for each in (yesterday, stopped, used.c.tokens)]
        fetched, idle, tokens = self._execute(sa.select(*sums)).one()
        last = sa.func.coalesce(api_tokens.c.last_used_at, api_tokens.c.created_at)
        unused = self._number_of(api_tokens, _usable(now), last < now - UNUSED_AFTER)
        return ConsumerCounts(int(fetched), int(idle), int(tokens), unused)

    def list_by_last_use(self, now: datetime, offset: int, limit: int) -> list[Consumer]:
        """Return the tokens in use, those that were not used for longest first."""
        rows = self._execute(
            sa.select(*TOKEN_COLUMNS, accounts.c.first_name + " " + accounts.c.last_name)
            .join(accounts, accounts.c.client_id == api_tokens.c.client_id)
            .where(_usable(now), api_tokens.c.last_used_at >= now - LISTED_FOR)
            .order_by(api_tokens.c.last_used_at, api_tokens.c.token_id)
            .offset(offset)
            .limit(limit)
        )
        found = [(ApiToken(*row[:-1]), row[-1]) for row in rows]
        return [
            Consumer(token, name, next(self._downloads(token, timedelta(days=1), 1), None)) for token, name in found
        ]

    def daily_scripts_stopped(self, now: datetime) -> list[ApiToken]:
        """Return the tokens of daily scripts whose last use was three days ago."""
        last = api_tokens.c.last_used_at
        tokens = self._all(
            sa.select(*TOKEN_COLUMNS)
            .where(_usable(now), last <= now - _STOPPED_AFTER, last > now - _STOPPED_AFTER - timedelta(days=1))
            .order_by(last, api_tokens.c.token_id)
            .limit(_MAX_STOPPED),
            ApiToken,
        )
        days = {
            token: {event.at.date() for event in self._downloads(token, timedelta(days=6), _MAX_EVENTS)}
            for token in tokens
        }
        return [token for token, fetched in days.items() if len(fetched) >= _DAYS]

    def _downloads(self, token: ApiToken, before_last_use: timedelta, limit: int) -> Iterator[AuditEvent]:
        if token.last_used_at is None:
            return
        since = (token.last_used_at - before_last_use).replace(hour=0, minute=0, second=0, microsecond=0)
        trail = AuditStore(self._connection)
        query = AuditQuery(
            client_id=token.client_id,
            subject=token.subject,
            since=since,
            succeeded=True,
            newest_first=True,
            limit=limit,
        )
        for action in _FETCHED:
            yield from trail.read(replace(query, action=action))


def _usable(now: datetime) -> sa.ColumnElement[bool]:
    not_expired = sa.or_(api_tokens.c.expires_at.is_(None), api_tokens.c.expires_at > now)
    return sa.and_(api_tokens.c.revoked_at.is_(None), not_expired)
