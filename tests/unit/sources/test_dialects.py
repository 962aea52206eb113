"""Translation of models to other SQL dialects, and detection of models that aggregate."""

import subprocess
import sys

import pytest

from daybreak.catalogue.models import Model, load_models
from daybreak.domain.errors import SourceError
from daybreak.sources.dialects import aggregates, spark_sql


def test_select_is_translated() -> None:
    assert spark_sql("SELECT a::VARCHAR AS a FROM t") == "SELECT CAST(a AS STRING) AS a FROM t"


@pytest.mark.parametrize("sql", ["SELECT (", f"SELECT {'lower(' * 500}a{')' * 500} FROM t"])
def test_untranslatable_select_is_an_error(sql: str) -> None:
    with pytest.raises(SourceError, match="cannot be translated to Spark SQL"):
        spark_sql(sql)


def test_shipped_models_do_not_load_sqlglot() -> None:
    program = (
        "import sys, daybreak.sources.postgresql.source\n"
        "from daybreak.catalogue.models import load_models\n"
        "from daybreak.sources.dialects import aggregates\n"
        "aggregating = [model for model in load_models().values() if aggregates(model, 'postgres')]\n"
        "print(len(aggregating), 'sqlglot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "5 False\n"


def test_shipped_models_declare_whether_they_aggregate() -> None:
    for model in load_models().values():
        assert model.aggregates is not None
        assert aggregates(Model(model.resource, model.sql, "undeclared"), "duckdb") == model.aggregates, model.resource


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT a, count(*) FROM t GROUP BY a", True),
        ("SELECT DISTINCT a FROM t", True),
        ("SELECT a FROM t JOIN (SELECT DISTINCT a FROM u) USING (a)", False),
        ("SELECT a, row_number() OVER (ORDER BY a) FROM t", True),
        ("SELECT max(a) FROM t", True),
        ("SELECT a FROM t UNION SELECT a FROM u", True),
        ("SELECT a FROM t UNION ALL SELECT a FROM u", False),
        ("SELECT a FROM t WHERE b = :as_of -- GROUP BY a", False),
        ("SELECT 'GROUP BY' AS a FROM t JOIN u USING (a)", False),
        ("SELECT (", True),
        (f"SELECT {'lower(' * 500}a{')' * 500} AS a FROM t", True),
    ],
)
def test_aggregation_is_recognized_in_sql(sql: str, expected: bool) -> None:
    assert aggregates(Model("members", sql, "mine.sql"), "duckdb") is expected
