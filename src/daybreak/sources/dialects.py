"""Translation of SQL to Spark's dialect, and detection of models that aggregate.

sqlglot is imported on demand: importing it takes longer than exporting a small resource, and only the operator's own
models and Spark need it.
"""

from functools import lru_cache

from daybreak.catalogue.models import Model
from daybreak.domain.errors import SourceError


@lru_cache(maxsize=64)
def spark_sql(sql: str) -> str:
    """Translate a SELECT from DuckDB's dialect to Spark's. Raises SourceError."""
    import sqlglot

    try:
        return sqlglot.transpile(sql, read="duckdb", write="spark", unsupported_level=sqlglot.ErrorLevel.RAISE)[0]
    except (sqlglot.errors.SqlglotError, RecursionError) as error:
        raise SourceError(f"A query cannot be translated to Spark SQL: {error}") from error


def aggregates(model: Model, dialect: str) -> bool:
    """Return whether a model aggregates: its declared value, else the result of parsing its SQL in sqlglot's `dialect`.
    SQL that sqlglot cannot read counts as aggregating, so that its result is computed only once.
    """
    return _sql_aggregates(model.sql, dialect) if model.aggregates is None else model.aggregates


@lru_cache(maxsize=64)
def _sql_aggregates(sql: str, dialect: str) -> bool:
    import sqlglot
    from sqlglot import exp

    try:
        tree = sqlglot.parse_one(sql, read=dialect)
    except (sqlglot.errors.SqlglotError, RecursionError):
        return True
    # DISTINCT in a subquery, as in a list of identifiers to exclude, does not make the result small.
    return bool(tree.args.get("distinct")) or tree.find(exp.Group, exp.AggFunc, exp.Window) is not None
