"""Files have the same bytes as in earlier versions, according to recorded digests."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb
import pytest

from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.export.line_encoder import runtime
from tests.reference.golden_digests import (
    EMPTY_LEADER,
    FORMATS,
    RECORDED,
    compressor_digest,
    golden_digests,
    make_golden_platform,
)

Digests = dict[str, dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(RECORDED.read_text("utf-8"))
    return document


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_golden_platform(tmp_path_factory.mktemp("platform"))


def comparable(resources: Digests, *, fingerprints: bool, parquet: bool, stored: bool) -> Digests:
    """Remove what this machine cannot reproduce. The content of text formats is compared everywhere.

    Fingerprints depend on the version of DuckDB, Parquet on that of arro3, and compressed bytes on the processor
    (`compressor_digest`).
    """

    def of_entry(entry: dict[str, Any]) -> dict[str, Any]:
        kept: dict[str, Any] = {"rows": entry["rows"]}
        if fingerprints:
            kept["fingerprint"] = entry["fingerprint"]
        for name in FORMATS:
            if name == "parquet":
                kept[name] = entry[name] if parquet else None
            else:
                kept[name] = entry[name] if stored else entry[name][1:]
        return kept

    return {name: {leader: of_entry(entry) for leader, entry in found.items()} for name, found in resources.items()}


@pytest.mark.parametrize("encoder", ["compiled", "sql"])
def test_files_have_the_recorded_digests(
    recorded: dict[str, Any], platform: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoder: str
) -> None:
    if encoder == "sql":
        monkeypatch.setattr(runtime, "unavailable_reason", lambda: "switched off by the test")
    found = golden_digests(platform, tmp_path / "spill")
    same = {
        "fingerprints": recorded["duckdb"] == duckdb.__version__,
        "parquet": recorded["arro3"] == version("arro3-io"),
        "stored": recorded["compressor"] == compressor_digest(),
    }
    assert comparable(found, **same) == comparable(recorded["resources"], **same)


def test_recorded_digests_cover_every_resource_and_format(recorded: dict[str, Any]) -> None:
    resources: Digests = recorded["resources"]
    assert tuple(resources) == RESOURCE_NAMES
    for leaders in resources.values():
        assert "" in leaders, "no header-only file"
        assert EMPTY_LEADER not in leaders
        assert len(leaders) >= 7
        assert all(set(FORMATS) <= set(entry) for entry in leaders.values())
