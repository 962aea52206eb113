"""Generate `docs/reference/` and the columns of the client from the code: `python -m tools.reference`."""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import msgspec

import daybreak_client
from daybreak.catalogue.formats import FORMATS
from daybreak.catalogue.resources import RESOURCES, Resource
from daybreak.catalogue.source_tables import SOURCE_TABLES as TABLES
from daybreak.catalogue.table_schema import data_package
from daybreak.cli import examples
from daybreak.cli import main as service_command
from daybreak.domain import errors as tree
from daybreak.settings import SettingsFault
from daybreak.settings.reference import SettingRow, setting_rows
from daybreak.settings.tree import SECTIONS
from daybreak.web.http.problems import PROBLEMS
from daybreak_client.command import application
from daybreak_client.errors import EXIT_CODES
from tools.api_description import new_app, openapi_of
from tools.events import events
from tools.limits import limits
from tools.reference_text import (
    CLIENT,
    CLIENT_VARIABLES,
    COLUMNS,
    COMMANDS,
    CONFIGURATION,
    ERRORS,
    HEADER,
    HTTP,
    NOT_RUN,
    OPERATOR_ERRORS,
    SOURCE_TABLES,
    table,
)

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs" / "reference"
CLIENT_COLUMNS = ROOT / "src" / "daybreak_client" / "columns.json"


def configuration() -> str:
    """Return the page of settings."""
    parts = [CONFIGURATION]
    rows = list(setting_rows())
    for section in ("", *SECTIONS):
        about = SECTIONS[section].__doc__ if section else "Settings before the first section."
        parts.append(f"## {f'[{section}]' if section else 'Top level'}\n\n{about}\n")
        cells = [(f"`{row.name}`", row.written, _default(row), row.text) for row in rows if row.section == section]
        parts.append(table(("Setting", "Kind", "Default", "Meaning"), cells))
    return "\n".join(parts)


def _default(row: SettingRow) -> str:
    if row.required:
        return "required"
    return "none" if row.default is None else f"`{row.default}`"


def command_line() -> str:
    """Return the page of `daybreakd`: every command with its options."""
    app = service_command.make_app()
    parts = [COMMANDS]
    for name, _, help_text in service_command.VERBS:
        command = app[name]
        verbs = [] if command.default_command else [each for each in command if not each.startswith("-")]
        parts.append(f"## daybreakd {name}\n")
        if command.default_command:
            parts += _verb(f"daybreakd {name}", command)
        else:
            parts.append(f"{help_text}\n")
            for verb in verbs:
                parts.append(f"### daybreakd {name} {verb}\n")
                parts += _verb(f"daybreakd {name} {verb}", command[verb])
        lines = "\n".join(f"# {wanted}\n{line}" for wanted, line in examples.EXAMPLES[name])
        parts.append(f"{NOT_RUN}```sh\n{lines}\n```\n")
    return "\n".join(parts)


def client() -> str:
    """Return the page of the command `daybreak` and the package `daybreak_client`."""
    app = application.make_app()
    parts = [
        CLIENT,
        table(("Exit code", "Meaning"), ((str(code), meaning) for code, meaning in EXIT_CODES.items())),
        CLIENT_VARIABLES,
        table(("Variable", "Meaning"), ((f"`{name}`", text) for name, text in application.VARIABLES.items())),
    ]
    parts.append("## Commands\n")
    for name in (each for each in app if not each.startswith("-")):
        parts.append(f"### daybreak {name}\n")
        parts += _verb(f"daybreak {name}", app[name])
    lines = "\n".join(f"# {wanted}\n{line}" if wanted else line for wanted, line in application.EXAMPLES)
    parts.append(f"{NOT_RUN}```sh\n{lines}\n```\n")
    parts.append("## Python package `daybreak_client`\n")
    for name in daybreak_client.__all__:
        exported = getattr(daybreak_client, name)
        parts.append(f"### {name}\n")
        if inspect.isfunction(exported):
            parts.append(f"```text\n{name}{_arguments(exported)}\n```\n")
        parts.append(_paragraphs(inspect.getdoc(exported) or ""))
        if is_dataclass(exported):
            parts.append(table(("Field", "Type"), ((f"`{each.name}`", f"`{each.type}`") for each in fields(exported))))
        methods = list(_public_methods(exported))
        if methods:
            parts.append(table(("Method", "Description"), methods))
    return "\n".join(parts)


