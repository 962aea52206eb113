"""Comparison of held runs with the published snapshot."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from daybreak.catalogue.resources import RESOURCES
from daybreak.domain.run_report import RunReport
from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.export.referential import check_queries
from daybreak.settings import GuardSettings
from daybreak.web.dashboard.operator.comparison import (
    compared_columns,
    compared_leaders,
    compared_resources,
    confirmation,
    failed_checks,
    findings,
    is_confirmed,
    summary,
)

NOW = datetime(2026, 11, 25, 4, tzinfo=UTC)
GUARD = GuardSettings()
VIOLATED = {"kind": "references", "resource": "", "detail": ""}


def run(**report: Any) -> Snapshot:
    return Snapshot("s", SnapshotState.HELD, NOW, NOW, report=msgspec.convert(report, RunReport))


def rows_finding(before: int, now: int) -> dict[str, object]:
    return {"kind": "rows", "resource": "members", "detail": "", "before": before, "now": now}


def test_each_resource_has_a_verdict() -> None:
    before = run(
        leaders=200, resources={"members": {"rows": 2600}, "campaigns": {"rows": 400}, "communities": {"rows": 9}}
    )
    now = run(
        leaders=199,
        resources={"members": {"rows": 1240}, "campaigns": {"rows": 380}, "communities": {"rows": 1}},
        findings=[rows_finding(2600, 1240)],
    )
    compared = {row.name: row for row in compared_resources(now, before, GUARD)}
    members = compared["Member Details"]
    assert (members.before, members.now, members.limit) == ("2,600", "1,240", "\N{MINUS SIGN}30 %")
    assert members.change == "\N{MINUS SIGN}1,360 (\N{MINUS SIGN}52.3 %)"
    verdicts = {name: row.verdict for name, row in compared.items()}
    assert verdicts == {
        "Member Details": "failed", "Campaign Performance": "passed", "Communities": "not checked", "Leaders": "passed",
    }  # fmt: skip
    assert compared_resources(now, None, GUARD) == []


def test_leaders_are_named() -> None:
    finding = {
        "kind": "leader_rows",
        "resource": "members",
        "detail": "",
        "client_id": "a",
        "before": 20_000,
        "now": 10,
    }
    other = {**finding, "client_id": "b"}
    rows = compared_leaders(run(findings=[finding, other]), GUARD, {"a": "Northlight"})
    assert [row.name for row in rows] == ["Northlight, Member Details", "Unknown account, Member Details"]
    assert rows[0].limit == "\N{MINUS SIGN}70 %"


def test_null_shares_are_compared() -> None:
    finding = {"kind": "nulls", "resource": "members", "detail": "", "column": "EMAIL", "before": 0.04, "now": 0.61}
    (row,) = compared_columns(run(findings=[finding]), GUARD)
    assert (row.name, row.before, row.now, row.change) == ("Member Details, EMAIL", "4 %", "61 %", "+57 %")


def test_every_check_of_the_catalogue_has_a_sentence() -> None:
    checks = [check.code for check in check_queries(lambda name: name, [each.name for each in RESOURCES])]
    assert len(checks) > 5
    references = [{"code": code, "check": "", "rows": 1234, "example": "x"} for code in checks]
    sentences = failed_checks(run(references=references, findings=[VIOLATED]))
    assert not [each.text for each in sentences if "violate" in each.text]
    assert all(each.text.startswith("1,234 ") for each in sentences)
    single = failed_checks(run(references=[{**references[-1], "rows": 1}], findings=[VIOLATED]))
    assert single[0].text == "1 row in Member Communities refers to communities that do not exist."


def test_unknown_check_is_shown_as_it_is() -> None:
    references = [{"check": "{rows} of x", "rows": 5, "example": ""}]
    (check,) = failed_checks(run(references=references, findings=[VIOLATED | {"resource": "{rows} of x"}]))
    assert (check.text, check.example) == ("5 rows violate: {rows} of x.", "")
    assert failed_checks(run(references=references)) == [], "the guard does not check references"


@pytest.mark.parametrize(
    ("typed", "valid"), [("52 %", True), (" -52%", True), ("52", True), ("51", False), ("", False)]
)
def test_large_drop_must_be_typed(typed: str, valid: bool) -> None:
    held = run(findings=[rows_finding(2600, 1240)])
    assert confirmation(held) == "52 %"
    assert is_confirmed(held, typed) is valid


def test_small_drop_needs_no_confirmation() -> None:
    held = run(findings=[rows_finding(2600, 1700)])
    assert confirmation(held) == ""
    assert is_confirmed(held, "")


def test_summary_counts_the_findings() -> None:
    held = run(
        findings=[rows_finding(2600, 1240), {"kind": "nulls", "resource": "members", "detail": "", "column": "EMAIL"}]
    )
    assert summary(held) == "Member Details: \N{MINUS SIGN}1,360 (\N{MINUS SIGN}52.3 %) rows. 1 more."
    assert summary(run()) == ""


def test_details_of_the_guard_are_sentences() -> None:
    held = run(findings=[{"kind": "rule", "resource": "members", "detail": "The own model has no rule."}])
    assert findings(held, {}) == [summary(held)] == ["The own model has no rule."]
