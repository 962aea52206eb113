"""The documentation pages, which need no scripts and no other hosts. Scripts add search and copy buttons."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from daybreak.catalogue.column_examples import example_of
from daybreak.catalogue.columns import TEXTS, Column, ColumnType
from daybreak.catalogue.formats import format_named
from daybreak.catalogue.resources import RESOURCES, Resource
from daybreak.settings import Settings
from daybreak.settings.text_forms import duration_in_words, format_size
from daybreak.sharing import PROFILE_NAME, SHARING_PATH
from daybreak.web.api.docs.sections import Section, Sections
from daybreak.web.api.examples import CLIENT_ID, ENTER_TOKEN_COMMAND, file_command, sample_format, save_token_command
from daybreak.web.api.openapi import facts, with_values
from daybreak.web.api.operation import TAGS
from daybreak.web.theme.assets import Assets
from daybreak.web.theme.templates import templates_in

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_SHARING_SAMPLE = f"""\
import delta_sharing

share = delta_sharing.SharingClient("{PROFILE_NAME}").list_shares()[0].name
members = delta_sharing.load_as_pandas(f"{PROFILE_NAME}#{{share}}.daybreak.members")"""
_JSON_TOKEN = re.compile(r'(?P<string>"(?:[^"\\]|\\.)*")(?P<colon>:)?|\b(?:true|false|null)\b|-?\b\d+\b')


@dataclass(frozen=True, slots=True)
class DocsPage:
    """One page: its path, its title and its template. `tag` is the group of operations that it describes."""

    path: str
    title: str
    template: str
    tag: str = ""


PAGES = (
    DocsPage("/docs", "API documentation", "api.html"),
    *(DocsPage(f"/docs/api-{tag.name.lower()}", f"API: {tag.name}", "operations.html", tag.name) for tag in TAGS),
    DocsPage("/docs/files", "Files and columns", "files.html"),
    DocsPage("/docs/help", "Help", "help.html"),
)


def render_docs_pages(settings: Settings, assets: Assets, document: Mapping[str, Any]) -> dict[str, bytes]:
    """Render the pages, and return them by path. `document` is the OpenAPI document."""
    templates = templates_in(Path(__file__).parent)
    sections = Sections(document)
    operations = {page.path: sections.tagged(page.tag) for page in PAGES if page.tag}
    topics, formats = _help_topics(settings), [format_named(name) for name in settings.snapshot.formats]
    file_format = sample_format(settings.snapshot.formats)
    shared: dict[str, object] = {
        "asset": assets.url,
        "code": mark_code,
        "json": highlight_json,
        "root": settings.base_path,
        "contact": settings.operator_contact,
        "publish_time": f"{settings.snapshot.publish_at:%H:%M} UTC",
        "pages": PAGES,
        "example_account": CLIENT_ID,
        **_api_variables(settings, document, sections, operations),
        "resources": RESOURCES,
        "formats": formats,
        "example_of": example_of,
        "keys_of": keys_of,
        "csv_sample": csv_sample,
        "json_sample": json_sample,
        "command_of": lambda resource: file_command(settings.base_url, CLIENT_ID, resource, file_format),
        "topics": topics,
        "operations_of": operations,
    }
    return {
        page.path: templates.get_template(page.template).render({**shared, "page": page, "title": page.title}).encode()
        for page in PAGES
    }


def _help_topics(settings: Settings) -> dict[str, list[dict[str, str]]]:
    """Return the answers of `help.toml` by topic, with the values of this service."""
    access, snapshot = settings.access, settings.snapshot
    values = {
        **facts(settings),
        "kept": snapshot.keep,
        "contact": settings.operator_contact or "your operator",
        "links": f"{access.link_rate.attempts:,}",
        "link_window": duration_in_words(access.link_rate.window),
        "daily_bytes": format_size(access.daily_bytes),
        "idle_time": duration_in_words(access.dashboard_idle),
    }
    found = tomllib.loads((Path(__file__).parent / "help.toml").read_text("utf-8"))
    return {
        topic: [{**each, "text": with_values(each["text"], values)} for each in answers]
        for topic, answers in found.items()
    }


def _api_variables(
    settings: Settings, document: Mapping[str, Any], sections: Sections, operations: Mapping[str, Sequence[Section]]
) -> dict[str, object]:
    examples = document["components"]["examples"]
    return {
        "document": document,
        "tags": {tag["name"]: tag["description"] for tag in document["tags"]},
        "samples": {section.anchor: section.curl for found in operations.values() for section in found},
        "page_of": {section.anchor: path for path, found in operations.items() for section in found},
        "problems": {code: example["value"] for code, example in examples.items()},
        "common_problems": [code for code in examples if code in sections.common_problems],
        "problem_sample": json.dumps(examples["not_your_account"]["value"], indent=2, ensure_ascii=False),
        "enter_token": ENTER_TOKEN_COMMAND,
        "save_token": save_token_command('"$DAYBREAK_TOKEN"'),
        "sharing": settings.sharing.enabled,
        "sharing_path": SHARING_PATH,
        "sharing_sample": _SHARING_SAMPLE,
    }


def mark_code(text: str) -> Markup:
    """Escape a text, and mark up the parts between `backticks` as code."""
    pieces = text.split("`")
    marked = [
        Markup("<code>{}</code>").format(piece) if index % 2 else escape(piece) for index, piece in enumerate(pieces)
    ]
    return Markup("").join(marked)


def highlight_json(text: str) -> Markup:
    """Escape JSON, and mark up its names, strings and other values."""
    parts, end = [], 0
    for token in _JSON_TOKEN.finditer(text):
        kind = "name" if token["colon"] else "string" if token["string"] else "word"
        parts.append(escape(text[end : token.start()]))
        parts.append(Markup('<span class="json-{}">{}</span>').format(kind, token[0]))
        end = token.end()
    return Markup("").join([*parts, escape(text[end:])])


def keys_of(resource: Resource, column: Column) -> str:
    """Return what a column identifies or refers to, "" for neither."""
    keys = ["Part of the key." if len(resource.key) > 1 else "Key."] if column.name in resource.key else []
    keys += [f"Refers to `{each.resource}`." for each in resource.references if each.column == column.name]
    count = resource.row_count
    if count is not None and count.column == column.name:
        keys.append(f"Number of rows of `{count.resource}` with the same `{count.match}`.")
    return " ".join(keys)


def csv_sample(resource: Resource) -> str:
    """Return the header and one row of the CSV file."""
    header = ",".join(f'"{name}"' for name in resource.column_names)
    cells = (
        '"' + example_of(column).replace('"', '""') + '"' if column.type in TEXTS else example_of(column)
        for column in resource.columns
    )
    return f"{header}\n{','.join(cells)}"


def json_sample(resource: Resource) -> str:
    """Return one record of the JSON file."""
    return json.dumps({column.name: _json_value(column) for column in resource.columns}, indent=2, ensure_ascii=False)


def _json_value(column: Column) -> str | int | bool:
    text = example_of(column)
    if column.type is ColumnType.BIGINT:
        return int(text)
    if column.type is ColumnType.BOOLEAN:
        return text == "true"
    return text
