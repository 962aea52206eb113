"""The models in another engine's SQL."""

from __future__ import annotations

from functools import lru_cache

from daybreak.domain.errors import SourceError


@lru_cache(maxsize=64)
def in_dialect(sql: str, dialect: str) -> str:
    """A model's SELECT (DuckDB's dialect) in sqlglot's `dialect`. Raises SourceError."""
    # Loads for longer than small resources take, and nothing but models of the operator's own and Spark needs it.
    import sqlglot

    try:
        return sqlglot.transpile(sql, read="duckdb", write=dialect, unsupported_level=sqlglot.ErrorLevel.RAISE)[0]
    except sqlglot.errors.SqlglotError as error:
        raise SourceError(f"A model cannot be put into the SQL of {dialect}: {error}") from error
