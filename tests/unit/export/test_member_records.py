"""Copies of text files without a Member: the remaining records keep their bytes."""

import csv
import io
import json
import tracemalloc
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.resources import Resource, resource_named
from daybreak.domain.errors import FileStoreError
from daybreak.export.member_records import MemberRecords, with_fewer_members

MEMBER, OTHER = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
COMMUNITIES = [str(uuid.UUID(int=number)) for number in (7, 8)]
FORMATS = ("csv", "json", "ndjson")
# Quotes, separators, line ends, and text that looks like a column or like the Member.
TEXT = st.lists(
    st.sampled_from(['"', ",", "\n", "\r", "\\", "}", "]", ":", MEMBER, f'"MEMBER_ID":"{MEMBER}"', "é"])
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
    max_size=4,
).map("".join)
Row = dict[str, str | None]


def encoded(resource: Resource, format: str, rows: Sequence[Row]) -> bytes:
    """Encode rows as a file of the resource: text and identifiers are quoted in CSV, NULL is empty."""
    if format == "csv":
        out = io.StringIO()
        writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerow(resource.column_names)
        for row in rows:
            # Python's writer does not distinguish NULL from an empty text.
            out.write(",".join(_csv_cell(resource, name, row[name]) for name in resource.column_names) + "\n")
        return out.getvalue().encode()
    lines = [_json_record(resource, row) for row in rows]
    if format == "json":
        return ("[" + ",\n".join(lines) + "]").encode()
    return "".join(line + "\n" for line in lines).encode()


def _csv_cell(resource: Resource, name: str, value: str | None) -> str:
    if value is None:
        return ""
    is_quoted = resource.column(name).type in {ColumnType.TEXT, ColumnType.UUID}
    return '"' + value.replace('"', '""') + '"' if is_quoted else value


def _json_record(resource: Resource, row: Row) -> str:
    is_number = {column.name for column in resource.columns if column.type is ColumnType.BIGINT}
    cells = (
        f'"{name}":{row[name] if name in is_number else json.dumps(row[name], ensure_ascii=False)}'
        for name in resource.column_names
    )
    return "{" + ",".join(cells) + "}"


def pieces(content: bytes, size: int) -> Iterator[bytes]:
    return (content[at : at + size] for at in range(0, len(content), size))


def custom_rows(members: Sequence[tuple[str, str, str | None]]) -> list[Row]:
    names = ("MEMBER_ID", "CUSTOM_FIELD_NAME", "CUSTOM_FIELD_VALUE")
    return [{**dict(zip(names, each, strict=True)), "LEADER_ID": OTHER} for each in members]


CUSTOM = st.lists(st.tuples(st.sampled_from([MEMBER, OTHER]), TEXT, st.none() | TEXT), max_size=8).map(custom_rows)


@pytest.mark.parametrize("format", FORMATS)
@given(rows=CUSTOM, size=st.integers(1, 200))
def test_remaining_records_keep_their_bytes(format: str, rows: list[Row], size: int) -> None:
    resource = resource_named("custom_member_data")
    content = encoded(resource, format, rows)
    records = MemberRecords(resource, format, MEMBER)
    assert records.occur_in(pieces(content, size)) == any(row["MEMBER_ID"] == MEMBER for row in rows)
    remaining = [row for row in rows if row["MEMBER_ID"] != MEMBER]
    assert b"".join(records.without(pieces(content, size))) == encoded(resource, format, remaining)
    assert records.removed == len(rows) - len(remaining)


@pytest.mark.parametrize("format", FORMATS)
@given(members=st.lists(st.tuples(st.sampled_from(COMMUNITIES), TEXT, st.sampled_from([MEMBER, OTHER])), max_size=8))
def test_memberships_are_counted_by_community(format: str, members: list[tuple[str, str, str]]) -> None:
    resource = resource_named("member_communities")
    names = ("COMMUNITY_ID", "COMMUNITY_NAME", "MEMBER_ID")
    rows: list[Row] = [
        {**dict(zip(names, each, strict=True)), "LEADER_ID": OTHER, "JOINED_AT": "2026-11-20T04:00:00.000000Z"}
        for each in members
    ]
    records = MemberRecords(resource, format, MEMBER)
    list(records.without([encoded(resource, format, rows)]))
    own = [community for community, _, member in members if member == MEMBER]
    assert dict(records.communities) == {community: own.count(community) for community in own}


