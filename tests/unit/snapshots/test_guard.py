"""The guard: differences that are findings, and differences that are not."""

import pytest
from msgspec import structs

from daybreak.domain.display import format_count
from daybreak.domain.run_report import (
    Accounting,
    ReferentialFault,
    ResourceFigures,
    RunReport,
    TableAccount,
    Unexplained,
)
from daybreak.settings import GuardSettings
from daybreak.snapshots.guard import (
    null_rises,
    reference_findings,
    row_drops,
    row_findings,
    rule_findings,
    unexplained_findings,
)
from daybreak.snapshots.report import source_warnings

RULES = GuardSettings(max_drop_share=0.3, max_null_share_rise=0.2)


def report(rows: int, **nulls: int) -> RunReport:
    return RunReport(resources={"members": ResourceFigures(rows=rows, nulls=nulls)})


def test_drop_beyond_the_limit_is_found() -> None:
    assert list(row_drops(report(1000), report(700), RULES)) == []
    (found,) = row_drops(report(1000), report(699), RULES)
    assert (found.kind, found.resource, found.before, found.now) == ("rows", "members", 1000, 699)
    assert found.detail == "members: 699 rows, down from 1,000 (-30 %, limit 30 %)."


def test_missing_resource_is_found() -> None:
    (found,) = row_drops(report(1000), RunReport(), RULES)
    assert found.now == 0


def test_lost_leaders_are_found() -> None:
    before, now = (structs.replace(report(1000), leaders=number) for number in (500, 40))
    (found,) = row_drops(before, now, RULES)
    assert (found.kind, found.resource, found.before, found.now) == ("rows", "leaders", 500, 40)
    assert found.detail == "leaders: 40 Leaders, down from 500 (-92 %, limit 30 %)."
    assert list(row_drops(before, structs.replace(now, leaders=350), RULES)) == []


def test_small_resources_and_growth_are_not_findings() -> None:
    assert list(row_drops(report(99), report(0), RULES)) == []
    assert list(row_drops(report(1000), report(5000), RULES)) == []


def test_column_with_more_nulls_is_found() -> None:
    (found,) = null_rises(report(100, EMAIL=10), report(100, EMAIL=31), RULES)
    assert (found.kind, found.column, found.before, found.now) == ("nulls", "EMAIL", 0.1, 0.31)
    assert found.detail == "members.EMAIL: NULL in 31 % of the rows, up from 10 % (limit +20 %)."
    assert list(null_rises(report(100, EMAIL=10), report(100, EMAIL=30), RULES)) == []
    assert list(null_rises(report(100), report(100, NEW=100), RULES)) == [], "a new column has no history"


def test_violated_relation_is_found() -> None:
    faults = (ReferentialFault("a in b", 1, "x"), ReferentialFault("a in b", 1200, "x"))
    found = reference_findings(None, RunReport(references=faults), RULES)
    assert [each.detail for each in found] == [
        "a in b: violated by 1 row, such as x.",
        "a in b: violated by 1,200 rows, such as x.",
    ]


@pytest.mark.parametrize(
    ("code", "old", "held"),
    [
        ("reference:member_state_changes.MEMBER_ID", 9, False),
        ("reference:member_state_changes.MEMBER_ID", 8, True),
        ("reference:member_state_changes.MEMBER_ID", 0, True),
        ("unique:members", 10, True),
        ("", 10, True),
    ],
)
def test_published_reference_is_found_only_if_it_rises(code: str, old: int, held: bool) -> None:
    figures = {"member_state_changes": ResourceFigures(rows=1000)}
    before, now = (
        RunReport(resources=figures, references=(ReferentialFault("a in b", rows, "x", code),) if rows else ())
        for rows in (old, 10)
    )
    assert bool(reference_findings(before, now, RULES)) is held
    assert bool(list(source_warnings(now))) is True, "shown without a finding too"


def test_counts_have_singular_and_plural() -> None:
    assert [format_count(each, "row") for each in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]


def accounts(source: int, **excluded: int) -> Accounting:
    exported = source - sum(excluded.values())
    return Accounting((TableAccount("campaigns", "outbound_messages", source, exported, excluded),))


def test_more_faulty_rows_are_found() -> None:
    before = accounts(100_000, unknown_campaign=50, no_campaign=10)
    assert rule_findings(before, accounts(100_000, unknown_campaign=150, no_campaign=90_000), RULES) == []
    (found,) = rule_findings(before, accounts(100_000, unknown_campaign=151), RULES)
    assert (found.kind, found.resource, found.column, found.before, found.now) == (
        "rule", "campaigns", "unknown_campaign", 50, 151,
    )  # fmt: skip
    assert found.detail == (
        "campaigns: 151 rows of outbound_messages in no file, up from 50 (limit +0.1 % of 100,000): the campaign is "
        "not in table campaigns."
    )
    (new,) = rule_findings(accounts(1000), accounts(1000, no_instant=2), RULES)
    assert new.before == 0


def test_account_and_row_of_faulty_rows_are_named() -> None:
    (table,) = accounts(1000, no_instant=1200).tables
    table = structs.replace(table, most={"no_instant": ("a", 1100)}, examples={"no_instant": "message_id b"})
    (found,) = rule_findings(accounts(1000), Accounting((table,)), RULES)
    assert found.client_id == "a"
    assert found.detail.endswith(": the time is NULL. Leader a has the most: 1,100. Example: message_id b.")


def test_first_publication_has_no_findings_of_rules() -> None:
    now = accounts(1000, unknown_campaign=900)
    assert row_findings(None, now, RULES) == []
    assert rule_findings(Accounting(), now, RULES) == [], "the resource was not accounted for"


def test_account_that_differs_is_found() -> None:
    table = TableAccount(
        "members",
        "members",
        9,
        9,
        unexplained=(Unexplained("a", "rows", 10, 9), Unexplained("b", "keys", 1, 2, "c is missing")),
    )
    found = unexplained_findings(Accounting((table,)))
    assert [each.detail for each in found] == [
        "members of Leader a: 9 rows, but 10 in members.",
        "members of Leader b: other rows than those of members. c is missing.",
    ]
    assert [each.client_id for each in found] == ["a", "b"]
