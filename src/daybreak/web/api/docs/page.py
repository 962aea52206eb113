"""The documentation pages, which work without scripts and without other hosts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from daybreak.catalogue.formats import format_named
from daybreak.settings import Settings
from daybreak.sharing import PROFILE_NAME, SHARING_PATH
from daybreak.web.api.curl_commands import ENTER_TOKEN_COMMAND, save_token_command
from daybreak.web.api.docs.files import file_sections
from daybreak.web.api.docs.help import help_topics
from daybreak.web.api.docs.samples import problem_sample
from daybreak.web.api.docs.sections import Sections
from daybreak.web.theme.assets import Assets
from daybreak.web.theme.templates import templates_in

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_SHARING_SAMPLE = f"""\
import delta_sharing

share = delta_sharing.SharingClient("{PROFILE_NAME}").list_shares()[0].name
members = delta_sharing.load_as_pandas(f"{PROFILE_NAME}#{{share}}.daybreak.members")"""
_JSON_TOKEN = re.compile(r'(?P<string>"(?:[^"\\]|\\.)*")(?P<colon>:)?|\b(?:true|false|null)\b|-?\b\d+\b')


@dataclass(frozen=True, slots=True)
class DocsPage:
    """One page: its path, its label in the list of pages, its title and its template."""

    path: str
    label: str
    title: str
    template: str


PAGES = (
    DocsPage("/docs", "API", "API documentation", "api.html"),
    DocsPage("/docs/files", "Files and columns", "Files and columns", "files.html"),
    DocsPage("/docs/help", "Help", "Help", "help.html"),
)


def render_docs_pages(settings: Settings, assets: Assets, document: Mapping[str, Any]) -> dict[str, bytes]:
    """Render the pages, and return them by path. `document` is the OpenAPI document."""
    templates = templates_in(Path(__file__).parent)
    shared: dict[str, object] = {
        "asset": assets.url,
        "code": mark_code,
        "json": highlight_json,
        "root": settings.base_path,
        "contact": settings.operator_contact,
        "publish_time": f"{settings.snapshot.publish_at:%H:%M} UTC",
        "pages": [(page.path, page.label) for page in PAGES],
        **_api_variables(settings, document),
        "files": file_sections(settings.base_url, settings.snapshot.formats),
        "formats": [format_named(name).ending for name in settings.snapshot.formats],
        "topics": help_topics(settings),
    }
    return {
        page.path: templates.get_template(page.template)
        .render({**shared, "title": page.title, "current_path": page.path})
        .encode()
        for page in PAGES
    }


def _api_variables(settings: Settings, document: Mapping[str, Any]) -> dict[str, object]:
    """Return the variables of the page about the API."""
    examples = document["components"]["examples"]
    sections = Sections(document)
    groups = [(tag, sections.tagged(tag["name"])) for tag in document["tags"]]
    return {
        "document": document,
        "groups": groups,
        "samples": {section.anchor: section.curl for _, operations in groups for section in operations},
        "problems": {code: example["value"] for code, example in examples.items()},
        "common_problems": [code for code in examples if code in sections.common_problems],
        "problem_sample": problem_sample(examples["not_your_account"]),
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
