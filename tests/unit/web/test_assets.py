"""Static files: vendored content, compression, and templates that satisfy the content security policy."""

import gzip
import hashlib
import re
from pathlib import Path

import pytest
from jinja2.meta import find_referenced_templates
from starlette.requests import Request

from daybreak.web.theme.assets import load_assets
from daybreak.web.theme.templates import templates_in

WEB = Path("src/daybreak/web")


def test_assets_are_compressed_and_named_by_digest() -> None:
    assets = load_assets("").by_name
    assert {"daybreak.css", "daybreak.js", "partials.js"} <= set(assets)
    for asset in assets.values():
        assert gzip.decompress(asset.compressed) == asset.content
        assert hashlib.sha256(asset.content).hexdigest().startswith(asset.digest)
    assert sum(len(asset.compressed) for asset in assets.values()) < 40_000


def test_stylesheet_contains_every_component(project_folder: Path) -> None:
    sheet = load_assets("").by_name["daybreak.css"].content.decode()
    components = sorted((project_folder / WEB / "theme" / "static" / "daybreak").glob("*.css"))
    assert sum(path.stat().st_size for path in components) == len(sheet.encode())
    for path in components:
        assert path.read_text("utf-8") in sheet, path
        assert all(len(line) <= 120 for line in path.read_text("utf-8").splitlines()), path


@pytest.mark.parametrize(
    ("accepted", "compressed"), [("gzip, br", True), ("*;q=0, gzip", True), ("gzip;q=0", False), ("identity", False)]
)
async def test_asset_is_compressed_if_gzip_is_accepted(accepted: str, compressed: bool) -> None:
    assets = load_assets("")
    asset = assets.by_name["daybreak.css"]
    parameters = {"name": "daybreak.css", "digest": asset.digest}
    headers = [(b"accept-encoding", accepted.encode())]
    request = Request({"type": "http", "headers": headers, "path_params": parameters})
    response = await assets.response(request)
    assert response.body == (asset.compressed if compressed else asset.content)
    assert response.headers.get("content-encoding") == ("gzip" if compressed else None)


def test_templates_have_no_inline_code_and_no_other_host(project_folder: Path) -> None:
    templates = sorted((project_folder / WEB / "dashboard").rglob("*.html"))
    assert len(templates) > 20
    for template in templates:
        text = template.read_text(encoding="utf-8")
        assert not re.search(r"\sstyle=|<style|\son[a-z]+=|javascript:|https?://|\|\s*safe\b", text), template.name
        assert not re.search(r"<script(?![^>]*\ssrc=)", text), template.name


def test_names_are_isolated_from_the_text_around_them(project_folder: Path) -> None:
    """A right-to-left name must not reorder the text after it. Titles of documents cannot contain elements."""
    shown = 0
    for template in sorted((project_folder / WEB / "dashboard").rglob("*.html")):
        text = re.sub(r"{% block title %}.*?{% endblock %}", "", template.read_text("utf-8"))
        for found in re.finditer(r">[^<>]*{{[^{}]*\| name }}", text):
            element, isolation, inside = text[: found.start() + 1].rpartition(' dir="auto"')
            is_open = isolation and f"</{element.rpartition('<')[2].split()[0]}>" not in inside
            assert is_open or text[: found.start() + 1].endswith("<bdi>"), (template.name, found[0])
            shown += 1
    assert shown > 10


def test_templates_name_templates_that_exist(project_folder: Path) -> None:
    for folder in (project_folder / WEB / "dashboard", project_folder / WEB / "api" / "docs"):
        environment = templates_in(folder)
        for template in folder.rglob("*.html"):
            for name in find_referenced_templates(environment.parse(template.read_text("utf-8"))):
                # None is a layout that the handler chooses.
                known = name is None or any((root / name).exists() for root in (folder, project_folder / WEB))
                assert known, (template, name)
