"""The documentation pages."""

import csv
import json
import re
import subprocess
from datetime import date, datetime
from html import unescape
from uuid import UUID

import pytest
from starlette.routing import Route

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import RESOURCES, Resource
from daybreak.web.api import description
from daybreak.web.api.docs.page import (
    CONTENT_SECURITY_POLICY,
    PAGES,
    csv_sample,
    highlight_json,
    json_sample,
    mark_code,
)
from daybreak.web.http.problems import PROBLEMS
from tests.unit.web.api.conftest import DescribedApp
from tests.unit.web.asgi import call, http_scope
from tools.api_description import new_app

PATHS = tuple(page.path for page in PAGES)


def test_descriptions_are_not_generated_before_they_are_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("openapi_document", "data_package", "render_docs_pages"):
        monkeypatch.setattr(description, name, None)
    with new_app() as (_, app):
        paths = {route.path for route in app.routes if isinstance(route, Route)}
    assert {"/openapi.json", "/docs", "/docs/{page}"} <= paths


@pytest.fixture(scope="session")
def pages(described: DescribedApp) -> dict[str, str]:
    found = {}
    for path in PATHS:
        scope = http_scope(f"/data{path}", headers=(("host", "export.example.org"),), scheme="https")
        answer = call(described.app, scope)
        assert answer.status == 200
        assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert answer.headers["cache-control"] == "public, max-age=300"
        found[path] = answer.body.decode()
    return found


@pytest.fixture(scope="session")
def page(pages: dict[str, str]) -> str:
    """Return the pages about the API, one after the other."""
    return "".join(text for path, text in pages.items() if path == "/docs" or path.startswith("/docs/api-"))


@pytest.fixture(scope="session")
def commands(page: str) -> list[str]:
    panels = re.findall(r"<pre><code>(.*?)</code></pre>", page, re.DOTALL)
    return [unescape(panel) for panel in panels if panel.startswith("curl ")]


@pytest.mark.parametrize("path", PATHS)
def test_page_has_no_inline_code_and_no_other_hosts(pages: dict[str, str], path: str) -> None:
    page = pages[path]
    assert not re.search(r"<script(?! src=)|<script[^>]*>[^<]", page)
    assert " style=" not in page
    urls = re.findall(r'(?:href|src)="([^"]*)"', page)
    assert urls
    assert [url for url in urls if not url.startswith(("#", "/data/"))] == []


def test_every_link_to_a_page_has_a_target(pages: dict[str, str]) -> None:
    ids = {path: re.findall(r' id="([^"]*)"', page) for path, page in pages.items()}
    for path, page in pages.items():
        assert len(set(ids[path])) == len(ids[path])
        for target, anchor in re.findall(r'href="(?:/data(/docs[^"#]*))?(?:#([^"]*))?"', page):
            assert not anchor or anchor in ids[target or path], (path, target, anchor)


def test_search_finds_every_operation_column_question_and_error(pages: dict[str, str], described: DescribedApp) -> None:
    for path, page in pages.items():
        contents = page[page.index("<nav") :].partition("</nav>")[0]
        shown = re.findall(r'class="docs-target" href="/data([^"#]*)#([^"]*)"( data-found hidden)?>', contents)
        ids = [
            (other, each) for other, text in pages.items() for each in re.findall(r'<(?:article|tr) id="([^"]*)"', text)
        ]
        assert {target[:2] for target in shown} >= set(ids) - {("/docs", "")}
        assert all(bool(hidden) or target == path for target, _, hidden in shown)
        assert "CAMPAIGN_NAME" in contents


def test_pages_link_to_each_other(pages: dict[str, str]) -> None:
    for path, page in pages.items():
        assert {f'href="/data{other}"' for other in PATHS} <= set(re.findall(r'href="[^"]*"', page))
        assert f'href="/data{path}" aria-current="page"' in page


def test_unknown_page_is_not_found(described: DescribedApp) -> None:
    scope = http_scope("/data/docs/other", headers=(("host", "export.example.org"),), scheme="https")
    assert call(described.app, scope).status == 404


