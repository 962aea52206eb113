"""Tests named on the security page exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path


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


def _functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
