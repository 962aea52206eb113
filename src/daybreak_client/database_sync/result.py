"""Result of a sync."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

EQUAL, DIFFERENT = "equal", "different"


@dataclass(frozen=True, slots=True)
class ResourceResult:
    """Result for one resource.

    `action` is `unchanged`, `delta` or `full`, then for `reason`. `rows` are in the table afterwards, `size_bytes` were
    downloaded. `replaced_characters` counts the characters U+FFFD in the table if some of them replace NUL, which
    PostgreSQL cannot store. `verified` is the result of the comparison with the published file: `equal` or `different`,
    empty if it was not requested.
    """

    resource: str
    action: str
    reason: str = ""
    rows: int = 0
    inserted: int = 0
    deleted: int = 0
    size_bytes: int = 0
    replaced_characters: int = 0
    verified: str = ""


@dataclass(frozen=True, slots=True)
class SyncResult:
    """Result of a sync of one account. `previous_version` is None for the first one.

    `notes` are messages for the user. After a dry run, nothing has changed.
    """

    client_id: str
    previous_version: int | None
    version: int
    snapshot_id: str
    as_of: datetime
    resources: tuple[ResourceResult, ...]
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    @property
    def changed(self) -> bool:
        """Whether the version of the tables changed, or rows were loaded again."""
        return self.version != self.previous_version or any(each.action == "full" for each in self.resources)

    @property
    def different(self) -> tuple[str, ...]:
        """Resources whose tables differ from the published files."""
        return tuple(each.resource for each in self.resources if each.verified == DIFFERENT)
