"""A node that installed `requirements.lock` and no more can import everything that the service imports."""

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Imports what its arguments name, in an interpreter that knows only the distributions on standard input.
IMPORTER = """
import importlib, importlib.metadata, re, sys
locked = set(sys.stdin.read().split())
owners = importlib.metadata.packages_distributions()

class Others:
    def find_spec(self, name, path=None, target=None):
        found = {re.sub(r"[-_.]+", "-", owner).lower() for owner in owners.get(name, ())}
        if found and not found & (locked | {"daybreak"}):
            raise ModuleNotFoundError(f"{name} is of {found}, which the lock file does not name", name=name)

sys.meta_path.insert(0, Others())
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError as fault:
        print(f"{name}: {fault}")
"""


def imported_modules() -> set[str]:
    """Every module that an import of service or client names, those inside functions too; Spark is an extra."""
    found: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        if path.name.startswith("spark") or "versions" in path.parts or path.name == "env.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module)
    return {name for name in found if not name.startswith("daybreak.sources.spark")}


def test_what_the_service_imports_is_locked_for_its_nodes() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked = " ".join(re.findall(r"^([\w.-]+)==", lock, re.MULTILINE))
    modules = imported_modules()
    assert "sqlalchemy.ext.asyncio" in modules
    done = subprocess.run(
        [sys.executable, "-c", IMPORTER, *sorted(modules)], input=locked, capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
