"""The section of the run report about row accounting. It is stored as JSON, and read with `accounting_of`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from daybreak.domain.counts import format_count
from daybreak.proof.rules import ANOMALIES, FAULTS, RULES, Status


class Unexplained(msgspec.Struct, frozen=True):
    """An account of which the files differ from the source. `figure` is `rows`, `keys` (other rows than expected), or a
    column. `expected` and `written` are its values.
    """

    client_id: str
    figure: str
    expected: int
    written: int


class TableAccount(msgspec.Struct, frozen=True):
    """All rows of a source table, for one resource: `source` = `exported` + those `excluded` by rule.

    `of_no_account` are the excluded rows that belong to no known Leader. `unexplained` are examples of the
    `unexplained_accounts` accounts that differ. `most` has, by rule of an own model, the account with the most rows.
    """

    resource: str
    table: str
    source: int
    exported: int
    excluded: Mapping[str, int] = {}
    of_no_account: Mapping[str, int] = {}
    unexplained: tuple[Unexplained, ...] = ()
    unexplained_accounts: int = 0
    most: Mapping[str, tuple[str, int]] = {}

    def faults(self) -> Mapping[str, int]:
        """Return the rows by the rules that apply only to faulty rows."""
        return {rule: rows for rule, rows in self.excluded.items() if rule in FAULTS}


class OwnRules(msgspec.Struct, frozen=True):
    """The rules of an own model. `unapproved` are those that the configuration does not list. `fault` is why the rows
    could not be counted, "" without such a reason.
    """

    rules: tuple[str, ...]
    unapproved: tuple[str, ...] = ()
    fault: str = ""


class Accounting(msgspec.Struct, frozen=True):
    """Row accounting of a run. `anomalies` counts rows by code. `status` is that of each resource, and `own_models` has
    the rules of own models. `malformed` names tables, columns and keys of refused rows.
    """

    tables: tuple[TableAccount, ...] = ()
    anomalies: Mapping[str, int] = {}
    status: Mapping[str, Status] = {}
    malformed: tuple[str, ...] = ()
    own_models: Mapping[str, OwnRules] = {}

    def warnings(self) -> Iterator[str]:
        """Yield a sentence for each rule that excludes faulty rows, and for each anomaly."""
        yield from (f"{text}. The rows are in no file." for text in self.malformed)
        for table in self.tables:
            for rule, rows in table.faults().items():
                yield f"{table.resource}: {format_count(rows, 'row')} of {table.table} in no file: {RULES[rule]}."
        for code, rows in self.anomalies.items():
            table_name, description = ANOMALIES[code]
            yield f"{table_name}: {format_count(rows, 'row')}: {description}."
        for resource, own in self.own_models.items():
            if self.status[resource] == "unaccounted":
                reason = own.fault or "each row of the model is not a row of one table."
                yield f"{resource}: the rows that the own model excludes are not counted: {reason}"
            if own.unapproved:
                rules = format_count(len(own.unapproved), "rule")
                yield f"{resource}: {rules} of the own model not approved. `daybreakd rules` lists them."


def accounting_of(report: Mapping[str, object]) -> Accounting | None:
    """Return the section of a run report, None for a run without it."""
    section = report.get("accounting")
    return None if section is None else msgspec.convert(section, Accounting)


def incomplete_resources(report: Mapping[str, object]) -> frozenset[str]:
    """Return the resources that lack rows, because the source has malformed ones."""
    accounting = accounting_of(report)
    tables = () if accounting is None else accounting.tables
    return frozenset(table.resource for table in tables if table.excluded.get("malformed"))
