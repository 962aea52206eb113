"""The manifests of `deploy/kubernetes`, checked against the published schemas of Kubernetes."""

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "deploy/kubernetes"
MANIFESTS = sorted(path for path in FOLDER.glob("*/*.yaml") if path.name != "kustomization.yaml")
VERSIONS = ("1.30", "1.37")


def pods() -> list[dict[str, Any]]:
    documents = [yaml.safe_load(path.read_text("utf-8")) for path in MANIFESTS]
    return [each["spec"]["template"]["spec"] for each in documents if "template" in each.get("spec", {})]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_manifest_matches_the_schema(path: Path) -> None:
    for version in VERSIONS:
        kubernetes_validate.validate(yaml.safe_load(path.read_text("utf-8")), version, strict=True)


def test_every_manifest_is_in_an_overlay() -> None:
    listed: set[Path] = set()
    for path in FOLDER.glob("*/kustomization.yaml"):
        listed |= {(path.parent / name).resolve() for name in yaml.safe_load(path.read_text("utf-8"))["resources"]}
    assert listed == {*MANIFESTS, FOLDER / "base"}


def test_pods_follow_the_restricted_standard() -> None:
    assert len(pods()) == 4
    for pod in pods():
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["runAsUser"] == 10001
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"] + pod.get("initContainers", []):
            assert container["image"] == "daybreak"
            assert container["resources"]["requests"]
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
