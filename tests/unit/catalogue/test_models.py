"""The models: loading, replacing, the instant, and the chain of Leaders."""

import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
import sqlglot

from daybreak.catalogue.models import Model, as_of_literal, check_leader_chain, load_models
from daybreak.catalogue.resources import RESOURCES
from daybreak.domain.errors import OperatorError, SourceError

AS_OF = datetime(2026, 11, 20, 4, tzinfo=UTC)


def test_there_is_one_model_for_each_resource() -> None:
    assert set(load_models()) == {resource.name for resource in RESOURCES}


@pytest.mark.parametrize("dialect", ["postgres", "spark"])
def test_models_can_be_put_into_other_dialects(dialect: str) -> None:
    for model in load_models().values():
        sql = sqlglot.transpile(model.at(AS_OF), read="duckdb", write=dialect)[0]
        assert ":as_of" not in sql
        names = sqlglot.parse_one(sql, read=dialect, into=sqlglot.exp.Select).named_selects
        wanted = next(r for r in RESOURCES if r.name == model.resource)
        assert names == list(wanted.column_names)


def test_our_models_mean_the_same_to_postgresql_as_they_stand() -> None:
    for model in load_models().values():
        assert model.is_portable
        sql = model.at(AS_OF)
        as_it_stands, given = (
            re.sub(r"NOT (\w+) IS NULL", r"\1 IS NOT NULL", sqlglot.transpile(sql, read=dialect, write="postgres")[0])
            for dialect in ("postgres", "duckdb")
        )
        assert as_it_stands == given


def test_the_instant_is_written_in_utc() -> None:
    east = datetime(2026, 11, 20, 9, 30, 0, 5, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    assert as_of_literal(east) == "TIMESTAMP '2026-11-20 04:00:00.000005'"
    with pytest.raises(ValueError, match="time zone"):
        as_of_literal(datetime(2026, 11, 20))
    model = Model("members", "SELECT :as_of, x::as_of, ':as_office' WHERE a<=:as_of", "test")
    literal = as_of_literal(AS_OF)
    assert model.at(AS_OF) == f"SELECT {literal}, x::as_of, ':as_office' WHERE a<={literal}"


def test_single_models_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "members.sql").write_text("SELECT 1;\n", "utf-8")
    models = load_models(tmp_path)
    assert models["members"].sql == "SELECT 1\n"
    assert models["members"].origin == str(tmp_path / "members.sql")
    assert not models["members"].is_portable
    assert models["campaigns"] == load_models()["campaigns"]


def test_a_model_for_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "member.sql").write_text("SELECT 1", "utf-8")
    with pytest.raises(OperatorError, match=r"member\.sql replaces nothing"):
        load_models(tmp_path)
    with pytest.raises(OperatorError, match="not a folder"):
        load_models(tmp_path / "nowhere")


def test_a_model_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "members.sql").write_text("SELECT 'Zoë'", "latin-1")
    with pytest.raises(OperatorError, match=r"snapshot\.models_dir: .*members\.sql cannot be read: .*UTF-8"):
        load_models(tmp_path)
    (tmp_path / "members.sql").unlink()
    (tmp_path / "members.sql").mkdir()
    with pytest.raises(OperatorError, match=r"snapshot\.models_dir: .*members\.sql cannot be read"):
        load_models(tmp_path)


@pytest.mark.parametrize(
    "pairs",
    [
        [("a", "a")],
        [("a", "b"), ("b", "a")],
        [("x", "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("y", None)],
    ],
)
def test_a_circle_of_parents_is_refused(pairs: list[tuple[str, str | None]]) -> None:
    with pytest.raises(SourceError, match=r"circle: .* -> ") as caught:
        check_leader_chain(pairs)
    assert "x" not in caught.value.message.split("circle: ")[1]


def test_chains_that_end_are_fine() -> None:
    check_leader_chain([("a", None), ("b", "a"), ("c", "b"), ("d", "b"), ("e", "unknown")])
    with pytest.raises(SourceError, match="twice"):
        check_leader_chain([("a", None), ("a", "b")])
