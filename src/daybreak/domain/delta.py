"""Deltas: what changed in one resource of one Leader between two consecutive publications."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

import msgspec

from daybreak.domain.snapshot import StoredFormat

OPERATION = "_OP"
"""First column of a delta: `D` or `I`."""
CHANGE_TYPE = "_change_type"
"""Last column of a delta in Parquet: `delete` or `insert`, as in the Delta Sharing protocol."""
FIRST_PUBLICATION = "first_publication"
STATE_RESTORED = "state_restored"
COLUMNS_CHANGED = "columns_changed"
DELTAS_DISABLED = "deltas_disabled"
OTHER_PUBLICATION = "other_publication"
MEMBER_ERASED = "member_erased"
ACCOUNT_ADDED = "account_added"
VERSION_TOO_OLD = "version_too_old"
VERSION_UNKNOWN = "version_unknown"
"""Reasons why a consumer's version is not in the chain."""
CHAIN_REASONS = {
    FIRST_PUBLICATION: "it is older than the first publication with deltas",
    STATE_RESTORED: "the operator restored the service from a backup",
    COLUMNS_CHANGED: "columns of the files changed",
    DELTAS_DISABLED: "the operator disabled deltas",
    MEMBER_ERASED: "a Member was erased from the files",
    ACCOUNT_ADDED: "the platform's data had no such account in between",
    OTHER_PUBLICATION: "a publication between did not continue it",
    VERSION_TOO_OLD: "its deltas are no longer kept",
    VERSION_UNKNOWN: "the service has not published it",
}
"""What consumers read about these reasons."""

LARGER_THAN_FULL = "larger_than_full"
"""Reason of a resource without a delta file: the delta would be larger than half of the full file."""
NOT_MADE = "not_made"
"""Reason of a resource without a delta file: the source made none."""


class NewCampaign(msgspec.Struct, frozen=True, gc=False):
    """A campaign that is in a file for the first time, without test campaigns."""

    name: str
    recipients: int
    replied: int


class ResourceDelta(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Change of one resource of one Leader.

    `deleted` counts the rows before that have a changed key, `inserted` the rows after, and `lines` the rows of a delta
    file. The digests are those of the decompressed full CSV files. `constants` are the values after of columns that
    deltas do not compare. `formats` are the delta files, by csv, json and, for Delta Sharing, parquet. Without files,
    consumers need the full file, for `reason`. If only constants changed, the files have no rows, and Leaders share
    them. `added` and `removed` Members, `opt_outs` and `campaign`, the new one with most recipients, are for the brief
    of the publication. Long deltas do not have them.
    """

    rows_before: int
    rows_after: int
    inserted: int = 0
    deleted: int = 0
    lines: int = 0
    content_sha256_before: str = ""
    content_sha256_after: str = ""
    constants: Mapping[str, str | None] = {}
    formats: Mapping[str, StoredFormat] = {}
    reason: str = ""
    added: int = 0
    removed: int = 0
    opt_outs: int = 0
    campaign: NewCampaign | None = None

    @property
    def has_rows(self) -> bool:
        """Whether rows changed."""
        return bool(self.inserted or self.deleted)

    @property
    def state(self) -> Literal["changed", "full_required"]:
        """Whether consumers can apply the delta or need the full file."""
        return "changed" if self.formats else "full_required"


class LeaderDelta(msgspec.Struct, frozen=True, gc=False):
    """Change of one resource of one Leader, with its Leader and resource."""

    client_id: str
    resource: str
    delta: ResourceDelta


@dataclass(frozen=True, slots=True)
class Publication:
    """A published snapshot, without its report."""

    snapshot_id: str
    version: int
    as_of: datetime
    published_at: datetime


@dataclass(frozen=True, slots=True)
class ChainEntry:
    """One publication of a chain, and the resources of an account that changed with it, by name."""

    publication: Publication
    resources: Mapping[str, ResourceDelta]


@dataclass(frozen=True, slots=True)
class Chain:
    """Unbroken sequence of publications, as one account sees it.

    Consumers that have a version from `oldest_version` to that of `current` can apply the `entries` after it, which are
    in order. `started_by` is the reason why consumers with an older version need the full files.
    """

    chain_id: str
    current: Publication
    oldest_version: int
    entries: tuple[ChainEntry, ...]
    started_by: str

    def after(self, version: int) -> "Chain":
        """Return the chain without the entries up to a version."""
        return replace(self, entries=tuple(each for each in self.entries if each.publication.version > version))
