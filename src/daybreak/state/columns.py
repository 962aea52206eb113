"""Column types with the same meaning on SQLite and PostgreSQL: instants, JSON values, ordered keys.

PostgreSQL stores instants as `timestamptz`, SQLite as text of fixed width (`2026-11-20T04:00:00.000000Z`). Both keep
microseconds and sort by time.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.types import TypeDecorator, TypeEngine

_JSON_ENCODER = msgspec.json.Encoder()
_JSON_DECODER = msgspec.json.Decoder()

# Keys are compared by bytes, as in Python. The order of a locale would differ.
KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
# SQLite generates row numbers only for INTEGER columns. PostgreSQL needs 64 bits.
ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def instant_text(value: datetime) -> str:
    """Return an aware datetime as SQLite stores it: UTC, six decimals, fixed width. Raises ValueError."""
    if value.tzinfo is None:
        raise ValueError(f"the instant {value!r} has no time zone")
    return value.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def instant_of(value: Any) -> datetime:
    """Return the aware UTC datetime of a stored instant, as either driver returns it. Raises TypeError."""
    if isinstance(value, str):
        return _instant_in(value)
    if isinstance(value, datetime):
        return value if value.tzinfo is UTC else value.astimezone(UTC)
    raise TypeError(f"{value!r} is not a stored instant")


@lru_cache(1024)  # each request reads the same few sessions and snapshots
def _instant_in(text: str) -> datetime:
    return datetime.fromisoformat(text)


def json_text(value: Any) -> str:
    """Return a JSON value as compact text."""
    return _JSON_ENCODER.encode(value).decode()


def json_of(value: Any) -> Any:
    """Return the JSON value of a stored text. Values that the driver has decoded are returned unchanged."""
    return _JSON_DECODER.decode(value) if isinstance(value, str) else value


@lru_cache(256)  # few distinct values: roles and authentication methods
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
        return None if value is None else instant_of(value)


class Json(TypeDecorator[Any]):
    """A JSON value, stored as text so that both databases return what was stored."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> str | None:
        return None if value is None else json_text(value)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Any:
        return json_of(value)


class Strings(Json):
    """Strings, stored as a JSON array."""

    cache_ok = True

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Any:
        return None if value is None else _strings_in(value)


class JsonOf(Json):
    """A value of a type that msgspec knows, stored as JSON text."""

    cache_ok = True

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.kind = kind
        self._decode = msgspec.json.Decoder(kind).decode

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Any:
        return None if value is None else self._decode(value)


def conversion_of(kind: TypeEngine[Any]) -> Callable[[Any, sa.Dialect], Any] | None:
    """Return the conversion of a value as a driver returns it to the type of its column, None if it needs none."""
    if isinstance(kind, TypeDecorator):
        return kind.process_result_value
    return (lambda value, _dialect: bool(value)) if isinstance(kind, sa.Boolean) else None
