"""The page about OWASP ASVS: every requirement once, existing tests and files, correct totals."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.parts.documentation import definitions

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "asvs.md"
STATUSES = ("met", "not met", "not applicable", "deployment")
# The level of each requirement of ASVS 5.0.0, by section: the first digit of 1.2 is the level of 1.2.1.
LEVELS = {
    "1.1": "22", "1.2": "1111122223", "1.3": "112222222223", "1.4": "222", "1.5": "123",
    "2.1": "122", "2.2": "112", "2.3": "12223", "2.4": "23",
    "3.1": "3", "3.2": "113", "3.3": "12223", "3.4": "11222233", "3.5": "11122333", "3.6": "3", "3.7": "22333",
    "4.1": "12233", "4.2": "23333", "4.3": "22", "4.4": "1222",
    "5.1": "2", "5.2": "112333", "5.3": "113", "5.4": "222",
    "6.1": "122", "6.2": "111111112222", "6.3": "11223333", "6.4": "112233", "6.5": "22222333", "6.6": "2223",
    "6.7": "33", "6.8": "2222",
    "7.1": "222", "7.2": "1111", "7.3": "22", "7.4": "11222", "7.5": "223", "7.6": "22",
    "8.1": "1233", "8.2": "1123", "8.3": "133", "8.4": "23",
    "9.1": "111", "9.2": "1222",
    "10.1": "22", "10.2": "223", "10.3": "22223", "10.4": "1111122222233333", "10.5": "22222", "10.6": "22",
    "10.7": "222",
    "11.1": "2233", "11.2": "22233", "11.3": "11233", "11.4": "1222", "11.5": "23", "11.6": "23", "11.7": "33",
    "12.1": "12233", "12.2": "11", "12.3": "22223",
    "13.1": "2333", "13.2": "222223", "13.3": "2233", "13.4": "1222233",
    "14.1": "22", "14.2": "12223333", "14.3": "122",
    "15.1": "12233", "15.2": "12233", "15.3": "1222222", "15.4": "3333",
    "16.1": "2", "16.2": "22222", "16.3": "2222", "16.4": "222", "16.5": "2223",
    "17.1": "23", "17.2": "22223333", "17.3": "22",
}  # fmt: skip
_ROW = re.compile(r"^\| (\d+\.\d+\.\d+) \| (\d) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_TOTAL = re.compile(r"^\| (?:\[V(\d+) [^|]+|All) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", re.MULTILINE)
_PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)*\.(?:py|html|js|md|yml|lock))(?:::(\w+))?`")
_LINK = re.compile(r"\]\(([^)]+)\)")


class Row(NamedTuple):
    """One requirement on the page."""

    number: str
    level: str
    requirement: str
    status: str
    evidence: str


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return [Row(*(cell.strip("*") for cell in found)) for found in _ROW.findall(PAGE.read_text("utf-8"))]


def test_every_requirement_of_levels_1_and_2_is_listed_once(rows: list[Row]) -> None:
    expected = [
        (f"{section}.{position}", level)
        for section, levels in LEVELS.items()
        for position, level in enumerate(levels, 1)
        if level != "3"
    ]
    assert len(expected) == 253
    assert [(row.number, row.level) for row in rows] == expected


def test_every_row_has_a_status_and_its_evidence(rows: list[Row]) -> None:
    assert {row.status for row in rows} <= set(STATUSES)
    assert [row.number for row in rows if row.status == "met" and not _PATH.findall(row.evidence + _pages(row))] == []
    assert [row.number for row in rows if row.status == "deployment" and not _LINK.findall(row.evidence)] == []
    assert [row.number for row in rows if len(row.evidence) < 5] == []


def test_named_tests_and_files_exist(rows: list[Row]) -> None:
    missing = []
    for row in rows:
        for path, name in _PATH.findall(row.evidence):
            file = ROOT / path
            if not file.is_file() or (name and name not in definitions(file)):
                missing.append(f"{row.number} {path} {name}")
    assert missing == []


def test_totals_are_those_of_the_rows(rows: list[Row]) -> None:
    found = {chapter or "All": counts for chapter, *counts in _TOTAL.findall(PAGE.read_text("utf-8"))}
    assert found == dict(_totals(rows))


def test_requirements_that_are_not_met_are_listed_at_the_top(rows: list[Row]) -> None:
    sentence = re.search(r"^Not met: ([\d.,\s]+)\.$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sentence is not None
    assert re.split(r",\s+", sentence[1]) == [row.number for row in rows if row.status == "not met"]


def _totals(rows: list[Row]) -> Iterator[tuple[str, list[str]]]:
    for chapter in ("All", *dict.fromkeys(row.number.partition(".")[0] for row in rows)):
        counts = Counter(row.status for row in rows if chapter in {"All", row.number.partition(".")[0]})
        yield chapter, [str(counts.total()), *(str(counts[status]) for status in STATUSES)]


def _pages(row: Row) -> str:
    """Return the linked pages of the documentation as code spans."""
    return "".join(f"`{target.partition('#')[0].lstrip('./')}`" for target in _LINK.findall(row.evidence))
