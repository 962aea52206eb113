"""Comparison of a run with the snapshot published before it, and the failed checks of the guard as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from daybreak.catalogue.resources import RESOURCES
from daybreak.domain.snapshot import Snapshot
from daybreak.export.referential import reference_check, row_count_check, unique_check
from daybreak.settings import GuardSettings
from daybreak.snapshots.guard import MIN_ROWS
from daybreak.snapshots.report import count, figure, resources_of, section
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
    if previous is None or not resources_of(run.report):
        return []
    before, now = resources_of(previous.report), resources_of(run.report)
    pairs = [
        (resource.name, resource.title, count(before.get(resource.name, {}), "rows"), count(now[resource.name], "rows"))
        for resource in RESOURCES
        if resource.name in now
    ]
    if "leaders" in run.report:
        pairs.append(("leaders", "Leaders", count(previous.report, "leaders"), count(run.report, "leaders")))
    failed = {entry.get("resource") for entry in findings_of(run, "rows")}
    return [
        ComparedRow(
            name=title,
            before=format_number(old),
            now=format_number(new),
            change=row_change(new, old).text,
            limit=_drop_limit(guard.max_drop_share),
            verdict="failed" if name in failed else "passed" if guard.enabled and old >= MIN_ROWS else "not checked",
        )
        for name, title, old, new in pairs
    ]


def compared_columns(run: Snapshot, guard: GuardSettings) -> list[ComparedRow]:
    """Return the columns whose share of NULLs rose too much."""
    limit = f"+{100 * guard.max_null_share_rise:.0f} %"
    return [
        ComparedRow(
            name=f"{title_of(str(entry.get('resource')))}, {entry.get('column')}",
            before=f"{100 * figure(entry, 'before'):.0f} %",
            now=f"{100 * figure(entry, 'now'):.0f} %",
            change=f"+{100 * (figure(entry, 'now') - figure(entry, 'before')):.0f} %",
            limit=limit,
            verdict="failed",
        )
        for entry in findings_of(run, "nulls")
    ]


def compared_leaders(run: Snapshot, guard: GuardSettings, names: Mapping[str, str]) -> list[ComparedRow]:
    """Return the Leaders that lost too many rows of a resource. `names` maps client ids to names of accounts."""
    rows = []
    for entry in findings_of(run, "leader_rows"):
        client_id, old, new = str(entry.get("client_id", "")), count(entry, "before"), count(entry, "now")
        name = f"{names.get(client_id, 'Unknown account')}, {title_of(str(entry.get('resource')))}"
        rows.append(
            ComparedRow(
                name=name,
                before=format_number(old),
                now=format_number(new),
                change=row_change(new, old).text,
                limit=_drop_limit(guard.max_leader_drop_share),
                verdict="failed",
                client_id=client_id,
            )
        )
    return rows


def failed_checks(run: Snapshot) -> list[FailedCheck]:
    """Return the violated relations between resources, and findings that are no comparison of rows."""
    violations = run.report.get("references") if findings_of(run, "references") else None
    sentences = dict(_relations())
    checks = []
    for each in map(section, violations if isinstance(violations, Sequence) else ()):
        check, rows = str(each.get("check")), count(each, "rows")
        one, several = sentences.get(check, (f"row violates: {check}", f"rows violate: {check}"))
        text = f"{format_number(rows)} {one if rows == 1 else several}"
        checks.append(FailedCheck(text, str(each.get("example") or "")))
    others = (entry for kind in ("unexplained", "rule", "clock") for entry in findings_of(run, kind))
    return [*checks, *(FailedCheck(str(entry.get("detail"))) for entry in others)]


def leaders_with_findings(run: Snapshot) -> set[str]:
    """Return the client ids of Leaders that lost too many rows."""
    return {str(entry["client_id"]) for entry in findings_of(run, "leader_rows") if "client_id" in entry}


def findings_of(run: Snapshot, kind: str) -> list[Mapping[str, object]]:
    """Return the guard's findings of one kind."""
    findings = run.report.get("findings")
    entries = findings if isinstance(findings, Sequence) and not isinstance(findings, str) else ()
    return [entry for entry in map(section, entries) if entry.get("kind") == kind]


def largest_drop(run: Snapshot) -> float:
    """Return the largest share of rows that a resource or a Leader lost, 0 without any."""
    drops = [
        1 - figure(entry, "now") / figure(entry, "before")
        for kind in ("rows", "leader_rows")
        for entry in findings_of(run, kind)
        if figure(entry, "before")
    ]
    return max(drops, default=0.0)


def confirmation(run: Snapshot) -> str:
    """Return what an operator must type to publish the snapshot, such as `52 %`; "" if nothing."""
    drop = largest_drop(run)
    return f"{100 * drop:.0f} %" if drop >= CONFIRMED_DROP_SHARE else ""


def is_confirmed(run: Snapshot, typed: str) -> bool:
    """Return whether the typed text is the confirmation. Spaces, a sign and the percent sign may be left out."""
    needed = confirmation(run)
    return not needed or typed.strip().lstrip("-\N{MINUS SIGN}").rstrip("% ") == needed.removesuffix(" %")


def findings(run: Snapshot) -> list[str]:
    """Return each failed check as a sentence."""
    return [
        *(f"{title_of(str(entry.get('resource')))}: {_rows_lost(entry)}." for entry in findings_of(run, "rows")),
        *(f"{check.text}." for check in failed_checks(run)),
        *(
            f"A Leader lost rows of {title_of(str(entry.get('resource')))}."
            for entry in findings_of(run, "leader_rows")
        ),
        *(f"{entry.get('column')} has more NULLs." for entry in findings_of(run, "nulls")),
    ]


def summary(run: Snapshot) -> str:
    """Return the number of failed checks and the first of them."""
    lines = findings(run)
    more = f" {len(lines) - 1} more." if len(lines) > 1 else ""
    return f"{lines[0]}{more}" if lines else ""


def _rows_lost(entry: Mapping[str, object]) -> str:
    return f"{row_change(count(entry, 'now'), count(entry, 'before')).text} rows"


def _relations() -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield each check of the catalogue, and what follows the number of rows: one row, and several."""
    for resource in RESOURCES:
        key, title = " and ".join(resource.key), resource.title
        yield (
            unique_check(resource),
            (f"value of {key} occurs more than once in {title}", f"values of {key} occur more than once in {title}"),
        )
        for reference in resource.references:
            missing = f"{reference.resource} that do not exist"
            sentences = (f"row in {title} refers to {missing}", f"rows in {title} refer to {missing}")
            yield reference_check(resource, reference), sentences
        if resource.row_count is not None:
            counted = (
                f"a {resource.row_count.column} that differs from the rows of {title_of(resource.row_count.resource)}"
            )
            sentences = (f"row in {title} has {counted}", f"rows in {title} have {counted}")
            yield row_count_check(resource, resource.row_count), sentences


def title_of(name: str) -> str:
    """Return the title of a resource."""
    return next((resource.title for resource in RESOURCES if resource.name == name), name.capitalize())


def _drop_limit(share: float) -> str:
    return f"\N{MINUS SIGN}{100 * share:.0f} %"
