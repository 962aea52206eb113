"""Write the software bill of materials: `python -m tools.sbom [FILE]`, by default `build/sbom.json`.

The format is CycloneDX 1.6 JSON. `cyclonedx-py` reads versions and hashes from `requirements.lock`, and licenses and
dependencies from the virtual environment. This module joins the two and adds the files copied from other projects.
"""

import hashlib
import json
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation import make_schemabased_validator
from packageurl import PackageURL

from daybreak import __version__

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "daybreak"
TOOL = Path(sysconfig.get_path("scripts")) / "cyclonedx-py"


@dataclass(frozen=True, slots=True)
class BundledFile:
    """A file of another project that is part of the package, which has no version. `license` is an SPDX identifier."""

    path: str
    name: str
    license: str
    purl_type: str


BUNDLED = (
    BundledFile("credentials/common_passwords/django.txt.gz", "django", "BSD-3-Clause", "pypi"),
    BundledFile("credentials/common_passwords/zxcvbn.txt", "zxcvbn", "MIT", "npm"),
)


def read_bom(*arguments: str) -> Bom:
    """Return the document that `cyclonedx-py` prints. `write` validates the one that is made of both."""
    options = ("--pyproject", "pyproject.toml", "--sv", "1.6", "--output-reproducible", "--no-validate")
    command = [str(TOOL), *arguments, *options]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    bom = Bom.from_json(json.loads(printed))  # type: ignore[attr-defined] # added by a class decorator
    assert isinstance(bom, Bom)
    return bom


def purl(component: Component) -> str:
    """Return the package URL without qualifiers: the same in both documents."""
    assert component.purl is not None
    return f"pkg:{component.purl.type}/{component.purl.name}@{component.purl.version}"


def bundled_components() -> Iterator[Component]:
    for file in BUNDLED:
        digest = hashlib.sha256((PACKAGE / file.path).read_bytes()).hexdigest()
        yield Component(
            type=ComponentType.FILE,
            name=file.path.rpartition("/")[2],
            bom_ref=f"bundled:{file.path}",
            description=f"Bundled as src/daybreak/{file.path}.",
            purl=PackageURL(type=file.purl_type, name=file.name),
            licenses=[DisjunctiveLicense(id=file.license)],
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
        )


def bill_of_materials() -> Bom:
    """Return the locked packages of the service, with hashes, licenses and dependencies, and the bundled files."""
    locked, installed = read_bom("requirements", "requirements.lock"), read_bom("environment", sys.prefix)
    details = {purl(component): component for component in installed.components if component.purl}
    # The service runs on Linux. A package for another platform is not installed, and left out.
    locked.components = {component for component in locked.components if purl(component) in details}
    components = {purl(component): component for component in locked.components}
    for key, component in components.items():
        component.bom_ref.value = key
        component.licenses, component.description = details[key].licenses, details[key].description
    product = locked.metadata.component
    assert product is not None
    product.version = __version__
    locked.dependencies.clear()
    owners = {found.bom_ref: components[key] for key, found in details.items() if key in components}
    assert installed.metadata.component is not None
    owners[installed.metadata.component.bom_ref] = product
    for dependency in installed.dependencies:
        if owner := owners.get(dependency.ref):
            needed = [owners[entry.ref] for entry in dependency.dependencies if entry.ref in owners]
            locked.register_dependency(owner, needed)
    for component in bundled_components():
        locked.components.add(component)
        locked.register_dependency(product, [component])
    return locked


def write(target: Path) -> None:
    """Write the document to `target`, after checking it against the schema of CycloneDX 1.6."""
    outputter = make_outputter(bill_of_materials(), OutputFormat.JSON, SchemaVersion.V1_6)
    text = outputter.output_as_string(indent=2) + "\n"
    if fault := make_schemabased_validator(OutputFormat.JSON, SchemaVersion.V1_6).validate_str(text):
        sys.exit(f"The document does not conform to CycloneDX 1.6: {fault}")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "sbom.json"
    write(path)
    print(f"Wrote {path}.")
