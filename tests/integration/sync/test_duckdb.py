"""Sync into a DuckDB file: names of its schemas and tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from daybreak_client import AccountFiles, sync
from tests.integration.sync.conftest import NORTH
from tests.parts.churn import Churn
from tests.parts.delta_publisher import Publisher


@pytest.mark.release
@pytest.mark.parametrize(
    "schemas",
    [("daybreak", "daybreak"), ("Exports", "exports"), ("temp", "temp")],
    ids=["name of the file", "mixed case", "temp"],
)
def test_schemas_are_found_again(tmp_path: Path, north: Publisher, account: AccountFiles, schemas: list[str]) -> None:
    """The file daybreak.duckdb has the catalog `daybreak`. DuckDB ignores the case of names."""
    target, churn = f"duckdb:///{tmp_path}/daybreak.duckdb", Churn(NORTH, seed=13)
    for version, schema in enumerate((*schemas, schemas[0]), start=1):
        north.publish(churn.day())
        result = sync(account, target, schema=schema, verify=True)
        assert result.version == version
        assert {each.verified for each in result.resources} == {"equal"}
        assert not sync(account, target, schema=schema).changed
