"""What browsers load: the vendored files are the ones that were taken, and nothing in a page is inline."""

import gzip
import hashlib
import re
from pathlib import Path

import pytest
from starlette.requests import Request

from daybreak.web.dashboard.assets import asset_response, load_assets

DASHBOARD = Path("src/daybreak/web/dashboard")


@pytest.mark.parametrize("folder", [DASHBOARD / "static" / "vendor", Path("tests/vendored")])
def test_vendored_files_are_what_was_taken(project_folder: Path, folder: Path) -> None:
    lines = (project_folder / folder / "SHA256SUMS").read_text().splitlines()
    assert len(lines) >= 3
    for line in lines:
        digest, name = line.split()
        assert hashlib.sha256((project_folder / folder / name).read_bytes()).hexdigest() == digest, name


def test_assets_are_packed_and_named_by_their_digest() -> None:
    assets = load_assets()
    assert {"daybreak.css", "daybreak.js", "htmx.js", "uplot.js"} <= set(assets)
    for asset in assets.values():
        assert gzip.decompress(asset.compressed) == asset.content
        assert hashlib.sha256(asset.content).hexdigest().startswith(asset.digest)
    assert sum(len(asset.compressed) for asset in assets.values()) < 60_000


@pytest.mark.parametrize(
    ("accepted", "packed"), [("gzip, br", True), ("*;q=0, gzip", True), ("gzip;q=0", False), ("identity", False)]
)
def test_an_asset_goes_out_packed_to_whoever_names_gzip(accepted: str, packed: bool) -> None:
    assets = load_assets()
    asset = assets["daybreak.css"]
    place = {"name": asset.name, "digest": asset.digest}
    headers = [(b"accept-encoding", accepted.encode())]
    response = asset_response(assets, Request({"type": "http", "headers": headers, "path_params": place}))
    assert response.body == (asset.compressed if packed else asset.content)
    assert response.headers.get("content-encoding") == ("gzip" if packed else None)


def test_templates_hold_nothing_inline_and_no_other_host(project_folder: Path) -> None:
    pages = sorted((project_folder / DASHBOARD / "templates").rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"\sstyle=|<style|\son[a-z]+=|javascript:|https?://|\|\s*safe\b", text), page.name
        assert not re.search(r"<script(?![^>]*\ssrc=)", text), page.name
