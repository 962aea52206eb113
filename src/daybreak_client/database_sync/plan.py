"""What a sync must do for each resource: nothing, apply deltas, or load the full file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from daybreak_client.published import Feed, FeedEntry, PublishedFile, PublishedSnapshot, ResourceDelta
from daybreak_client.tables import Column, Table
from daybreak_client.wire import RESOURCES

UNCHANGED, DELTA, FULL = "unchanged", "delta", "full"


@dataclass(frozen=True, slots=True)
class ResourceState:
    """What the database contains of one resource of one account.

    `replaced_characters` is 0 if the database stores every character, else the number of characters U+FFFD, which
    replace NUL. `columns` are those of the stored version; `former` are the names of other columns that the sync
    has added to the table.
    """

    resource: str
    rows: int
    content_sha256: str
    replaced_characters: int = 0
    columns: tuple[Column, ...] = ()
    former: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class AccountState:
    """What the database contains of one account. `etag` is that of a feed without news for this version."""

    version: int
    chain_id: str
    snapshot_id: str
    as_of: datetime
    etag: str
    resources: Mapping[str, ResourceState]

    @property
    def complete(self) -> bool:
        """Whether no table has been dropped, and no row of the state deleted."""
        return self.resources.keys() >= set(RESOURCES)


@dataclass(frozen=True, slots=True)
class Step:
    """Work on one resource, which ends with `rows` rows and the digest of the full file.

    `reason` is why a full load is necessary.
    """

    resource: str
    action: str
    full: PublishedFile
    deltas: tuple[ResourceDelta, ...] = ()
    reason: str = ""

    @property
    def files(self) -> tuple[PublishedFile, ...]:
        """Files to download."""
        if self.action == FULL:
            return (self.full,)
        return tuple(delta.file for delta in self.deltas if delta.file is not None)


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps from the `state` of a database to a published snapshot.

    Without `published`, there is no news. A feed with an entity tag is then newer than that of the state.
    """

    state: AccountState | None
    published: PublishedSnapshot | None = None
    feed: Feed = field(default_factory=Feed)
    steps: tuple[Step, ...] = ()
    tables: tuple[Table, ...] = ()


def make_steps(
    published: PublishedSnapshot, feed: Feed, state: AccountState | None, *, reload: Mapping[str, str]
) -> tuple[Step, ...]:
    """Return one step per resource. `reload` contains resources that need a full load, with the reason.

    Raises WrongUse if a resource is not listed: its table would keep the rows of another version.
    """
    entries = [entry for entry in feed.entries if state is not None and entry.version > state.version]
    chain_problem = _chain_problem(feed, entries, state)
    steps = []
    for full in published.select(RESOURCES, ("csv",)):
        stored = state.resources.get(full.resource) if state else None
        reason = reload.get(full.resource) or chain_problem
        if stored is None:
            steps.append(Step(full.resource, FULL, full, reason="not in the database"))
        elif reason:
            steps.append(Step(full.resource, FULL, full, reason=reason))
        else:
            steps.append(_step(full, stored, [entry.resources.get(full.resource) for entry in entries]))
    return tuple(steps)


def _chain_problem(feed: Feed, entries: Sequence[FeedEntry], state: AccountState | None) -> str:
    """Return why no delta of the feed applies to the database, empty if they apply."""
    if state is None:
        return "not in the database"
    if feed.chain_id != state.chain_id:
        return "a new chain of deltas has begun"
    if feed.version == state.version and state.snapshot_id not in {"", feed.snapshot_id}:
        return "the service was restored: another snapshot has this version"
    versions = [state.version, *(entry.version for entry in entries)]
    if [entry.from_version for entry in entries] != versions[:-1] or versions[-1] != feed.version:
        return "the deltas do not continue from the stored version"
    return ""


def _step(full: PublishedFile, stored: ResourceState, changes: Sequence[ResourceDelta | None]) -> Step:
    """Return the step that applies these changes, if each begins with the content that the previous one leads to."""
    deltas: list[ResourceDelta] = []
    digest = stored.content_sha256
    for change in changes:
        if change is None or change.state == "unchanged":
            continue
        if change.state != "changed":
            return Step(full.resource, FULL, full, reason=change.reason.replace("_", " ") or "no delta is available")
        if change.content_sha256_before != digest:
            return Step(full.resource, FULL, full, reason="a delta begins with other content")
        digest = change.content_sha256_after
        deltas.append(change)
    if digest != full.content_sha256 or (deltas and deltas[-1].rows_after != full.rows):
        return Step(full.resource, FULL, full, reason="the deltas do not lead to the published file")
    return Step(full.resource, DELTA if deltas else UNCHANGED, full, tuple(deltas))
