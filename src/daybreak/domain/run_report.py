"""Report and progress of a run, stored as JSON. A field is missing in the JSON until the run has its value."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

Status = Literal["proved", "declared", "derived", "unexplained", "unaccounted"]
"""Row accounting of a resource: of a shipped model, declared or derived for an own one, with a difference, or none."""


class Unexplained(msgspec.Struct, frozen=True):
    """An account of which the files differ from the source. `figure` is `rows`, `keys` (other rows than expected), or a
    column. `expected` and `written` are its values. `example` is a sentence about one key, "" if there is none.
    """

    client_id: str
    figure: str
    expected: int
    written: int
    example: str = ""


class TableAccount(msgspec.Struct, frozen=True):
    """All rows of a source table, for one resource: `source` = `exported` + those `excluded` by rule.

    `of_no_account` are the excluded rows that belong to no known Leader. `unexplained` are examples of the
    `unexplained_accounts` accounts that differ. `most` has the account with the most rows by rule, if it is for faulty
    rows or of an own model. `examples` has the key of a row by rule of a finding.
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
    examples: Mapping[str, str] = {}


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


class NewestRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """Newest row of a table. `usual_seconds` is the largest age in earlier runs, if this one is unusually old."""

    at: datetime
    usual_seconds: float | None = None


class ReferentialFault(msgspec.Struct, frozen=True, omit_defaults=True):
    """A relation between resources that `rows` rows violate. `check` describes it, `example` is one value. `code` is
    that of `daybreak.export.referential`, "" in reports of earlier versions.
    """

    check: str
    rows: int
    example: str
    code: str = ""


FindingKind = Literal["rows", "leader_rows", "nulls", "references", "clock", "unexplained", "rule"]


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One suspicious difference. `before` and `now` are rows, or a share of NULLs for `nulls`, or the figures of the
    source and of the files for `unexplained`.
    """

    kind: FindingKind
    resource: str
    detail: str
    client_id: str | None = None
    column: str | None = None
    before: int | float | None = None
    now: int | float | None = None


class DeltaFigures(msgspec.Struct, frozen=True):
    """Deltas of one resource: Leaders that changed, those of which no delta was made, rows, and bytes of the files.
    `reasons` counts the Leaders of which no delta was made.
    """

    changed: int = 0
    full_required: int = 0
    inserted: int = 0
    deleted: int = 0
    bytes: int = 0
    reasons: Mapping[str, int] = {}


class RunDeltaFigures(msgspec.Struct, frozen=True, omit_defaults=True):
    """Deltas of a run. `base` is the snapshot that they begin from, None if the run made none, for `reason`."""

    base: str | None = msgspec.field(name="from")
    reason: str | None = None
    changed: int | None = None
    full_required: int | None = None
    inserted: int | None = None
    deleted: int | None = None
    bytes: int | None = None


class ResourceFigures(msgspec.Struct, frozen=True):
    """Figures of one resource, as in `export.job.ResourceReport`. `carried` are the Leaders whose files are reused.
    `deltas` is None if the run made none.
    """

    rows: int = 0
    leaders: int = 0
    carried: int = 0
    bytes: int = 0
    seconds: float = 0
    nulls: Mapping[str, int] = {}
    unknown_leader_rows: int = 0
    unexpected_values: Mapping[str, int] = {}
    deltas: DeltaFigures | None = None


class RunReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """Report of a run. A run that has not ended has none of the values, and one that failed has only some.

    `columns` is a digest of the columns of all resources. `phases` has the second at which each phase began.
    `relations` are the codes of the checked relations, and `references` those that rows violate. `findings` are the
    first of `findings_in_all`. `code` is that of the error that ended the run.
    """

    engine: str = ""
    formats: tuple[str, ...] = ()
    carried_from: str | UnsetType | None = UNSET
    rows: int | None = None
    bytes: int | None = None
    bytes_written: int | None = None
    scratch_bytes: int | None = None
    files: int | None = None
    files_carried: int | None = None
    seconds: float | None = None
    columns: str | None = None
    deltas: RunDeltaFigures | None = None
    phases: Mapping[str, float] | None = None
    resources: Mapping[str, ResourceFigures] | None = None
    source_lag_seconds: float | UnsetType | None = UNSET
    leaders: int | None = None
    accounting: Accounting | None = None
    newest_rows: Mapping[str, NewestRow] | None = None
    relations: tuple[str, ...] = ()
    references: tuple[ReferentialFault, ...] | None = None
    findings: tuple[Finding, ...] | None = None
    findings_in_all: int | None = None
    code: str | None = None

    @property
    def by_resource(self) -> Mapping[str, ResourceFigures]:
        """The figures of the resources that the run exported, in the order of the export."""
        return self.resources or {}

    @property
    def last_phase(self) -> str:
        """The phase that began last, which of an export is the resource. "" if no phase began."""
        phases = self.phases or {}
        return max(phases, key=lambda name: phases[name], default="")

    @property
    def incomplete_resources(self) -> frozenset[str]:
        """The resources that lack rows, because the source has malformed ones."""
        tables = () if self.accounting is None else self.accounting.tables
        return frozenset(table.resource for table in tables if table.excluded.get("malformed"))


class RunProgress(msgspec.Struct, frozen=True):
    """Progress of a run. Counts are of the whole run; `inserted` and `deleted` are rows of its deltas.

    `share` is the completed share of the run, from 0 to 1. It is missing without an earlier run to compare with, and
    the expected end also while too little is done.
    """

    phase: str = ""
    resource: str | None = None
    resource_number: int = 0
    resources: int = 0
    rows: int = 0
    bytes: int = 0
    files: int = 0
    carried: int = 0
    inserted: int = 0
    deleted: int = 0
    seconds: float = 0
    rows_per_second: int = 0
    share: float | UnsetType = UNSET
    seconds_left: int | UnsetType = UNSET
    expected_end: datetime | UnsetType = UNSET