def test_every_column_is_documented(pages: dict[str, str]) -> None:
    page = pages["/docs/files"]
    for resource in RESOURCES:
        section = page[page.index(f'id="{resource.name}"') :].partition("</section>")[0]
        rows = re.findall(r"<tr><th scope=\"row\"><code>(\w+)</code></th>(.*?)</tr>", section, re.DOTALL)
        assert [name for name, _ in rows] == list(resource.column_names)
        for column, (_, row) in zip(resource.columns, rows, strict=True):
            assert column.description in unescape(row)
            assert ("may have no value" in row) == column.nullable, column.name
            assert all(f"<code>{value}</code>" in row for value in column.allowed)
            assert ("key." in row.lower()) == (column.name in resource.key), column.name
        for reference in resource.references:
            assert f"Refers to <code>{reference.resource}</code>." in section
        for ending in (".csv.gz", ".json.gz", ".parquet"):
            assert f"<code>{resource.name}{ending}</code>" in section


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: str(resource.name))
def test_examples_have_the_types_of_their_columns(resource: Resource) -> None:
    header, row = csv.reader(csv_sample(resource).splitlines())
    record = json.loads(json_sample(resource))
    assert header == list(record) == list(resource.column_names)
    for column, text in zip(resource.columns, row, strict=True):
        value = record[column.name]
        assert str(value).lower() == text.lower()
        assert not column.allowed or text in column.allowed
        if column.type is ColumnType.UUID:
            assert str(UUID(text)) == text
        elif column.type is ColumnType.TIMESTAMP:
            assert datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z").tzinfo is not None
            assert len(text) == len("2026-11-20T04:00:00.000000Z")
        elif column.type is ColumnType.DATE:
            assert date.fromisoformat(text).isoformat() == text
        else:
            assert isinstance(value, {ColumnType.BIGINT: int, ColumnType.BOOLEAN: bool}.get(column.type, str))


def test_help_states_the_settings(pages: dict[str, str]) -> None:
    page = unescape(pages["/docs/help"])
    for text in ("Every day at 05:30 UTC", "A link works for 5 minutes", "Ask <help@example.org> for it"):
        assert text in page


def test_page_shows_every_operation_and_error(page: str, described: DescribedApp) -> None:
    for path, method, operation in described.operations():
        if method != "head":
            route = operation.get("x-daybreak-variant-of", {"operationId": operation["operationId"], "path": path})
            assert f'id="{route["operationId"]}"' in page
            assert f"<code>{route['path']}</code>" in page
            assert path.rpartition("}/")[2] in page
            for parameter in operation["parameters"]:
                assert f"<code>{parameter['name']}</code>" in page
    for code in PROBLEMS:
        assert f'<tr id="{code}">' in page
        assert f'href="/data/docs#{code}"' in page or code in _DASHBOARD_PROBLEMS, code


# No operation of the API returns these.
_DASHBOARD_PROBLEMS = {
    "weak_password",
    "sign_in_refused",
    "provider_unavailable",
    "cross_site",
    "https_required",
    "not_an_operator",
    "not_found",
    "method_not_allowed",
    "too_many_tokens",
    "invalid_passkey",
    "passkey_cloned",
    "too_many_passkeys",
    "too_many_webhooks",
    "invalid_reset_link",
    "owner_or_admin_required",
    "unavailable",
}


def test_page_states_the_settings(page: str) -> None:
    assert "works for 5 minutes" in page
    assert "every day at 05:30 UTC" in page
    assert "&lt;help@example.org&gt;" in page


def test_commands_report_errors_and_hide_tokens(commands: list[str]) -> None:
    assert len(commands) > 15
    for command in commands:
        assert re.match(r"curl -sS(fL -O| --fail-with-body)( -X [A-Z]+)? \\\n", command), command
        assert "Bearer" not in command
        assert "https://export.example.org/data/" in command
        subprocess.run(["bash", "-n"], input=command, text=True, check=True, capture_output=True)


def test_commands_contain_their_bodies(commands: list[str]) -> None:
    (switch,) = [command for command in commands if "-X PUT" in command]
    assert switch.endswith('--json @- <<\'END\'\n{"context": "7d909222-adf5-4547-93e0-e8f60c50f980"}\nEND')
    assert "-H @daybreak-token.txt" in switch
    assert sum("<<'END'" in command for command in commands) == 5


def test_text_between_backticks_is_code() -> None:
    assert mark_code("Send `<a>` & wait") == "Send <code>&lt;a&gt;</code> &amp; wait"


def test_json_is_escaped_and_highlighted() -> None:
    assert highlight_json('{"a<": [1, "b: \\"c", null]}') == (
        '{<span class="json-name">&#34;a&lt;&#34;:</span> [<span class="json-word">1</span>, '
        '<span class="json-string">&#34;b: \\&#34;c&#34;</span>, <span class="json-word">null</span>]}'
    )
