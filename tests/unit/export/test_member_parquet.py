"""Copies of Parquet files without a Member."""

import io
from pathlib import Path

import pyarrow.parquet
import pytest

from daybreak.catalogue.resources import resource_named
from daybreak.domain.snapshot import PARQUET_MAGIC
from daybreak.export import parquet_parts
from daybreak.export.member_parquet import MemberParquet
from tests.unit.export.test_parquet_files import CUSTOM, LEADERS, export, member


def test_row_without_a_member_is_kept(tmp_path: Path) -> None:
    """A source may have NULL in a required column."""
    table = pyarrow.table({"MEMBER_ID": [member(7), None], "CUSTOM_FIELD_NAME": ["a", "b"]})
    source = io.BytesIO()
    pyarrow.parquet.write_table(table, source)
    with MemberParquet.open(tmp_path / "spill", member(7)) as copies:
        copy = b"".join(copies.without(resource_named(CUSTOM), [source.getvalue()]))
        assert (copies.removed, copies.statistics.rows) == (1, 1)
    assert pyarrow.parquet.read_table(io.BytesIO(copy)).to_pylist() == table.slice(1).to_pylist()


@pytest.mark.release
def test_large_copies_have_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(member(number % 70_000), LEADERS[0], f"field {number}", None) for number in range(140_000)]
    sink, _ = export(tmp_path, CUSTOM, rows)
    monkeypatch.setattr(parquet_parts, "MAX_FILE_BYTES", 100_000)
    with MemberParquet.open(tmp_path / "spill", member(7)) as copies:
        copy = b"".join(copies.without(resource_named(CUSTOM), [sink.files[LEADERS[0], CUSTOM, "parquet"]]))
        parts = copies.parts
        assert copies.statistics.rows == sum(part.statistics.rows for part in parts) == len(rows) - 2
    assert len(parts) > 1
    for part in parts:
        data_bytes = part.bytes - len(PARQUET_MAGIC) - part.footer_bytes
        footer = copy[part.footer_start : part.footer_start + part.footer_bytes]
        own = PARQUET_MAGIC + copy[part.start : part.start + data_bytes] + footer
        members = pyarrow.parquet.read_table(io.BytesIO(own))["MEMBER_ID"].to_pylist()
        assert len(members) == part.statistics.rows
        assert member(7) not in members
