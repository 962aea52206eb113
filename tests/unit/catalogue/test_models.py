"""SQL models: loading, replacement by files, and the instant of the snapshot."""

import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
import sqlglot

from daybreak.catalogue.models import Model, as_of_literal, load_models
from daybreak.catalogue.resources import RESOURCES
from daybreak.domain.errors import OperatorError
from tests.parts.file_privileges import without_file_privileges

AS_OF = datetime(2026, 11, 20, 4, tzinfo=UTC)


def test_each_resource_has_a_model() -> None:
    assert set(load_models()) == {resource.name for resource in RESOURCES}


@pytest.mark.parametrize("dialect", ["postgres", "spark"])
def test_models_translate_to_other_dialects(dialect: str) -> None:
    for model in load_models().values():
        sql = sqlglot.transpile(model.at(AS_OF), read="duckdb", write=dialect)[0]
        assert ":as_of" not in sql
        names = sqlglot.parse_one(sql, read=dialect, into=sqlglot.exp.Select).named_selects
        resource = next(r for r in RESOURCES if r.name == model.resource)
        assert names == list(resource.column_names)


def test_shipped_models_have_the_same_meaning_in_postgresql() -> None:
    for model in load_models().values():
        assert model.shipped
        sql = model.at(AS_OF)
        as_postgresql, as_duckdb = (
            re.sub(r"NOT (\w+) IS NULL", r"\1 IS NOT NULL", sqlglot.transpile(sql, read=dialect, write="postgres")[0])
            for dialect in ("postgres", "duckdb")
        )
        assert as_postgresql == as_duckdb


def test_instant_is_a_literal_in_utc() -> None:
    east = datetime(2026, 11, 20, 9, 30, 0, 5, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    assert as_of_literal(east) == "TIMESTAMP '2026-11-20 04:00:00.000005'"
    with pytest.raises(ValueError, match="time zone"):
        as_of_literal(datetime(2026, 11, 20))
    model = Model("members", "SELECT :as_of, x::as_of, ':as_office' WHERE a<=:as_of", "test")
    literal = as_of_literal(AS_OF)
    assert model.at(AS_OF) == f"SELECT {literal}, x::as_of, ':as_office' WHERE a<={literal}"


def test_file_replaces_one_model(tmp_path: Path) -> None:
    (tmp_path / "members.sql").write_text("SELECT 1;\n", "utf-8")
    models = load_models(tmp_path)
    assert models["members"].sql == "SELECT 1\n"
    assert models["members"].origin == str(tmp_path / "members.sql")
    assert not models["members"].shipped
    assert models["campaigns"] == load_models()["campaigns"]


def test_query_of_row_accounting_belongs_to_an_own_model(tmp_path: Path) -> None:
    (tmp_path / "members.account.sql").write_text("SELECT 2;", "utf-8")
    with pytest.raises(OperatorError, match=r"accounts for members\.sql, which is missing"):
        load_models(tmp_path)
    (tmp_path / "members.sql").write_text("SELECT 1", "utf-8")
    account = load_models(tmp_path)["members"].account
    assert account is not None
    assert account.sql == "SELECT 2\n"


def test_model_for_an_unknown_resource_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "member.sql").write_text("SELECT 1", "utf-8")
    with pytest.raises(OperatorError, match=r"member\.sql matches no resource"):
        load_models(tmp_path)
    with pytest.raises(OperatorError, match="not a folder"):
        load_models(tmp_path / "nowhere")


def test_model_with_another_case_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "members.SQL").write_text("SELECT 1", "utf-8")
    with pytest.raises(OperatorError, match=r"members\.SQL matches no resource"):
        load_models(tmp_path)


def test_folder_that_cannot_be_listed_is_not_an_empty_one(tmp_path: Path) -> None:
    """Without its own model, a run would publish the rows that the model excludes."""
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "members.sql").write_text("SELECT 1", "utf-8")
    folder.chmod(0o300)
    program = (
        "from pathlib import Path\n"
        "from daybreak.catalogue.models import load_models\n"
        f"load_models(Path({str(folder)!r}))"
    )
    command = [*without_file_privileges(), sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    folder.chmod(0o700)
    assert done.stderr.endswith(f"OperatorError: snapshot.models_dir: {folder} cannot be listed: Permission denied.\n")


def test_unreadable_model_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "members.sql").write_text("SELECT 'Zoë'", "latin-1")
    with pytest.raises(OperatorError, match=r"snapshot\.models_dir: .*members\.sql is not UTF-8 text\."):
        load_models(tmp_path)
    (tmp_path / "members.sql").unlink()
    (tmp_path / "members.sql").mkdir()
    with pytest.raises(OperatorError, match=r"snapshot\.models_dir: .*members\.sql cannot be read"):
        load_models(tmp_path)
