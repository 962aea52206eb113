"""Writes the reference pages of `docs/` from the code: `python -m tools.reference`, or `--check` to compare only."""

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from daybreak.domain.errors import DaybreakError

DOCS = Path(__file__).parent.parent / "docs"
MADE = "<!-- Made from the code by `make reference`; changes belong there. -->\n\n"


def configuration() -> str:
    """Every setting: key, kind, default, meaning."""
    from daybreak.settings import setting_rows
    from daybreak.settings.sections import SECTIONS

    parts = [
        "# Configuration\n",
        (
            "`daybreakd` reads `daybreak.toml` (`--config FILE`, the variable `DAYBREAK_CONFIG`, else the one"
            " in the current folder). Any setting can come from the environment instead, which wins: "
            "`location` in `[source]` is `DAYBREAK_SOURCE__LOCATION`; a list is written with commas. Relative"
            " paths start from the file's folder. All faults of a configuration are listed at once, each with"
            " the setting and what to write; the command then ends with code 2. `daybreakd init` writes a "
            "file in which every setting stands with its default.\n"
        ),
        (
            "Durations are written `30s`, `15m`, `4h`, `7d`; sizes `512MB`, `1GB`, `2GiB`; rates `10/5m`, "
            "which means ten attempts in any five minutes.\n"
        ),
    ]
    rows = list(setting_rows())
    for section in ("", *SECTIONS):
        about = (
            (SECTIONS[section].__doc__ or "").partition("] ")[2] if section else "Settings before the first section."
        )
        parts.append(f"## {f'[{section}]' if section else 'Top level'}\n\n{about}\n")
        parts.append(
            _table(
                ("Setting", "Kind", "Default", "Meaning"),
                (
                    (
                        f"`{row.name}`",
                        row.written,
                        "must be given" if row.default is None and row.key == "source.location"
                        else "none" if row.default is None else f"`{row.default}`",
                        row.text,
                    )
                    for row in rows
                    if row.section == section
                ),
            )
        )  # fmt: skip
    return "\n".join(parts)


def command_line() -> str:
    """Every verb of `daybreakd` with its options."""
    from daybreak.cli.examples import EXAMPLES
    from daybreak.cli.main import VERBS, make_app

    app = make_app()
    parts = [
        "# Command line\n",
        (
            "The operator's command is `daybreakd`. Exit codes: 0 done, 1 failed, 2 wrong use or configuration, "
            "130 interrupted. Errors go to standard error as one message that names the setting and the fix. In a pipe "
            "output is plain: tab-separated lines, or JSON with `--json`. `NO_COLOR` is respected.\n"
        ),
    ]
    for name, _, help_text in VERBS:
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
        lines = "\n".join(f"# {wanted}\n{line}" for wanted, line in EXAMPLES[name])
        parts.append(f"```sh\n{lines}\n```\n")
    return "\n".join(parts)


def client() -> str:
    """The command `daybreak` with its options, and what its package offers."""
    import daybreak_client
    from daybreak_client.command import EXAMPLES, VARIABLES, app

    parts = [
        "# The client\n",
        (
            "The consumer's command is `daybreak`; how it is used stands on [its page](fetching.md). Exit codes: 0 "
            "done, 1 failed, 2 wrong use, 130 interrupted. Errors go to standard error as one message. In a pipe "
            "output is plain: tab-separated lines, or JSON with `--json`. `NO_COLOR` is respected.\n"
        ),
        _table(("Variable", "Meaning"), ((f"`{name}`", text) for name, text in VARIABLES.items())),
    ]
    for name in (each for each in app if not each.startswith("-")):
        parts.append(f"## daybreak {name}\n")
        parts += _verb(f"daybreak {name}", app[name])
    lines = "\n".join(f"# {wanted}\n{line}" if wanted else line for wanted, line in EXAMPLES)
    parts.append(f"```sh\n{lines}\n```\n")
    parts.append("# The package `daybreak_client`\n")
    for name in daybreak_client.__all__:
        thing = getattr(daybreak_client, name)
        parts.append(f"## {name}\n\n{_paragraphs(inspect.getdoc(thing) or '')}")
        if is_dataclass(thing):
            parts.append(_table(("Field", "Type"), ((f"`{each.name}`", f"`{each.type}`") for each in fields(thing))))
        methods = list(_public_methods(thing))
        if methods:
            parts.append(_table(("Method", "What it does"), methods))
    return "\n".join(parts)


