"""Tests named on the security page exist. The threat model and its picture show the same flows."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from xml.etree import ElementTree as ET


def test_tests_on_the_security_page_exist(project_folder: Path) -> None:
    page = (project_folder / "docs" / "explanation" / "security.md").read_text("utf-8")
    rows = [line for line in page.partition("## Every check")[2].splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 25
    missing = []
    for row in rows:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", row)
        assert named, row
        for file, name in named:
            path = project_folder / "tests" / file
            if not path.exists() or name not in _functions(path):
                missing.append(f"{file}::{name}")
    assert missing == []


def test_picture_shows_every_flow_of_the_threat_model(project_folder: Path) -> None:
    page = (project_folder / "docs" / "explanation" / "threat-model.md").read_text("utf-8")
    picture = ET.parse(project_folder / "docs" / "images" / "data-flows.svg").getroot()
    listed = re.findall(r"^\| (\d+)\. ", page, re.MULTILINE)
    assert len(listed) > 10
    assert picture.attrib["aria-labelledby"].split() == [picture[0].attrib["id"], picture[1].attrib["id"]]
    described = re.findall(r"Flow (\d+):", picture[1].text or "")
    drawn = [text.text for text in picture.iterfind(".//{*}g[@class='number']/{*}text")]
    assert listed == described == drawn


def _functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