def _public_methods(exported: type) -> Iterator[tuple[str, str]]:
    for name, method in vars(exported).items():
        hidden = name.startswith("_") and name != "__init__"
        if hidden or not method.__doc__ or not (callable(method) or isinstance(method, property)):
            continue
        about = " ".join(_paragraphs(method.__doc__).split())
        if isinstance(method, property):
            yield f"`{name}`", about
            continue
        yield f"`{exported.__name__ if name == '__init__' else name}{_arguments(method)}`", about


def _arguments(function: Callable[..., Any]) -> str:
    """Return the arguments of a function or method in parentheses."""
    # `from __future__ import annotations` makes annotations strings, which are shown in quotes.
    return re.sub(r"'|\bself(, )?", "", str(inspect.signature(function)).partition(" -> ")[0])


def _verb(full_name: str, command: Any) -> Iterator[str]:
    # A class of options is a hidden argument, followed by its options.
    arguments = [argument for argument in command.assemble_argument_collection() if argument.show]
    usage = [full_name]
    rows = []
    for argument in arguments:
        is_flag = argument.hint is bool
        flags = [name for name in argument.names if name.startswith("-")]
        positional = argument.field_info.is_positional
        shown = flags[0].removeprefix("--").upper() if positional else ", ".join(f"`{name}`" for name in flags)
        if positional:
            usage.append(shown if argument.required else f"[{shown}]")
            shown = f"`{shown}`"
        elif argument.required:
            usage.append(f"{flags[0]} ...")
        default = argument.field_info.default
        empty = default is argument.field_info.empty or default is None or is_flag
        rows.append((shown, "" if empty else f"`{default}`", argument.parameter.help or ""))
    usage += ["[OPTIONS]"] if any(not argument.field_info.is_positional for argument in arguments) else []
    yield f"```text\n{' '.join(usage)}\n```\n"
    yield _paragraphs(command.default_command.__doc__ or "")
    if rows:
        yield table(("Argument", "Default", "Meaning"), rows)


def client_columns() -> str:
    """Return the columns that the client reads files with: the schema of the service, without descriptions."""
    lines = []
    for each in msgspec.to_builtins(data_package())["resources"]:
        fields = [{name: field[name] for name in ("name", "type", "format")} for field in each["schema"]["fields"]]
        schema = {"fields": fields, "primaryKey": each["schema"].get("primaryKey", [])}
        lines.append(json.dumps({"name": each["name"], "order": each["order"], "schema": schema}))
    return '{"resources": [\n' + ",\n".join(lines) + "\n]}\n"


def source_tables() -> str:
    """Return the page of the tables that are read."""
    parts = [SOURCE_TABLES]
    for each in TABLES:
        facts = [each.description]
        if each.primary_key:
            facts.append(f"One row per {', '.join(f'`{name}`' for name in each.primary_key)}.")
        facts.append(f"A row counts from its `{each.instant}`." if each.instant else "Rows show the current state.")
        parts.append(f"## `{each.name}`\n\n{' '.join(facts)}\n")
        parts.append(_columns((c.name, _type(c), c.description) for c in each.columns))
    return "\n".join(parts)


def columns() -> str:
    """Return the page of the nine resources."""
    formats = ", ".join(f"`{each.name}` (`{each.ending}`)" for each in FORMATS)
    parts = [COLUMNS, f"Formats that an operator can enable: {formats}.\n"]
    for resource in RESOURCES:
        key = ", ".join(resource.key)
        parts.append(
            f"## {resource.title}\n\n{resource.description} Path `{resource.download_path}`. Ordered by {key}, "
            f"which {'is unique' if resource.key_is_unique else 'may repeat'}.{_references(resource)}\n"
        )
        parts.append(_columns((c.name, _type(c), c.description + _values(c.allowed)) for c in resource.columns))
    return "\n".join(parts)


