"""Repository of API tokens."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from daybreak.domain.identity import ApiToken, Grant, ResolvedToken
from daybreak.state.records import CREDENTIAL_COLUMNS, TOKEN_COLUMNS, credential_parts, values_of
from daybreak.state.schema import accounts, api_tokens, grants, seats
from daybreak.state.statements import PreparedRead, Store


def _read_by(column: sa.Column[Any]) -> PreparedRead:
    own_grant = sa.and_(grants.c.seat_id == api_tokens.c.seat_id, grants.c.client_id == api_tokens.c.client_id)
    return PreparedRead(
        api_tokens.join(seats, seats.c.seat_id == api_tokens.c.seat_id)
        .outerjoin(grants, own_grant)
        .outerjoin(accounts, accounts.c.client_id == grants.c.client_id),
        (*TOKEN_COLUMNS, *CREDENTIAL_COLUMNS),
        column == sa.bindparam("value"),
    )


_BY_DIGEST = _read_by(api_tokens.c.digest)
_BY_ID = _read_by(api_tokens.c.token_id)
_WIDTH = len(TOKEN_COLUMNS)


class ApiTokenStore(Store):
    """API tokens by the digest of their secret."""

    def add(self, token: ApiToken) -> None:
        values = values_of(token) | {"allowed_networks": token.allowed_networks or None}
        self._execute(sa.insert(api_tokens).values(values))

    def resolve(self, digest: str) -> ResolvedToken | None:
        """Return token, seat, account and grant with one statement."""
        return self._resolve(_BY_DIGEST, digest)

    def resolve_by_id(self, token_id: str) -> ResolvedToken | None:
        return self._resolve(_BY_ID, token_id)

    def _resolve(self, read: PreparedRead, value: str) -> ResolvedToken | None:
        row = read.first(self._connection, value=value)
        if row is None:
            return None
        return ResolvedToken(ApiToken(*row[:_WIDTH]), *credential_parts(row[_WIDTH:]))

    def record_use(self, token_id: str, now: datetime, *, not_after: datetime) -> None:
        """Set the last use, unless the token was used after `not_after`."""
        last_use = api_tokens.c.last_used_at
        self._change(api_tokens, token_id, sa.or_(last_use.is_(None), last_use <= not_after), last_used_at=now)

    def list_for(self, *, client_id: str | None = None, seat_id: str | None = None) -> list[ApiToken]:
        statement = sa.select(*TOKEN_COLUMNS).order_by(api_tokens.c.created_at.desc(), api_tokens.c.token_id)
        if client_id is not None:
            statement = statement.where(api_tokens.c.client_id == client_id)
        if seat_id is not None:
            statement = statement.where(api_tokens.c.seat_id == seat_id)
        return self._all(statement, ApiToken)

    def list_expiring(self, after: datetime, until: datetime) -> list[ApiToken]:
        """Return tokens of enabled seats that are not revoked and expire after one instant and by the other."""
        return self._all(
            sa.select(*TOKEN_COLUMNS)
            .join(seats, seats.c.seat_id == api_tokens.c.seat_id)
            .where(
                api_tokens.c.expires_at > after,
                api_tokens.c.expires_at <= until,
                api_tokens.c.revoked_at.is_(None),
                sa.not_(seats.c.disabled),
            )
            .order_by(api_tokens.c.expires_at, api_tokens.c.token_id),
            ApiToken,
        )

    def rename(self, token_id: str, name: str) -> None:
        self._change(api_tokens, token_id, name=name)

    def set_allowed_networks(self, token_id: str, networks: Sequence[str]) -> None:
        """Replace the networks that requests must come from. Without networks, every address is allowed."""
        self._change(api_tokens, token_id, allowed_networks=networks or None)

    def revoke(self, token_id: str, now: datetime, reason: str) -> bool:
        is_open = api_tokens.c.revoked_at.is_(None)
        return self._change(api_tokens, token_id, is_open, revoked_at=now, revoke_reason=reason)

    def revoke_for_grants(self, grants: Iterable[Grant], now: datetime, reason: str) -> None:
        """Revoke every token that depends on one of the grants."""
        parameters = [{"seat": grant.seat_id, "client": grant.client_id} for grant in grants]
        if parameters:
            of_grant = (
                api_tokens.c.seat_id == sa.bindparam("seat"),
                api_tokens.c.client_id == sa.bindparam("client"),
                api_tokens.c.revoked_at.is_(None),
            )
            self._execute(
                sa.update(api_tokens).where(*of_grant).values(revoked_at=now, revoke_reason=reason), parameters
            )

    def delete_inactive(self, before: datetime) -> int:
        """Delete tokens that were revoked or expired before that instant and return their number."""
        return self._changes(
            sa.delete(api_tokens).where(sa.or_(api_tokens.c.revoked_at < before, api_tokens.c.expires_at < before))
        )
