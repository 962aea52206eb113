"""The guard: compares a complete snapshot with the published one before publication.

A finding holds the snapshot: the published files stay until an operator accepts or discards it.
"""

from collections.abc import Iterator
from datetime import datetime

from daybreak.catalogue.resources import RESOURCE_NAMES, RESOURCES
from daybreak.catalogue.written_sums import KEYS, ROWS
from daybreak.domain.display import format_count
from daybreak.domain.run_report import Accounting, Finding, RunReport, TableAccount, Unexplained
from daybreak.domain.snapshot import Snapshot
from daybreak.export.referential import reference_code
from daybreak.proof.rules import faulty_rows, reason_of
from daybreak.settings import GuardSettings
from daybreak.snapshots.report import format_share
from daybreak.state.snapshots import SnapshotStore
from daybreak.state.stores import State, Stores

MIN_ROWS = 100
"""Resources with fewer rows are not compared: their shares vary too much."""
_REFERRING = {
    reference_code(resource, reference): resource.name for resource in RESOURCES for reference in resource.references
}
"""The resource of each reference to rows of another one, by code."""


def clock_finding(published: Snapshot | None, now: datetime) -> list[Finding]:
    """Return a finding when the published snapshot is as of a future instant, because a clock was ahead.

    Every new snapshot has an earlier instant, and only an operator can decide which clock is right.
    """
    if published is None or not published.is_ahead_of(now):
        return []
    detail = (
        f"The published snapshot is as of {published.as_of:%Y-%m-%d %H:%M:%S} UTC, ahead of the clock "
        f"({now:%Y-%m-%d %H:%M:%S} UTC). If the clock is right, accept this snapshot."
    )
    return [Finding("clock", "as_of", detail)]


def reference_findings(before: RunReport | None, now: RunReport, settings: GuardSettings) -> list[Finding]:
    """Return a finding for each relation between resources that is violated.

    A platform may keep the history of Members that it removed. Once published, references to missing rows are findings
    only if they rise by more than a share of the rows. Repeated keys and wrong numbers of rows always are.
    """
    published = {fault.code: fault.rows for fault in (before.references if before else None) or ()}
    findings = []
    for fault in now.references or ():
        resource, old = _REFERRING.get(fault.code), published.get(fault.code, 0)
        if resource and old and fault.rows - old <= settings.unknown_share * now.by_resource[resource].rows:
            continue
        rise = f", up from {old:,}" if 0 < old < fault.rows else ""
        detail = f"{fault.check}: violated by {format_count(fault.rows, 'row')}{rise}, such as {fault.example}."
        findings.append(Finding("references", fault.check, detail))
    return findings


def row_findings(published: RunReport | None, now: Accounting, settings: GuardSettings) -> list[Finding]:
    """Return the findings of row accounting, compared with that of the last publication. Rules have none at the first
    one, so that a platform with old faulty rows can start.
    """
    if not settings.enabled:
        return []
    before = None if published is None else published.accounting
    compared = [] if before is None else rule_findings(before, now, settings) + own_rule_findings(before, now, settings)
    return unexplained_findings(now) + compared


def unexplained_findings(accounting: Accounting) -> list[Finding]:
    """Return a finding for each account whose files differ from the source, up to a number of accounts by table."""
    return [
        Finding(
            "unexplained",
            table.resource,
            f"{table.resource} of Leader {each.client_id}: {_difference(table.table, each)}.{_sentence(each.example)}",
            client_id=each.client_id,
            column=each.figure,
            before=each.expected,
            now=each.written,
        )
        for table in accounting.tables
        for each in table.unexplained
    ]


def rule_findings(before: Accounting, now: Accounting, settings: GuardSettings) -> list[Finding]:
    """Return a finding for each rule for faulty rows that excludes more rows than at the last publication."""
    old_rows = {
        (table.resource, table.table, rule): rows for table in before.tables for rule, rows in table.excluded.items()
    }
    accounted = {(table.resource, table.table) for table in before.tables}
    findings = []
    for table in now.tables:
        for rule, rows in faulty_rows(table).items():
            old = old_rows.get((table.resource, table.table, rule), 0)
            is_new = (table.resource, table.table) not in accounted
            if is_new or rows - old <= settings.unknown_share * table.source:
                continue
            detail = (
                f"{table.resource}: {format_count(rows, 'row')} of {table.table} in no file, up from {old:,} (limit "
                f"+{100 * settings.unknown_share:.4g} % of {table.source:,}): {reason_of(rule)}.{_example(table, rule)}"
            )
            client_id, _ = table.most.get(rule, (None, 0))
            findings.append(Finding("rule", table.resource, detail, client_id, rule, old, rows))
    return findings


def own_rule_findings(before: Accounting, now: Accounting, settings: GuardSettings) -> list[Finding]:
    """Return a finding for each rule that an own model gained or lost, compared with the approved rules, or with those
    of the last publication if none are approved.
    """
    findings = []
    for resource, own in now.own_models.items():
        published = before.own_models.get(resource)
        known = settings.approved_rules.get(resource, () if published is None else published.rules)
        findings += [_new_rule(now, resource, rule) for rule in own.rules if rule not in known]
        findings += [
            Finding("rule", resource, f"{resource}: the own model no longer has the rule {rule}.", column=rule)
            for rule in known
            if rule not in own.rules
        ]
    return findings


