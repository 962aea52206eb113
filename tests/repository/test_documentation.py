"""Pages of the documentation: links, first lines, length of paragraphs and table cells, terms."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlglot

from daybreak.domain.delta import CHAIN_REASONS
from daybreak.settings.reference import known_settings
from daybreak.settings.text_forms import Rate
from tools.limits import limits

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if not path.is_symlink())
ROOT_PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
GLOSSARY = DOCS / "reference" / "glossary.md"
TEMPLATES = sorted((ROOT / "src" / "daybreak" / "web").rglob("*.html"))
# Four lines of 120 characters.
MAX_PARAGRAPH = 480
MAX_CELL = 420
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
IMAGE = re.compile(r'(?:src|srcset)="([^"]+)"')


def test_sql_for_snowflake_parses() -> None:
    text = (DOCS / "how-to" / "load-into-snowflake.md").read_text("utf-8")
    statements = [sqlglot.parse(block, read="snowflake") for block in re.findall(r"```sql\n(.*?)```", text, re.DOTALL)]
    assert [len(each) for each in statements] == [2, 5]


@pytest.mark.parametrize("reason", CHAIN_REASONS)
def test_reasons_of_closed_chains_are_explained(reason: str) -> None:
    assert f"| `{reason}` |" in (DOCS / "explanation" / "deltas.md").read_text("utf-8")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose(text: str) -> str:
    """Return Markdown without code blocks and comments."""
    text = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)


def words(text: str) -> str:
    """Return prose without code spans and link targets."""
    return re.sub(r"`[^`]*`", "", re.sub(r"\]\([^)]*\)", "]", prose(text)))


def anchors(page: Path) -> set[str]:
    """Return the ids of the headings, as GitHub and the documentation site form them."""
    headings = re.findall(r"^#+ (.+)$", prose(page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings}


def broken_links(page: Path) -> Iterator[str]:
    text = prose(page.read_text("utf-8"))
    for target in LINK.findall(text) + IMAGE.findall(text):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        linked = (page.parent / path).resolve() if path else page
        if not linked.exists() or (anchor and anchor not in anchors(linked)):
            yield f"{page.name}: {target}"


def paragraphs(page: Path) -> Iterator[str]:
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", prose(page.read_text("utf-8"))):
        if not block.lstrip().startswith(("|", "#", "<")):
            yield " ".join(block.split())


@pytest.mark.parametrize("page", [*PAGES, *ROOT_PAGES], ids=name_of)
def test_links_lead_to_a_page_and_a_heading(page: Path) -> None:
    assert list(broken_links(page)) == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_page_begins_with_a_heading_and_its_readers(page: Path) -> None:
    text = prose(page.read_text("utf-8"))
    assert re.match(r"\s*# \S[^\n]+\n\nTh(is (page|guide) is|ese pages are) for \w+", text)


@pytest.mark.parametrize("page", [*PAGES, *ROOT_PAGES], ids=name_of)
def test_paragraphs_are_short(page: Path) -> None:
    assert [text for text in paragraphs(page) if len(text) > MAX_PARAGRAPH] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_table_cells_fit_on_a_screen(page: Path) -> None:
    rows = re.findall(r"^ *\|(.+)\|$", prose(page.read_text("utf-8")), re.MULTILINE)
    cells = [cell.strip() for row in rows for cell in re.split(r"(?<!\\)\|", row)]
    assert [cell for cell in cells if len(cell) > MAX_CELL] == []


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "zensical.toml").read_text("utf-8")
    assert [name_of(page) for page in PAGES if f'"{page.relative_to(DOCS).as_posix()}"' not in navigation] == []


def test_every_page_is_linked_from_home_or_the_contributor_guides() -> None:
    homes = [DOCS / "index.md", DOCS / "contributing" / "index.md"]
    linked = {(home.parent / target).resolve() for home in homes for target in LINK.findall(home.read_text("utf-8"))}
    assert {path for path in PAGES if path not in homes} <= linked


def test_every_screenshot_is_on_the_page_of_screens() -> None:
    page = (DOCS / "reference" / "screens.md").read_text("utf-8")
    shown = sorted(Path(target).name for target in IMAGE.findall(page))
    assert shown == sorted(path.name for path in (DOCS / "images").glob("*.png"))


def test_words_that_the_glossary_avoids_do_not_occur() -> None:
    table = GLOSSARY.read_text("utf-8").partition("## Words to avoid")[2]
    avoided = [
        word.strip() for row in re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)[1:] for word in row.split(",")
    ]
    assert len(avoided) > 10
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, avoided))})s?\b", re.IGNORECASE)
    texts = {path: words(path.read_text("utf-8")) for path in [*PAGES, *ROOT_PAGES] if path != GLOSSARY}
    texts |= {path: re.sub(r"\{[{%].*?[%}]\}", "", path.read_text("utf-8"), flags=re.DOTALL) for path in TEMPLATES}
    assert len(TEMPLATES) > 20
    assert {f"{name_of(path)}: {word}" for path, text in texts.items() for word in pattern.findall(text)} == set()


def test_glossary_is_sorted_and_defines_each_term_once() -> None:
    table = GLOSSARY.read_text("utf-8").partition("## Words to avoid")[0]
    terms = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)[1:]
    assert len(terms) == len(set(terms))
    assert terms == sorted(terms, key=str.lower)


def test_limits_page_lists_every_rate_and_lifetime() -> None:
    page = limits()
    timed = [key for key, field in known_settings().items() if isinstance(field.default, Rate) or "lifetime" in key]
    assert len(timed) > 4
    assert [key for key in [*timed, "snapshot.keep", "audit.keep"] if f"`{key}`" not in page] == []


def test_installation_names_the_address_of_the_package() -> None:
    """The name is not registered on the package index, where anyone could register it."""
    command = re.compile(r"install [\"']?daybreak(?!\S* @ |[\w-])")
    files = [*PAGES, *ROOT_PAGES, *(ROOT / "src").rglob("*.py")]
    assert [name_of(file) for file in files if command.search(file.read_text("utf-8"))] == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A title\n\n[a](#a-title) [b](#b) [c](none.md) [d](https://example.org/x)\n")
    assert list(broken_links(page)) == ["page.md: #b", "page.md: none.md"]


def test_systemd_units_drop_every_privilege() -> None:
    page = (DOCS / "how-to" / "operations.md").read_text("utf-8")
    units = re.findall(r"```ini\n(\[Unit\].*?)```", page, re.DOTALL)
    assert len(units) == 2
    for unit in units:
        lines = set(unit.splitlines())
        assert lines >= {
            "User=daybreak", "UMask=0077", "NoNewPrivileges=true", "CapabilityBoundingSet=", "ProtectSystem=strict",
            "ProtectHome=true", "PrivateTmp=true", "PrivateDevices=true", "RestrictNamespaces=true",
            "RestrictSUIDSGID=true", "SystemCallFilter=@system-service", "ReadWritePaths=/srv/daybreak",
        }  # fmt: skip
