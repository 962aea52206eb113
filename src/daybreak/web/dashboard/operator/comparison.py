"""Comparison of a run with the snapshot published before it, and the failed checks of the guard as sentences."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from daybreak.catalogue.resources import RESOURCES
from daybreak.domain.run_report import Finding, FindingKind
from daybreak.domain.snapshot import Snapshot
from daybreak.export.referential import reference_code, row_count_code, unique_code
from daybreak.settings import GuardSettings
from daybreak.snapshots.guard import MIN_ROWS
from daybreak.web.dashboard.files.trend import row_change
from daybreak.web.dashboard.formatting import format_number

CONFIRMED_DROP_SHARE = 0.5
"""A drop of this share or more must be typed to publish the snapshot."""


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One row of the comparison. `verdict` is `passed`, `failed` or `not checked`; `limit` is "" if there is none."""

    name: str
    before: str
    now: str
    change: str
    limit: str
    verdict: str
    client_id: str = ""


@dataclass(frozen=True, slots=True)
class FailedCheck:
    """A check that failed, as a sentence, with an example value; "" without one."""

    text: str
    example: str = ""


def compared_resources(run: Snapshot, previous: Snapshot | None, guard: GuardSettings) -> list[ComparedRow]:
    """Compare the rows of each resource and the number of Leaders. Empty without a previous snapshot."""
    if previous is None or not run.report.resources:
        return []
    before, now = previous.report.by_resource, run.report.by_resource
    pairs = [
        (each.name, each.title, before[each.name].rows if each.name in before else 0, now[each.name].rows)
        for each in RESOURCES
        if each.name in now
    ]
    if run.report.leaders is not None:
        pairs.append(("leaders", "Leaders", previous.report.leaders or 0, run.report.leaders))
    failed = {finding.resource for finding in findings_of(run, "rows")}
    rows = []
    for name, title, old, new in pairs:
        verdict = "failed" if name in failed else "passed" if guard.enabled and old >= MIN_ROWS else "not checked"
        rows.append(_compared_counts(title, old, new, guard.max_drop_share, verdict))
    return rows


def compared_columns(run: Snapshot, guard: GuardSettings) -> list[ComparedRow]:
    """Return the columns whose share of NULLs rose too much."""
    limit = f"+{100 * guard.max_null_share_rise:.0f} %"
    return [
        ComparedRow(
            name=f"{title_of(finding.resource)}, {finding.column}",
            before=f"{100 * (finding.before or 0):.0f} %",
            now=f"{100 * (finding.now or 0):.0f} %",
            change=f"+{100 * ((finding.now or 0) - (finding.before or 0)):.0f} %",
            limit=limit,
            verdict="failed",
        )
        for finding in findings_of(run, "nulls")
    ]


def compared_leaders(run: Snapshot, guard: GuardSettings, names: Mapping[str, str]) -> list[ComparedRow]:
    """Return the Leaders that lost too many rows of a resource. `names` maps client ids to names of accounts."""
    rows = []
    for finding in findings_of(run, "leader_rows"):
        client_id, old, new = finding.client_id or "", int(finding.before or 0), int(finding.now or 0)
        name = f"{names.get(client_id, 'Unknown account')}, {title_of(finding.resource)}"
        rows.append(_compared_counts(name, old, new, guard.max_leader_drop_share, "failed", client_id))
    return rows


def _compared_counts(name: str, old: int, new: int, limit: float, verdict: str, client_id: str = "") -> ComparedRow:
    change, shown = row_change(new, old).text, f"\N{MINUS SIGN}{100 * limit:.0f} %"
    return ComparedRow(name, format_number(old), format_number(new), change, shown, verdict, client_id)


def failed_checks(run: Snapshot) -> list[FailedCheck]:
    """Return the violated relations between resources, and findings that are no comparison of rows, as sentences."""
    held = {finding.resource for finding in findings_of(run, "references")}
    sentences = dict(_relations())
    checks = []
    for fault in run.report.references or ():
        if fault.check not in held:
            continue
        one, several = sentences.get(fault.code, (f"row violates: {fault.check}", f"rows violate: {fault.check}"))
        checks.append(FailedCheck(f"{format_number(fault.rows)} {one if fault.rows == 1 else several}.", fault.example))
    others = [*findings_of(run, "unexplained"), *findings_of(run, "rule"), *findings_of(run, "clock")]
    return [*checks, *(FailedCheck(finding.detail) for finding in others)]


def findings_of(run: Snapshot, kind: FindingKind) -> list[Finding]:
    return [finding for finding in run.report.findings or () if finding.kind == kind]


def confirmation(run: Snapshot) -> str:
    """Return what an operator must type to publish the snapshot, such as `52 %`; "" if nothing.

    It is the largest share of rows that a resource or a Leader lost.
    """
    drops = [
        1 - (finding.now or 0) / finding.before
        for finding in (*findings_of(run, "rows"), *findings_of(run, "leader_rows"))
        if finding.before
    ]
    drop = max(drops, default=0.0)
    return f"{100 * drop:.0f} %" if drop >= CONFIRMED_DROP_SHARE else ""


def is_confirmed(run: Snapshot, typed: str) -> bool:
    """Return whether the typed text is the confirmation. Spaces, a sign and the percent sign may be left out."""
    needed = confirmation(run)
    return not needed or typed.strip().lstrip("-\N{MINUS SIGN}").rstrip("% ") == needed.removesuffix(" %")


def findings(run: Snapshot, names: Mapping[str, str]) -> list[str]:
    """Return each failed check as a sentence. `names` are names of Leaders by client id."""
    return [
        *(f"{title_of(finding.resource)}: {_rows_lost(finding)}." for finding in findings_of(run, "rows")),
        *(check.text for check in failed_checks(run)),
        *(
            f"{title_of(finding.resource)} of {names.get(finding.client_id or '', 'a Leader')}: {_rows_lost(finding)}."
            for finding in findings_of(run, "leader_rows")
        ),
        *(
            f"{title_of(finding.resource)}: column {finding.column} has more NULLs."
            for finding in findings_of(run, "nulls")
        ),
    ]


def summary(run: Snapshot) -> str:
    """Return the number of failed checks and the first of them."""
    lines = findings(run, {})
    more = f" {len(lines) - 1} more." if len(lines) > 1 else ""
    return f"{lines[0]}{more}" if lines else ""


def _rows_lost(finding: Finding) -> str:
    return f"{row_change(int(finding.now or 0), int(finding.before or 0)).text} rows"


def _relations() -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the code of each check of the catalogue, and what follows the number of rows: one row, and several."""
    for resource in RESOURCES:
        key, title = " and ".join(resource.key), resource.title
        yield (
            unique_code(resource),
            (f"value of {key} occurs more than once in {title}", f"values of {key} occur more than once in {title}"),
        )
        for reference in resource.references:
            missing = f"{reference.resource} that do not exist"
            sentences = (f"row in {title} refers to {missing}", f"rows in {title} refer to {missing}")
            yield reference_code(resource, reference), sentences
        if resource.row_count is not None:
            counted = (
                f"a {resource.row_count.column} that differs from the rows of {title_of(resource.row_count.resource)}"
            )
            sentences = (f"row in {title} has {counted}", f"rows in {title} have {counted}")
            yield row_count_code(resource, resource.row_count), sentences


def title_of(name: str) -> str:
    return next((resource.title for resource in RESOURCES if resource.name == name), name.capitalize())