def _references(resource: Resource) -> str:
    """Return a sentence that lists the references of a resource, with a leading space, or nothing."""
    references = " and ".join(f"{reference.column} to `{reference.resource}`" for reference in resource.references)
    return f" References: {references}." if references else ""


def errors() -> str:
    """Return the page of error codes, over HTTP and for operators."""
    parts = [
        ERRORS,
        table(
            ("Status", "Code", "Title"), ((status, f"`{code}`", title) for code, (status, title) in PROBLEMS.items())
        ),
        OPERATOR_ERRORS,
    ]
    rows = []
    # Only classes of this module: the page must not depend on other imported modules.
    operators: list[type[tree.DaybreakError]] = [*_descendants(tree.DaybreakError, tree.__name__), SettingsFault]
    for error in operators:
        if not issubclass(error, tree.RequestError | tree.Unavailable):
            transient = "yes" if error.transient else "no"
            rows.append((f"`{error.code}`", transient, " ".join((error.__doc__ or "").split())))
    parts.append(table(("Code", "Transient", "Meaning"), sorted(set(rows))))
    return "\n".join(parts)


def http() -> str:
    """Return the page of HTTP routes, from the OpenAPI document."""
    with new_app() as (settings, app):
        document = openapi_of(settings, app)
    operations = [
        (path, method.upper(), operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method != "head"
    ]
    common = set.intersection(*(set(operation["responses"]) for _, _, operation in operations))
    parts = [
        HTTP,
        f"Every operation can also return {_words(sorted(common))}. Every route that supports `GET` supports `HEAD`.\n",
    ]
    for tag in document["tags"]:
        rows = [
            (
                f"`{method} {path}`",
                operation["summary"],
                ", ".join(sorted(operation["responses"].keys() - common)),
            )
            for path, method, operation in operations
            if tag["name"] in operation["tags"] and ".json.gz" not in path
        ]
        parts.append(f"## {tag['name']}\n\n{tag['description']}\n")
        parts.append(table(("Request", "Description", "Status codes"), rows))
    return "\n".join(parts)


PAGES: Mapping[str, Callable[[], str]] = {
    "configuration.md": configuration,
    "cli.md": command_line,
    "client.md": client,
    "columns.md": columns,
    "source-tables.md": source_tables,
    "errors.md": errors,
    "limits.md": limits,
    "events.md": events,
    "http.md": http,
}


def generated_files() -> Iterator[tuple[Path, str]]:
    """Yield each generated file and its text."""
    for name, make in PAGES.items():
        yield DOCS / name, HEADER + make()
    yield CLIENT_COLUMNS, client_columns()


def stale_pages() -> list[str]:
    """Return the names of files that differ from what the code generates."""
    return [path.name for path, text in generated_files() if not path.exists() or path.read_text("utf-8") != text]


def main() -> None:
    """Write the files."""
    for path, text in generated_files():
        path.write_text(text, "utf-8")


def _paragraphs(docstring: str) -> str:
    blocks = "\n".join(line.strip() for line in docstring.strip().splitlines()).split("\n\n")
    return "\n\n".join(" ".join(block.split()) for block in blocks) + "\n"


def _type(column: Any) -> str:
    return f"{column.type.value}{'?' if column.nullable else ''}"


def _columns(rows: Iterable[tuple[str, str, str]]) -> str:
    return table(("Column", "Type", "Meaning"), ((f"`{name}`", kind, meaning) for name, kind, meaning in rows))


def _words(words: Sequence[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _values(values: Sequence[str]) -> str:
    return f" One of {_words(values)}." if values else ""


def _descendants(error: type[tree.DaybreakError], module: str) -> Iterator[type[tree.DaybreakError]]:
    for child in error.__subclasses__():
        if child.__module__ == module:
            yield child
        yield from _descendants(child, module)


if __name__ == "__main__":
    main()
