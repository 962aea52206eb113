"""`requirements.lock` contains every package that the service imports."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.release
def test_lock_file_covers_every_import_of_the_service() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked = " ".join(re.findall(r"^([\w.-]+)==", lock, re.MULTILINE))
    modules = imported_modules()
    assert "sqlalchemy.ext.asyncio" in modules
    done = subprocess.run(
        [sys.executable, "-c", IMPORTER, *sorted(modules)], input=locked, capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