@pytest.mark.parametrize("added", [(), (Column("NOTE", ColumnType.TEXT, nullable=True, description=""),)])
@pytest.mark.parametrize("format", FORMATS)
@given(names=st.lists(TEXT, max_size=2), removed=st.integers(0, 3))
def test_number_of_members_becomes_lower(
    format: str, added: tuple[Column, ...], names: list[str], removed: int
) -> None:
    """Also with a column after it."""
    resource = resource_named("communities")
    resource = replace(resource, columns=(*resource.columns, *added))

    note = {column.name: "5" for column in added}

    def rows(counts: Sequence[int]) -> list[Row]:
        return [
            {"COMMUNITY_ID": community, "COMMUNITY_NAME": name, "LEADER_ID": OTHER, "MEMBER_COUNT": str(count), **note}
            for community, name, count in zip(COMMUNITIES, names, counts, strict=False)
        ]

    content = encoded(resource, format, rows([5, 3]))
    lower = with_fewer_members(resource, format, [content], {COMMUNITIES[0]: removed})
    assert b"".join(lower) == encoded(resource, format, rows([5 - removed, 3]))


@pytest.mark.parametrize("format", FORMATS)
def test_record_without_a_member_is_kept(format: str) -> None:
    """A source may have NULL in a required column."""
    resource = resource_named("custom_member_data")
    [other] = custom_rows([(OTHER, MEMBER, None)])
    other["MEMBER_ID"] = None
    content = encoded(resource, format, [*custom_rows([(MEMBER, "a", "b")]), other])
    assert b"".join(MemberRecords(resource, format, MEMBER).without([content])) == encoded(resource, format, [other])


@pytest.mark.parametrize("format", FORMATS)
def test_membership_without_a_community_is_removed(format: str) -> None:
    resource = resource_named("member_communities")
    row: Row = dict.fromkeys(resource.column_names) | {"MEMBER_ID": MEMBER, "LEADER_ID": OTHER}
    records = MemberRecords(resource, format, MEMBER)
    assert b"".join(records.without([encoded(resource, format, [row])])) == encoded(resource, format, [])
    assert (records.removed, records.communities) == (1, {})


@pytest.mark.release
def test_block_boundaries_do_not_matter() -> None:
    """Records of more than one block of 1 MiB."""
    resource = resource_named("custom_member_data")
    rows = custom_rows([(OTHER if number % 50 else MEMBER, "field", 'a,"\n' * 3_000) for number in range(100)])
    for format in FORMATS:
        content = encoded(resource, format, rows)
        assert len(content) > 1 << 20
        remaining = [row for row in rows if row["MEMBER_ID"] != MEMBER]
        records = MemberRecords(resource, format, MEMBER)
        assert b"".join(records.without(pieces(content, 70_001))) == encoded(resource, format, remaining)


def test_memory_does_not_depend_on_quotes() -> None:
    """A cell of many lines and quotes, which is longer than a block."""
    resource = resource_named("custom_member_data")
    text = ('"' * 200 + "\n") * 8_000
    content = encoded(resource, "csv", custom_rows([(OTHER, "a", text), (MEMBER, "a", text)]))
    remaining = encoded(resource, "csv", custom_rows([(OTHER, "a", text)]))
    tracemalloc.start()
    try:
        found = b"".join(MemberRecords(resource, "csv", MEMBER).without(pieces(content, 1 << 18)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == remaining
    assert peak < 10 * len(content)


@pytest.mark.parametrize("format", FORMATS)
def test_content_of_another_format_is_refused(format: str) -> None:
    resource = resource_named("custom_member_data")
    content = encoded(resource, format, custom_rows([(MEMBER, "a", "b")]))
    for other in FORMATS:
        if other != format:
            with pytest.raises(FileStoreError):
                list(MemberRecords(resource, other, MEMBER).without([content[: len(content) - 1]]))


def test_json_of_another_layout_is_refused() -> None:
    """A record in which the column cannot be found must not be taken for that of another Member."""
    resource = resource_named("custom_member_data")
    content = encoded(resource, "json", custom_rows([(MEMBER, "a", "b")])).replace(b'":', b'": ')
    with pytest.raises(FileStoreError, match="columns"):
        list(MemberRecords(resource, "json", MEMBER).without([content]))


def test_lower_number_than_rows_is_refused() -> None:
    resource = resource_named("communities")
    rows: list[Row] = [{"COMMUNITY_ID": COMMUNITIES[0], "COMMUNITY_NAME": "a", "LEADER_ID": OTHER, "MEMBER_COUNT": "1"}]
    with pytest.raises(FileStoreError, match="MEMBER_COUNT"):
        list(with_fewer_members(resource, "csv", [encoded(resource, "csv", rows)], {COMMUNITIES[0]: 2}))
