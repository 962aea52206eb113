"""The reference pages match the code and are complete."""

import re
from collections.abc import Iterator
from pathlib import Path

from daybreak.catalogue.resources import RESOURCES
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.cli.main import VERBS, make_app
from daybreak.settings.reference import setting_rows
from daybreak.web.http.problems import PROBLEMS
from tools import reference, reference_text


def test_pages_match_the_code() -> None:
    assert reference.stale_pages() == [], "run `make reference`"


def test_stale_page_is_reported(tmp_path: Path) -> None:
    pages = {name: make() for name, make in reference.PAGES.items()}
    for name, text in pages.items():
        (tmp_path / name).write_text(reference_text.HEADER + text, "utf-8")
    docs, reference.DOCS = reference.DOCS, tmp_path
    try:
        assert reference.stale_pages() == []
        (tmp_path / "cli.md").write_text("old", "utf-8")
        (tmp_path / "errors.md").unlink()
        assert reference.stale_pages() == ["cli.md", "errors.md"]
    finally:
        reference.DOCS = docs


def test_pages_list_every_setting_command_and_error() -> None:
    names = ("configuration.md", "cli.md", "columns.md", "source-tables.md", "errors.md")
    configuration, cli, columns, tables, errors = (reference.PAGES[name]() for name in names)
    for row in setting_rows():
        assert f"`{row.name}`" in configuration, row.key
    for name, _, _ in VERBS:
        assert f"## daybreakd {name}" in cli
    sources = (Path(__file__).parents[2] / "src" / "daybreak").rglob("*.py")
    codes = {code for path in sources for code in re.findall(r'\bcode="([a-z_]+)"', path.read_text("utf-8"))}
    assert len(codes) > 40
    for code in {*PROBLEMS, *codes}:
        assert f"`{code}`" in errors, code
    assert "(delta-sharing.md#errors) has its own form" in errors
    assert "`400`, `414` or `431`\nwithout a body" in errors, "the cases of tests/acceptance/test_framing.py"
    for table in SOURCE_TABLES:
        assert f"## `{table.name}`" in tables
    for resource in RESOURCES:
        assert all(f"`{column.name}`" in columns for column in resource.columns)


def test_operations_page_lists_every_log_event() -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs" / "how-to" / "operations.md").read_text("utf-8")
    sources = (root / "src" / "daybreak").rglob("*.py")
    logged = re.compile(r'\.(?:info|warning|error)\(\s*"([a-z_.]+)"')
    events = {event for path in sources for event in logged.findall(path.read_text("utf-8"))}
    assert len(events) > 20
    assert {event for event in events if f"`{event}`" not in page and f'"{event}"' not in page} == set()


def documented_commands() -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield place, verbs and options of every command in a page or a message."""
    root = Path(__file__).parents[2]
    pages = [*root.glob("*.md"), *root.glob("docs/**/*.md")]
    sources = [path for path in (root / "src" / "daybreak").rglob("*") if path.suffix in {".py", ".html"}]
    command = re.compile(r"daybreakd((?: [a-z][a-z-]*){1,2})((?: (?:--[a-z-]+|[A-Z_]+|[a-z0-9:/.@-]+))*)")
    for path in (*pages, *sources):
        # In running text a command is in backticks; in a block it begins a line.
        for found in re.finditer(r"(?:`|^\s*(?:\$ )?)(daybreakd [^`\n]+)", path.read_text("utf-8"), re.MULTILINE):
            match = command.match(found[1])
            if match:
                yield f"{path.name}: {found[1]}", match[1].split(), re.findall(r"--[a-z-]+", found[1])


def test_documented_commands_exist() -> None:
    app = make_app()
    count = 0
    for place, verbs, options in documented_commands():
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
