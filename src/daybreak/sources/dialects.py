"""The models in another engine's SQL."""

from __future__ import annotations

from functools import lru_cache

import sqlglot

from daybreak.domain.errors import SourceError


@lru_cache(maxsize=64)
def in_dialect(sql: str, dialect: str) -> str:
    """A model's SELECT (DuckDB's dialect) in sqlglot's `dialect`. Raises SourceError."""
    try:
        return sqlglot.transpile(sql, read="duckdb", write=dialect, unsupported_level=_RAISE)[0]
    except sqlglot.errors.SqlglotError as error:
        raise SourceError(f"A model cannot be put into the SQL of {dialect}: {error}") from error


_RAISE = sqlglot.ErrorLevel.RAISE
