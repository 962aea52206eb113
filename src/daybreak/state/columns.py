"""Column types that mean the same on SQLite and PostgreSQL: instants, JSON values, ordered keys.

PostgreSQL keeps instants as `timestamptz`, SQLite as text of fixed width
(`2026-11-20T04:00:00.000000Z`), so that both keep microseconds and both compare and sort in time.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.types import TypeDecorator, TypeEngine

_JSON_ENCODER = msgspec.json.Encoder()
_JSON_DECODER = msgspec.json.Decoder()

# Keys are compared byte by byte on both databases: a locale's order would differ from Python's.
KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
# SQLite counts rows up by itself for INTEGER alone, PostgreSQL needs 64 bits.
ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def instant_text(value: datetime) -> str:
    """An aware datetime as SQLite keeps it: UTC, six digits of a second, fixed width."""
    if value.tzinfo is None:
        raise ValueError(f"the instant {value!r} has no time zone")
    value = value.astimezone(UTC)
    if not value.microsecond:
        return value.isoformat(timespec="microseconds")[:-6] + "Z"
    # All digits are there then, in a tenth of the time: an event of the trail is written with each link.
    return _JSON_ENCODER.encode(value).decode("ascii")[1:-1]


def instant_of(value: Any) -> datetime:
    """The aware UTC datetime of a stored instant, as either driver gives it."""
    if isinstance(value, str):
        return _instant_in(value)
    if isinstance(value, datetime):
        return value if value.tzinfo is UTC else value.astimezone(UTC)
    raise TypeError(f"{value!r} is not a stored instant")


@lru_cache(1024)  # a session, a seat and a snapshot are read again with each request
def _instant_in(text: str) -> datetime:
    return datetime.fromisoformat(text)


def instant_or_none(value: Any) -> datetime | None:
    """As `instant_of`, None for NULL."""
    return None if value is None else instant_of(value)


def json_text(value: Any) -> str:
    """A plain JSON value as compact text."""
    return _JSON_ENCODER.encode(value).decode()


def json_of(value: Any) -> Any:
    """The JSON value of a stored text; a value that was decoded already is given back."""
    return _JSON_DECODER.decode(value) if isinstance(value, str) else value


def strings_of(value: Any) -> tuple[str, ...]:
    """The strings of a stored JSON array."""
    return _strings_in(value) if isinstance(value, str) else tuple(value)


@lru_cache(256)  # few are in use: roles, and ways to sign in
def _strings_in(text: str) -> tuple[str, ...]:
    return tuple(_JSON_DECODER.decode(text))


class Instant(TypeDecorator[datetime]):
    """An aware UTC datetime with microseconds."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(sa.DateTime(timezone=True))
        return dialect.type_descriptor(sa.Text())

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> Any:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"the instant {value!r} has no time zone")
        return value if dialect.name == "postgresql" else instant_text(value)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> datetime | None:
        return instant_or_none(value)


class Json(TypeDecorator[Any]):
    """A plain JSON value, kept as text so that both databases give back what was put in."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> str | None:
        return None if value is None else json_text(value)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Any:
        return json_of(value)
