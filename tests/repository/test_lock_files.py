"""The lock files contain every package that the service and its unit tests import."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.conftest import pytest_plugins
from tests.unit.conftest import NEEDS

ROOT = Path(__file__).resolve().parents[2]
# The last one is installed on other systems than Linux.
EXTRAS = (
    "daybreak.sources.spark",
    "botocore",
    "dlt",
    "opentelemetry",
    "daybreak.telemetry",
    "daybreak.web.otlp_metrics",
    "daybreak.web.middleware.tracing",
    "keyring",
    "obstore.auth.boto3",
    "pkcs11",
    "pyarrow",
    "truststore",
)
# Imports the modules in its arguments; hides every distribution that standard input does not list.
IMPORTER = """
import importlib, importlib.metadata, re, sys
locked = set(sys.stdin.read().split())
owners = importlib.metadata.packages_distributions()

class OnlyLocked:
    def find_spec(self, name, path=None, target=None):
        found = {re.sub(r"[-_.]+", "-", owner).lower() for owner in owners.get(name, ())}
        if found and not found & (locked | {"daybreak"}):
            raise ModuleNotFoundError(f"{name} belongs to {found}, which the lock file lacks", name=name)

sys.meta_path.insert(0, OnlyLocked())
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError as fault:
        print(f"{name}: {fault}")
"""


def imported_modules() -> set[str]:
    """Return the modules that service and client import, inside functions too, except those of `EXTRAS`."""
    found: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        if "spark" in path.parts or "versions" in path.parts or path.name == "env.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module)
    return {name for name in found if not name.startswith(EXTRAS)}


def missing_imports(lock_file: str, modules: Iterable[str]) -> str:
    """Return the imports of modules that need a package which a lock file lacks, one a line."""
    lock = (ROOT / lock_file).read_text(encoding="utf-8")
    locked = " ".join(re.findall(r"^([\w.-]+)==", lock, re.MULTILINE))
    command = [sys.executable, "-c", IMPORTER, *sorted(modules)]
    return subprocess.run(command, input=locked, capture_output=True, text=True, check=True, cwd=ROOT).stdout


@pytest.mark.release
def test_lock_file_covers_every_import_of_the_service() -> None:
    modules = imported_modules()
    assert "sqlalchemy.ext.asyncio" in modules
    assert missing_imports("requirements.lock", modules) == ""


@pytest.mark.release
def test_lock_file_of_unit_tests_covers_their_imports() -> None:
    """`make test-unit` leaves out those that `NEEDS` lists."""
    folder = ROOT / "tests" / "unit"
    left_out = {folder / file for files in NEEDS.values() for file in files}
    tests = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in {*folder.rglob("test_*.py")} - left_out}
    assert missing_imports("requirements-unit.lock", {*tests, *pytest_plugins}) == ""