def _public_methods(thing: type) -> Iterator[tuple[str, str]]:
    for name, method in vars(thing).items():
        hidden = name.startswith("_") and name != "__init__"
        if hidden or not method.__doc__ or not (callable(method) or isinstance(method, property)):
            continue
        about = " ".join(_paragraphs(method.__doc__).split())
        if isinstance(method, property):
            yield f"`{name}`", about
            continue
        # Annotations are texts, and shown in quotes.
        arguments = re.sub(r"'|\bself(, )?", "", str(inspect.signature(method)).partition(" -> ")[0])
        yield f"`{thing.__name__ if name == '__init__' else name}{arguments}`", about


def _verb(full_name: str, command: Any) -> Iterator[str]:
    arguments = list(command.assemble_argument_collection())
    usage = [full_name]
    rows = []
    for argument in arguments:
        flag = argument.hint is bool
        named = [name for name in argument.names if name.startswith("-")]
        positional = argument.field_info.is_positional
        shown = named[0].removeprefix("--").upper() if positional else ", ".join(f"`{name}`" for name in named)
        if positional:
            usage.append(shown if argument.required else f"[{shown}]")
            shown = f"`{shown}`"
        elif argument.required:
            usage.append(f"{named[0]} ...")
        default = argument.field_info.default
        empty = default is argument.field_info.empty or default is None or flag
        rows.append((shown, "" if empty else f"`{default}`", argument.parameter.help or ""))
    usage += ["[OPTIONS]"] if any(not argument.field_info.is_positional for argument in arguments) else []
    yield f"```\n{' '.join(usage)}\n```\n"
    yield _paragraphs(command.default_command.__doc__ or "")
    if rows:
        yield _table(("Argument", "Default", "Meaning"), rows)


def source_schema() -> str:
    """The source tables and the nine resources."""
    from daybreak.catalogue.formats import FORMATS
    from daybreak.catalogue.resources import RESOURCES
    from daybreak.catalogue.source_tables import SOURCE_TABLES

    parts = [
        "# Source tables and resources\n",
        (
            "The service reads thirteen tables of the operator's platform and makes nine resources from them,"
            " one file each for every Leader. The models are the SQL files in `src/daybreak/catalogue/sql`; a"
            " folder named by `snapshot.models_dir` replaces single ones. Names, order and types of the "
            "columns are checked before a run.\n"
        ),
        (
            "Types: uuid (native or text), text, bigint, boolean, date, timestamp (UTC instant, cut to microseconds). "
            "A `?` marks what may be NULL. Rows whose instant is later than the snapshot's are not there yet.\n"
        ),
        (
            "A folder of Parquet has a file `TABLE.parquet` for each table, or a folder `TABLE/` or `TABLE.parquet/` "
            "with its parts, also below folders named `column=value`. Names that begin with `.` or `_` are passed "
            "over. A part may lack columns that may be NULL; a column without any value needs no type.\n"
        ),
        "# Source tables\n",
    ]
    for table in SOURCE_TABLES:
        facts = [table.description]
        if table.primary_key:
            facts.append(f"One row per {', '.join(f'`{name}`' for name in table.primary_key)}.")
        facts.append(f"Counts from `{table.instant}` on." if table.instant else "Carries the current state.")
        parts.append(f"## `{table.name}`\n\n{' '.join(facts)}\n")
        parts.append(
            _table(("Column", "Type", "Meaning"), ((f"`{c.name}`", _type(c), c.description) for c in table.columns))
        )
    parts.append("# Resources\n")
    formats = ", ".join(f"`{each.name}` (`{each.ending}`)" for each in FORMATS)
    parts.append(f"Formats: {formats}. The path below `/download/v1/files/{{client_id}}/` is given for CSV.\n")
    for resource in RESOURCES:
        key = ", ".join(resource.key)
        parts.append(
            f"## {resource.title}\n\n{resource.description} Path `{resource.download_path}`. Ordered by {key}.\n"
        )
        parts.append(
            _table(
                ("Column", "Type", "Meaning"),
                (
                    (f"`{c.name}`", _type(c), c.description + (f" One of {_words(c.allowed)}." if c.allowed else ""))
                    for c in resource.columns
                ),
            )
        )
    return "\n".join(parts)