def _new_rule(now: Accounting, resource: str, rule: str) -> Finding:
    table = next((each for each in now.tables if each.resource == resource), None)
    rows = None if table is None else table.excluded.get(rule, 0)
    client_id = None if table is None else table.most.get(rule, (None, 0))[0]
    detail = f"{resource}: the own model has a rule that is not approved: {rule}."
    if table is not None and rows:
        detail += f" It excludes {format_count(rows, 'row')} of {table.table}.{_example(table, rule)}"
    return Finding("rule", resource, detail, client_id=client_id, column=rule, before=0, now=rows)


def _example(table: TableAccount, rule: str) -> str:
    """Return sentences about the account with the most rows that a rule excludes, and about one row."""
    client_id, most = table.most.get(rule, ("", 0))
    account = f"Leader {client_id} has the most: {most:,}" if client_id else ""
    example = table.examples.get(rule)
    return _sentence(account) + _sentence(f"Example: {example}" if example else "")


def _sentence(text: str) -> str:
    return f" {text}." if text else ""


def row_drops(before: RunReport, now: RunReport, settings: GuardSettings) -> Iterator[Finding]:
    """Yield a finding for each resource that lost too large a share of its rows, from two run reports.

    The number of Leaders is compared in the same way. Small Leaders have few rows, but an account whose Leader is
    missing has no files.
    """
    old, new = (
        {"leaders": report.leaders or 0} | {resource: figures.rows for resource, figures in report.by_resource.items()}
        for report in (before, now)
    )
    for name, old_rows in old.items():
        new_rows = new.get(name, 0)
        if old_rows >= MIN_ROWS and old_rows - new_rows > settings.max_drop_share * old_rows:
            remaining = format_count(new_rows, "Leader" if name == "leaders" else "row")
            detail = f"{name}: {remaining}, {_drop(old_rows, new_rows, settings.max_drop_share)}."
            yield Finding("rows", name, detail, before=old_rows, now=new_rows)


def null_rises(before: RunReport, now: RunReport, settings: GuardSettings) -> Iterator[Finding]:
    """Yield a finding for each column whose share of NULLs rose too much, from two run reports."""
    for resource, new in now.by_resource.items():
        old = before.by_resource.get(resource)
        if old is None or min(old.rows, new.rows) < MIN_ROWS:
            continue
        for column in new.nulls:
            if column not in old.nulls:
                continue
            old_share, new_share = old.nulls[column] / old.rows, new.nulls[column] / new.rows
            if new_share - old_share > settings.max_null_share_rise:
                detail = (
                    f"{resource}.{column}: NULL in {format_share(new_share)} of the rows, up from "
                    f"{format_share(old_share)} (limit +{format_share(settings.max_null_share_rise)})."
                )
                before_and_now = round(old_share, 4), round(new_share, 4)
                yield Finding("nulls", resource, detail, None, column, *before_and_now)


def leader_drops(
    stores: SnapshotStore, published_id: str, snapshot_id: str, resource: str, settings: GuardSettings
) -> Iterator[Finding]:
    """Yield a finding for each large Leader that lost too large a share of a resource's rows, by client_id.

    The database compares the manifests, because most comparisons have no finding.
    """
    lost_leaders = stores.rows_lost(
        published_id,
        snapshot_id,
        resource,
        least_rows=max(settings.leader_min_rows, 1),
        share=settings.max_leader_drop_share,
    )
    for client_id, old, new in lost_leaders:
        drop = _drop(old, new, settings.max_leader_drop_share)
        detail = f"{resource} of Leader {client_id}: {format_count(new, 'row')}, {drop}."
        yield Finding("leader_rows", resource, detail, client_id=client_id, before=old, now=new)


def comparison_findings(
    state: State, published: Snapshot, snapshot_id: str, report: RunReport, settings: GuardSettings
) -> list[Finding]:
    """Compare a snapshot and its report with the published snapshot."""
    findings = [*row_drops(published.report, report, settings), *null_rises(published.report, report, settings)]
    before = published.report.by_resource
    for resource in RESOURCE_NAMES:
        if resource in before and before[resource].rows < settings.leader_min_rows:
            # No Leader had enough rows.
            continue

        def compare(stores: Stores, resource: str = resource) -> list[Finding]:
            return list(leader_drops(stores.snapshots, published.snapshot_id, snapshot_id, resource, settings))

        findings += state.read(compare)
    return findings


def _difference(table: str, each: Unexplained) -> str:
    if each.figure == KEYS:
        return f"other rows than those of {table}"
    figure = "rows" if each.figure == ROWS else f"in {each.figure}"
    return f"{each.written:,} {figure}, but {each.expected:,} in {table}"


def _drop(old: int, new: int, limit: float) -> str:
    """Format a loss of rows as `down from 2,600 (-52 %, limit 30 %)`."""
    return f"down from {old:,} (-{format_share((old - new) / old)}, limit {format_share(limit)})"
