"""The documentation page."""

from __future__ import annotations

import re
import subprocess
from html import unescape

import pytest

from daybreak.web.api.docs.page import highlight_json, mark_code
from daybreak.web.http.problems import PROBLEMS
from tests.unit.web.api.conftest import DescribedApp
from tests.unit.web.asgi import call, http_scope


@pytest.fixture(scope="session")
def page(described: DescribedApp) -> str:
    scope = http_scope("/data/docs", headers=(("host", "export.example.org"),), scheme="https")
    answer = call(described.app, scope)
    assert answer.status == 200
    return answer.body.decode()


@pytest.fixture(scope="session")
def commands(page: str) -> list[str]:
    panels = re.findall(r"<pre><code>(.*?)</code></pre>", page, re.DOTALL)
    return [unescape(panel) for panel in panels if panel.startswith("curl ")]


def test_page_needs_no_scripts_and_no_other_hosts(page: str) -> None:
    assert "<script" not in page
    assert " style=" not in page
    urls = re.findall(r'(?:href|src)="([^"]*)"', page)
    assert urls
    assert [url for url in urls if not url.startswith(("#", "/data/"))] == []


def test_every_link_within_the_page_has_a_target(page: str) -> None:
    ids = re.findall(r' id="([^"]*)"', page)
    assert len(set(ids)) == len(ids)
    assert {link[1:] for link in re.findall(r'href="(#[^"]*)"', page)} <= set(ids)


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
        assert f'href="#{code}"' in page or code in _DASHBOARD_PROBLEMS, code


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
