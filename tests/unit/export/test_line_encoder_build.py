"""Checks that tools/line-encoder built line_encoder.wasm from the C files."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import wasmtime

from daybreak.export import line_encoder

PACKAGE = Path(line_encoder.__file__).parent


def recorded() -> dict[str, str]:
    """Return the SHA-256 of each file as the build tool recorded it."""
    lines = (PACKAGE / "line_encoder.sha256").read_text("utf-8").splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def test_files_have_the_recorded_digests() -> None:
    assert sorted(recorded()) == sorted(path.name for path in PACKAGE.iterdir() if path.suffix in {".c", ".h", ".wasm"})
    for name, digest in recorded().items():
        found = hashlib.sha256((PACKAGE / name).read_bytes()).hexdigest()
        assert found == digest, f"{name} was changed: run tools/line-encoder"


def test_build_is_reproducible(project_folder: Path, tmp_path: Path) -> None:
    """Another version of clang produces different bytes. Then only imports and exports are compared."""
    version = documented_clang_version()
    clang = next((found for name in (f"clang-{version}", "clang") if (found := shutil.which(name))), None)
    if clang is None:
        pytest.skip("clang is not installed")
    installed = subprocess.run([clang, "--version"], check=True, capture_output=True, text=True).stdout
    output = tmp_path / "line_encoder.wasm"
    subprocess.run([project_folder / "tools" / "line-encoder", output], env=os.environ | {"CLANG": clang}, check=True)
    if f"version {version}." in installed:
        assert hashlib.sha256(output.read_bytes()).hexdigest() == recorded()["line_encoder.wasm"]
    assert interface(output) == interface(PACKAGE / "line_encoder.wasm")


def interface(module: Path) -> list[str]:
    """Return the name and type of everything that a module imports and exports."""
    loaded = wasmtime.Module(wasmtime.Engine(), module.read_bytes())
    imports = [f"import {one.module}.{one.name} {describe(one.type)}" for one in loaded.imports]
    return imports + [f"export {one.name} {describe(one.type)}" for one in loaded.exports]


def describe(kind: object) -> str:
    match kind:
        case wasmtime.FuncType():
            return f"function {[*map(str, kind.params)]} -> {[*map(str, kind.results)]}"
        case _:
            return type(kind).__name__


def documented_clang_version() -> str:
    """Return the major version in the package's README."""
    found = re.search(r"clang (\d+)", (PACKAGE / "README.md").read_text("utf-8"))
    assert found is not None
    return found[1]
