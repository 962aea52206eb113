"""`make sbom` lists every package of the service and every file copied from another project."""

import hashlib
import json
import re
from typing import Any

import pytest

pytest.importorskip("cyclonedx", reason="cyclonedx-bom is not installed")

from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation import make_schemabased_validator

from tools import sbom

LOCK = sbom.ROOT / "requirements.lock"

pytestmark = pytest.mark.release


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("sbom") / "build" / "sbom.json"
    sbom.write(path)
    return path.read_text("utf-8")


@pytest.fixture(scope="module")
def components(document: str) -> dict[str, Any]:
    return {each["bom-ref"]: each for each in json.loads(document)["components"]}


def locked_packages() -> dict[str, set[str]]:
    """Return the digests of each package for Linux, by package URL."""
    entries = re.split(r"\n(?=\S)", LOCK.read_text("utf-8").strip())
    found = {}
    for entry in entries:
        if "sys_platform != 'linux'" in entry:
            continue
        name, version = re.findall(r"^([\w.-]+)==([^\s;]+)", entry)[0]
        found[f"pkg:pypi/{name}@{version}"] = set(re.findall(r"sha256:(\w+)", entry))
    return found


def test_document_conforms_to_cyclonedx(document: str) -> None:
    assert json.loads(document)["specVersion"] == "1.6"
    assert make_schemabased_validator(OutputFormat.JSON, SchemaVersion.V1_6).validate_str(document) is None


def test_every_locked_package_has_its_hashes(components: dict[str, Any]) -> None:
    listed = {
        ref: {digest["content"] for link in each["externalReferences"] for digest in link.get("hashes", ())}
        for ref, each in components.items()
        if ref.startswith("pkg:")
    }
    assert len(listed) > 50
    assert listed == locked_packages()


def test_every_component_has_a_license(components: dict[str, Any]) -> None:
    assert [ref for ref, each in components.items() if not each.get("licenses")] == []


def test_every_package_is_needed_by_another(document: str) -> None:
    graph = {each["ref"]: each.get("dependsOn", []) for each in json.loads(document)["dependencies"]}
    # The wheel is built with these two; the installed service does not need them.
    waiting = [ref for ref in graph if re.match(r"root-component|pkg:pypi/(hatchling|editables)@", ref)]
    reached = set()
    while waiting:
        ref = waiting.pop()
        if ref not in reached:
            reached.add(ref)
            waiting += graph[ref]
    assert graph.keys() - reached == set()


def test_bundled_files_are_listed(components: dict[str, Any]) -> None:
    package = sbom.PACKAGE
    files = list((package / "credentials/common_passwords").iterdir())
    shipped = {path for path in files if "LICENSE" not in path.name and path.suffix != ".py"}
    shipped -= {path for path in files if path.name in {"SHA256SUMS", "__pycache__"}}
    listed = {ref.removeprefix("bundled:"): each for ref, each in components.items() if ref.startswith("bundled:")}
    assert {package / name for name in listed} == shipped
    for name, each in listed.items():
        assert each["hashes"] == [
            {"alg": "SHA-256", "content": hashlib.sha256((package / name).read_bytes()).hexdigest()}
        ]
