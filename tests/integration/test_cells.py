"""Every CSV and JSON cell of random platforms equals the result of the reference implementation."""

from collections import Counter
from datetime import date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, given, settings

from daybreak.catalogue.models import load_models
from daybreak.catalogue.resources import RESOURCES, Resource
from daybreak.export.job import ExportResults
from daybreak.sources.duckdb import DuckdbSource
from daybreak.sources.reading import Reading
from tests.parts.export_rows import MemorySink, export_job
from tests.reference.compute import compute, rows_of_leader
from tests.reference.platforms import Table, platforms, write_duckdb, write_parquet
from tests.reference.read_files import read_csv_gz, read_json_gz

FORMATS = ("csv", "json")
# No shrinking: an example takes seconds, and the failure names file and Leader.
PHASES = (Phase.explicit, Phase.generate)


def export_all(reading: Reading) -> tuple[MemorySink, dict[str, set[str]]]:
    """Export all resources. Return the files, and by resource the Leaders with an entry."""
    sink = MemorySink()
    listed: dict[str, set[str]] = {}
    for resource in RESOURCES:
        results = ExportResults()
        reading.export(export_job(resource.name, FORMATS), sink, results)
        listed[resource.name] = {entry.client_id for entry in results.entries}
        assert len(listed[resource.name]) == len(results.entries)
        assert all(set(entry.formats) == set(FORMATS) for entry in results.entries)
    return sink, listed


def order(row: tuple[Any, ...], resource: Resource) -> list[Any]:
    """Return the sort key of a row: UUIDs and texts by bytes, times by instant."""
    cells = [row[resource.column_names.index(name)] for name in resource.key]
    return [cell.encode() if isinstance(cell, str) else cell for cell in cells]


def check_against_reference(source: DuckdbSource, tables: dict[str, Table], as_of: datetime) -> None:
    expected = compute(tables, as_of)
    with source.open(as_of) as reading:
        reading.check()
        assert reading.leaders() == sorted(row["leader_id"] for row in tables["leaders"])
        sink, listed = export_all(reading)
        reading.confirm_unchanged()
    for resource in RESOURCES:
        for leader in tables["leaders"]:
            leader_id = leader["leader_id"]
            rows = rows_of_leader(expected[resource.name], resource.name, leader_id)
            owner = leader_id if leader_id in listed[resource.name] else ""
            assert (owner == "") == (not rows), (resource.name, leader_id)
            from_csv = read_csv_gz(sink.files[owner, resource.name, "csv"], resource)
            from_json = read_json_gz(sink.files[owner, resource.name, "json"], resource)
            assert from_csv == from_json, (resource.name, leader_id)
            assert Counter(from_csv) == Counter(rows), (resource.name, leader_id)
            keys = [order(row, resource) for row in from_csv]
            assert keys == sorted(keys), (resource.name, leader_id)
        own = listed[resource.name] - {""}
        assert own <= {row["leader_id"] for row in tables["leaders"]}


def source_at(location: Path, folder: Path) -> DuckdbSource:
    return DuckdbSource(location, load_models(), memory_bytes=500_000_000, threads=2, temp_dir=folder / "spill")


@pytest.mark.release
@settings(max_examples=6, phases=PHASES)
@given(platforms())
def test_cells_from_parquet_equal_the_reference(drawn: tuple[dict[str, Table], datetime]) -> None:
    tables, as_of = drawn
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_parquet(tables, folder / "platform")
        check_against_reference(source_at(folder / "platform", folder), tables, as_of)


@settings(max_examples=5, phases=PHASES)
@given(platforms())
def test_cells_from_duckdb_equal_the_reference(drawn: tuple[dict[str, Table], datetime]) -> None:
    tables, as_of = drawn
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_duckdb(tables, folder / "platform.duckdb")
        check_against_reference(source_at(folder / "platform.duckdb", folder), tables, as_of)


