"""The reference pages say what the code says, and nothing that an operator can set or meet is missing from them."""

from pathlib import Path

from daybreak.catalogue.resources import RESOURCES
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.cli.main import VERBS
from daybreak.settings import setting_rows
from daybreak.web.problems import PROBLEMS
from tools import reference


def test_pages_are_what_the_code_says() -> None:
    assert reference.stale_pages() == [], "run `make reference`"


def test_a_stale_page_is_noticed(tmp_path: Path) -> None:
    pages = {name: make() for name, make in reference.PAGES.items()}
    for name, text in pages.items():
        (tmp_path / name).write_text(reference.MADE + text, "utf-8")
    docs, reference.DOCS = reference.DOCS, tmp_path
    try:
        assert reference.stale_pages() == []
        (tmp_path / "cli.md").write_text("old", "utf-8")
        (tmp_path / "errors.md").unlink()
        assert reference.stale_pages() == ["cli.md", "errors.md"]
    finally:
        reference.DOCS = docs


def test_everything_has_its_line() -> None:
    configuration, cli, schema, errors = (
        reference.PAGES[name]() for name in ("configuration.md", "cli.md", "source-schema.md", "errors.md")
    )
    for row in setting_rows():
        assert f"`{row.name}`" in configuration, row.key
    for name, _, _ in VERBS:
        assert f"## daybreakd {name}" in cli
    for code in PROBLEMS:
        assert f"`{code}`" in errors
    for table in SOURCE_TABLES:
        assert f"## `{table.name}`" in schema
    for resource in RESOURCES:
        assert all(f"`{column.name}`" in schema for column in resource.columns)
