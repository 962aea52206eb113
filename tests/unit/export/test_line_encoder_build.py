"""Checks that the tools built the WebAssembly modules from their sources."""

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import wasmtime

from daybreak.export import line_encoder
from daybreak.export.delta import kernel

PACKAGE = Path(line_encoder.__file__).parent
MODULES = [
    pytest.param(PACKAGE, "line_encoder", "line-encoder", id="line_encoder"),
    pytest.param(Path(kernel.__file__).parent, "delta_merge", "delta-merge", id="delta_merge"),
]


def recorded(folder: Path, name: str) -> dict[str, str]:
    """Return the SHA-256 of each file as the build tool recorded it."""
    lines = (folder / f"{name}.sha256").read_text("utf-8").splitlines()
    return {file: digest for digest, file in (line.split() for line in lines)}


@pytest.mark.parametrize(("folder", "name", "tool"), MODULES)
def test_files_have_the_recorded_digests(folder: Path, name: str, tool: str) -> None:
    sources = [path.name for path in folder.iterdir() if path.suffix in {".c", ".h", ".wasm"}]
    code = "".join(path.read_text("utf-8") for path in folder.glob("*.c"))
    sources += re.findall(r'#include "(\.\./.+)"', code)
    assert sorted(recorded(folder, name)) == sorted(sources)
    for file, digest in recorded(folder, name).items():
        found = hashlib.sha256((folder / file).read_bytes()).hexdigest()
        assert found == digest, f"{file} was changed: run tools/{tool}"


@pytest.mark.parametrize(("folder", "name", "tool"), MODULES)
def test_build_is_reproducible(project_folder: Path, tmp_path: Path, folder: Path, name: str, tool: str) -> None:
    """Another version of clang produces different bytes. Then only imports and exports are compared."""
    version = documented_clang_version()
    clang = next((found for each in (f"clang-{version}", "clang") if (found := shutil.which(each))), None)
    if clang is None:
        pytest.skip("clang is not installed")
    installed = subprocess.run([clang, "--version"], check=True, capture_output=True, text=True).stdout
    output = tmp_path / f"{name}.wasm"
    subprocess.run([project_folder / "tools" / tool, output], env=os.environ | {"CLANG": clang}, check=True)
    if f"version {version}." in installed:
        assert hashlib.sha256(output.read_bytes()).hexdigest() == recorded(folder, name)[output.name]
    assert interface(output) == interface(folder / output.name)


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