def errors() -> str:
    """Every code: what clients get over HTTP, and what operators see."""
    from daybreak.domain import errors as tree
    from daybreak.settings import SettingsFault
    from daybreak.web.problems import PROBLEMS

    parts = [
        "# Errors\n",
        (
            "Over HTTP every error is an `application/problem+json` body (RFC 9457) with a stable `code`, a "
            "`detail` for people and the `request_id` that stands in the logs; faults of single fields are "
            "listed in `errors`. `401` carries `WWW-Authenticate`, `429` and `503` carry `Retry-After`. "
            "Somebody at a browser gets a page instead where people come: in the dashboard, by a link, by a mistyped "
            "address.\n"
        ),
        _table(
            ("Status", "Code", "Title"), ((status, f"`{code}`", title) for code, (status, title) in PROBLEMS.items())
        ),
        "## For operators\n",
        "These end a command or a run. One that may pass by itself is tried again by the builder.\n",
    ]
    rows = []
    # By where they are defined: what else has been imported must not change the page.
    operators: list[type[DaybreakError]] = [*_descendants(tree.DaybreakError, tree.__name__), SettingsFault]
    for error in operators:
        if not issubclass(error, tree.RequestError | tree.Unavailable):
            passing = "yes" if error.transient else "no"
            rows.append((f"`{error.code}`", passing, " ".join((error.__doc__ or "").split())))
    parts.append(_table(("Code", "May pass", "Meaning"), sorted(set(rows))))
    return "\n".join(parts)


def http() -> str:
    """Every route, from the OpenAPI document."""
    from daybreak.web.openapi import openapi_document

    document: Mapping[str, Any] = openapi_document()
    parts = [
        "# HTTP\n",
        (
            "The full document is served at `/openapi.json`, with a readable page at `/docs`. What is no file is JSON; "
            "the codes of errors stand on [their page](errors.md). Lines to paste, for curl and Python: "
            "[fetching the files](fetching.md).\n"
        ),
    ]
    tags = {tag["name"]: tag.get("description", "") for tag in document.get("tags", [])}
    for tag, about in tags.items():
        rows = [
            (
                f"`{method.upper()} {path}`",
                operation.get("summary", ""),
                ", ".join(sorted(str(status) for status in operation["responses"])),
            )
            for path, operations in document["paths"].items()
            for method, operation in operations.items()
            if isinstance(operation, Mapping) and tag in operation.get("tags", ()) and method != "head"
        ]
        parts.append(f"## {tag}\n\n{about}\n")
        parts.append(_table(("Request", "What it does", "Answers"), rows))
    parts.append("`HEAD` is answered wherever `GET` is, with the same headers.\n")
    return "\n".join(parts)


PAGES: Mapping[str, Callable[[], str]] = {
    "configuration.md": configuration,
    "cli.md": command_line,
    "client.md": client,
    "source-schema.md": source_schema,
    "errors.md": errors,
    "http.md": http,
}


def stale_pages() -> list[str]:
    """Names of pages that are not what the code says now."""
    stale = []
    for name, make in PAGES.items():
        path = DOCS / name
        if not path.exists() or path.read_text("utf-8") != MADE + make():
            stale.append(name)
    return stale


def main(arguments: Sequence[str]) -> int:
    """Writes the pages, or says which are stale with `--check`."""
    if "--check" in arguments:
        stale = stale_pages()
        for name in stale:
            print(f"docs/{name} is not what the code says: run `make reference`.")
        return 1 if stale else 0
    for name, make in PAGES.items():
        (DOCS / name).write_text(MADE + make(), "utf-8")
    return 0


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += [
        "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows
    ]
    return "\n".join(lines) + "\n"


def _paragraphs(docstring: str) -> str:
    blocks = "\n".join(line.strip() for line in docstring.strip().splitlines()).split("\n\n")
    return "\n\n".join(" ".join(block.split()) for block in blocks) + "\n"


def _type(column: Any) -> str:
    return f"{column.type.value}{'?' if column.nullable else ''}"


def _words(words: Sequence[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _descendants(error: "type[DaybreakError]", module: str) -> "Iterator[type[DaybreakError]]":
    for child in error.__subclasses__():
        if child.__module__ == module:
            yield child
        yield from _descendants(child, module)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
