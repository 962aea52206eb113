"""The packages of a release: the same source makes the same bytes."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.release
ROOT = Path(__file__).parents[2]
SOURCES = ("src", "LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml")


def build(folder: Path, umask: int, modified_at: int) -> dict[str, str]:
    """Build both packages from a copy of the source, and return their digests."""
    for name in SOURCES:
        source, copy = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            folder.mkdir(exist_ok=True)
            shutil.copy(source, copy)
    for path in folder.rglob("*"):
        os.utime(path, (modified_at, modified_at))
        path.chmod((0o777 if path.is_dir() else 0o666) & ~umask)
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", "dist"], cwd=folder, check=True, umask=umask)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (folder / "dist").iterdir()}


def test_packages_are_reproducible(tmp_path: Path) -> None:
    first = build(tmp_path / "first", 0o022, 1_700_000_000)
    second = build(tmp_path / "second", 0o077, 1_760_000_000)
    assert sorted(Path(name).suffix for name in first) == [".gz", ".whl"]
    assert first == second