def test_readers_reject_malformed_files() -> None:
    """Lenient readers would accept wrong files."""
    resource = next(each for each in RESOURCES if each.name == "communities")
    one = "00000000-0001-4000-8000-000000000001"
    header = '"COMMUNITY_ID","COMMUNITY_NAME","LEADER_ID","MEMBER_COUNT"\n'
    assert read_csv_gz(_gz(header + f'"{one}","a,""\n","{one}",3\n'), resource) == [(one, 'a,"\n', one, 3)]
    for bad in (
        header.lower(),
        header + f'{one},"a","{one}",3\n',
        header + f'"{one}","a","{one}","3"\n',
        header + f'"{one}","a","{one}",03\n',
        header + f'"{one}","a","{one}",3',
        header + f'"{one}","a","{one}",3\r\n',
        header + f'"{one}","a","{one}",\n',
        header + f'"{one.upper()}x","a","{one}",3\n',
        header + f'"{one}",,"{one}",3\n',
        header + f'"{one}","a","{one}",3,4\n',
    ):
        assert _rejected(lambda bad=bad: read_csv_gz(_gz(bad), resource)), bad
    record = f'{{"COMMUNITY_ID":"{one}","COMMUNITY_NAME":"a\\n","LEADER_ID":"{one}","MEMBER_COUNT":3}}'
    assert read_json_gz(_gz(f"[{record}]"), resource) == [(one, "a\n", one, 3)]
    for bad in (
        record,
        f"[{record},{record}]",
        f"[{record.replace('3', 'NaN')}]",
        f"[{record.replace(':3', ':true')}]",
    ):
        assert _rejected(lambda bad=bad: read_json_gz(_gz(bad), resource)), bad


def _gz(text: str) -> bytes:
    import gzip

    return gzip.compress(text.encode(), mtime=0)


def _rejected(read: Any) -> bool:
    try:
        read()
    except (AssertionError, KeyError, ValueError):
        return True
    return False


def test_reference_returns_hand_computed_rows() -> None:
    """Detects errors that the reference and the models share."""
    as_of = datetime.fromisoformat("2026-11-20T04:00:00+00:00")
    one, two, member, community = (f"0000000{n}-0000-4000-8000-000000000000" for n in range(4))
    early = datetime.fromisoformat("2026-08-22T04:00:00+00:00")
    tables: dict[str, Table] = {
        name: []
        for name in (
            "campaigns",
            "campaign_links",
            "link_hits",
            "inbound_messages",
            "outbound_messages",
            "member_state_changes",
            "custom_field_values",
            "terms",
        )
    }
    tables["leaders"] = [
        {"leader_id": one, "leader_name": "top", "parent_leader_id": None, "billing_entity_leader_id": None},
        {"leader_id": two, "leader_name": "child", "parent_leader_id": one, "billing_entity_leader_id": one},
    ]
    tables["members"] = []
    accept = {"member_id": member, "leader_id": two, "term_id": one, "member_email": "e", "member_country_code": None}
    tables["member_term_accepts"] = [
        accept | {"was_checked": True, "was_pre_checked": False, "accepted_at": at}
        for at in (
            early,
            early.replace(microsecond=1),
            datetime.fromisoformat("2026-08-22T03:59:59.999999+00:00"),
            as_of,
        )
    ]
    tables["communities"] = [{"community_id": community, "leader_id": one, "community_name": "c"}]
    membership = {"community_id": community, "member_id": member}
    tables["community_memberships"] = [
        membership | {"joined_at": early, "left_at": as_of},
        membership | {"joined_at": as_of, "left_at": None},
    ]
    found = compute(tables, as_of)
    assert len(found["member_term_accepts"]) == 3
    assert found["member_term_accepts"][0][8:11] == ("child", "top", "top")
    assert found["communities"] == [(community, "c", one, 1)]
    assert found["member_communities"] == [(community, "c", one, member, early)]
    assert all(
        isinstance(cell, (str, int, bool, date, datetime, type(None)))
        for rows in found.values()
        for row in rows
        for cell in row
    )
