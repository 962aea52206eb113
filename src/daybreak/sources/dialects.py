"""Translation of models to other SQL dialects, and detection of models that aggregate.

sqlglot is imported on demand: importing it takes longer than exporting a small resource, and only the operator's own
models and Spark need it.
"""

from __future__ import annotations

from functools import lru_cache

from daybreak.catalogue.models import Model
from daybreak.domain.errors import SourceError


@lru_cache(maxsize=64)
def transpile(sql: str, dialect: str) -> str:
    """Translate a SELECT from DuckDB's dialect to sqlglot's `dialect`. Raises SourceError."""
    import sqlglot

    try:
        return sqlglot.transpile(sql, read="duckdb", write=dialect, unsupported_level=sqlglot.ErrorLevel.RAISE)[0]
    except sqlglot.errors.SqlglotError as error:
        raise SourceError(f"A model cannot be translated to {dialect} SQL: {error}") from error


def aggregates(model: Model) -> bool:
    """Return whether a model aggregates: its declared value, else the result of parsing its SQL. SQL that sqlglot
    cannot parse counts as aggregating, so that its result is computed only once.
    """
    return _sql_aggregates(model.sql) if model.aggregates is None else model.aggregates


@lru_cache(maxsize=64)
def _sql_aggregates(sql: str) -> bool:
    import sqlglot
    from sqlglot import exp

    try:
        tree = sqlglot.parse_one(sql, read="duckdb")
    except sqlglot.errors.SqlglotError:
        return True
    # DISTINCT in a subquery, as in a list of identifiers to exclude, does not make the result small.
    return bool(tree.args.get("distinct")) or tree.find(exp.Group, exp.AggFunc, exp.Window) is not None
