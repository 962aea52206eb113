"""The documentation page, which works without scripts and without other hosts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, FileSystemLoader
from markupsafe import Markup, escape

from daybreak.web.api.docs.samples import problem_sample
from daybreak.web.api.docs.sections import Sections
from daybreak.web.dashboard.context import DashboardContext
from daybreak.web.http.curl import save_token_command

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_JSON_TOKEN = re.compile(r'(?P<string>"(?:[^"\\]|\\.)*")(?P<colon>:)?|\b(?:true|false|null)\b|-?\b\d+\b')


def render_docs_page(dashboard: DashboardContext, document: Mapping[str, Any]) -> bytes:
    """Render the OpenAPI document as a page in the style of the dashboard."""
    own_templates = FileSystemLoader(Path(__file__).parent)
    assert dashboard.templates.loader is not None
    templates = dashboard.templates.overlay(loader=ChoiceLoader([own_templates, dashboard.templates.loader]))
    examples = document["components"]["examples"]
    sections = Sections(document)
    groups = [(tag, sections.tagged(tag["name"])) for tag in document["tags"]]
    page = templates.get_template("page.html").render(
        asset=dashboard.asset_url,
        code=mark_code,
        json=highlight_json,
        root=dashboard.root,
        contact=dashboard.services.settings.operator_contact,
        document=document,
        groups=groups,
        samples={section.anchor: section.curl for _, operations in groups for section in operations},
        problems={code: example["value"] for code, example in examples.items()},
        common_problems=[code for code in examples if code in sections.common_problems],
        problem_sample=problem_sample(examples["not_your_account"]),
        save_token=save_token_command('"$DAYBREAK_TOKEN"'),
    )
    return page.encode()


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
