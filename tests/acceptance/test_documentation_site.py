"""The documentation site that `make docs` builds."""

import functools
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

# Attributes and CSS functions that make a browser send a request. Links of the text are not included.
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed|object|link)\b[^>]*?(?:src|srcset|href|data)=["']?(//|https?:)"""
    r"""|url\(["']?(//|https?:)|@import ["'](//|https?:)""",
    re.IGNORECASE,
)


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Log no requests."""


def _pages(nav: list[Any]) -> Iterator[str]:
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        else:
            for value in entry.values():
                yield from [value] if isinstance(value, str) else _pages(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, project_folder: Path) -> Path:
    folder = tmp_path_factory.mktemp("documentation")
    shutil.copy(project_folder / "zensical.toml", folder)
    shutil.copytree(project_folder / "docs", folder / "docs")
    program = Path(sys.executable).with_name("zensical")
    done = subprocess.run([program, "build", "--strict"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "build" / "docs"


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_QuietHandler, directory=site))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_every_page_is_in_the_navigation(project_folder: Path) -> None:
    docs = project_folder / "docs"
    nav = tomllib.loads((project_folder / "zensical.toml").read_text("utf-8"))["project"]["nav"]
    assert sorted(_pages(nav)) == sorted(path.relative_to(docs).as_posix() for path in docs.rglob("*.md"))


@pytest.mark.release
def test_pages_fetch_nothing_from_other_hosts(site: Path) -> None:
    files = [path for path in site.rglob("*") if path.suffix in {".html", ".css"}]
    found = {path.name: FETCHED.findall(path.read_text("utf-8")) for path in files}
    assert len(files) > 20
    assert {name: hits for name, hits in found.items() if hits} == {}


def test_fetched_addresses_are_found() -> None:
    for text in (
        '<script defer src="https://cdn.example/x.js">',
        "<link rel='stylesheet' href='//fonts.example/css'>",
        "@font-face { src: url(https://fonts.example/x.woff2) }",
    ):
        assert FETCHED.search(text), text
    assert not FETCHED.search('<a href="https://example.org">a link</a>')


@pytest.mark.release
@pytest.mark.browser
def test_search_finds_a_setting_without_other_hosts(address: str, open_page: Callable[..., "Page"]) -> None:
    """`open_page` fails on any console message, which a request to another host causes."""
    page = open_page()
    page.goto(f"{address}/reference/configuration.html")
    page.keyboard.press("Control+k")
    page.keyboard.type("publish_at")
    page.get_by_role("link", name=re.compile("Configuration")).last.wait_for()


@pytest.mark.release
@pytest.mark.browser
def test_pages_fit_the_screen(address: str, site: Path, open_page: Callable[..., "Page"]) -> None:
    page = open_page()
    wide = []
    for path in sorted(site.rglob("*.html")):
        page.goto(f"{address}/{path.relative_to(site).as_posix()}")
        for width in (390, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
                wide.append((path.name, width))
    assert wide == []
