"""The reference pages say what the code says, and nothing that an operator can set or meet is missing from them."""

import re
from collections.abc import Iterator
from pathlib import Path

from daybreak.catalogue.resources import RESOURCES
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.cli.main import VERBS, make_app
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
    sources = (Path(__file__).parents[2] / "src" / "daybreak").rglob("*.py")
    codes = {code for path in sources for code in re.findall(r'\bcode="([a-z_]+)"', path.read_text("utf-8"))}
    assert len(codes) > 40
    for code in {*PROBLEMS, *codes}:
        assert f"`{code}`" in errors, code
    for table in SOURCE_TABLES:
        assert f"## `{table.name}`" in schema
    for resource in RESOURCES:
        assert all(f"`{column.name}`" in schema for column in resource.columns)


def test_every_event_of_the_log_is_on_the_page_of_operations() -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs" / "operations.md").read_text("utf-8")
    sources = (root / "src" / "daybreak").rglob("*.py")
    logged = re.compile(r'\.(?:info|warning|error)\(\s*"([a-z_.]+)"')
    events = {event for path in sources for event in logged.findall(path.read_text("utf-8"))}
    assert len(events) > 20
    assert {event for event in events if f"`{event}`" not in page and f'"{event}"' not in page} == set()


def commands_told() -> Iterator[tuple[str, list[str], list[str]]]:
    """(place, verbs, options) of every command that a page or a message tells people to run."""
    root = Path(__file__).parents[2]
    pages = [*root.glob("*.md"), *root.glob("docs/*.md")]
    sources = [path for path in (root / "src" / "daybreak").rglob("*") if path.suffix in {".py", ".html"}]
    told = re.compile(r"daybreakd((?: [a-z][a-z-]*){1,2})((?: (?:--[a-z-]+|[A-Z_]+|[a-z0-9:/.@-]+))*)")
    for path in (*pages, *sources):
        # In running text a command stands in backticks; in a block it begins a line.
        for found in re.finditer(r"(?:`|^\s*(?:\$ )?)(daybreakd [^`\n]+)", path.read_text("utf-8"), re.MULTILINE):
            match = told.match(found[1])
            if match:
                yield f"{path.name}: {found[1]}", match[1].split(), re.findall(r"--[a-z-]+", found[1])


def test_every_command_that_people_are_told_exists() -> None:
    app = make_app()
    count = 0
    for place, verbs, options in commands_told():
        assert verbs[0] in {name for name, *_ in VERBS}, place
        command = app[verbs[0]]
        if not command.default_command and len(verbs) > 1:
            assert verbs[1] in set(command), place
            command = command[verbs[1]]
        if command.default_command:
            known = {name for argument in command.assemble_argument_collection() for name in argument.names}
            assert set(options) <= {*known, "--help"}, place
        count += 1
    assert count > 40
