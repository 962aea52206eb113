"""Published files of an account, read from the state database."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from daybreak.account_statements import stored_statement
from daybreak.catalogue.resources import RESOURCE_NAMES, RESOURCES, Resource
from daybreak.catalogue.stored_columns import resource_at
from daybreak.domain.delta import Chain, ResourceDelta
from daybreak.domain.errors import FileStoreError, NotFound
from daybreak.domain.snapshot import Freshness, ManifestEntry, Snapshot
from daybreak.snapshots.brief import publication_brief
from daybreak.snapshots.freshness import freshness
from daybreak.state.stores import Stores
from daybreak.web.dashboard.page_request import PageRequest


@dataclass(frozen=True, slots=True)
class PublishedFiles:
    """Freshness, the stored snapshots (newest first), and the account's manifest entries.

    `entries` maps a snapshot id and a resource name to the entry. `chain` has the changes, None if there are none.
    """

    freshness: Freshness
    snapshots: tuple[Snapshot, ...]
    entries: dict[str, dict[str, ManifestEntry]]
    chain: Chain | None

    def find_snapshot(self, snapshot_id: str) -> Snapshot | None:
        """Return the snapshot of that id; for "" the published one, if any. Raises NotFound."""
        if not snapshot_id:
            return self.freshness.snapshot
        for snapshot in self.snapshots:
            if snapshot.snapshot_id == snapshot_id:
                return snapshot
        raise NotFound("This snapshot has been deleted. Choose a newer one.", code="file_gone")

    def is_published(self, snapshot: Snapshot) -> bool:
        """Return whether this is the published snapshot, not an earlier one."""
        published = self.freshness.snapshot
        return published is not None and published.snapshot_id == snapshot.snapshot_id

    def entries_of(self, snapshot: Snapshot | None) -> dict[str, ManifestEntry]:
        """Return the account's entries in a snapshot by resource name."""
        return self.entries.get(snapshot.snapshot_id, {}) if snapshot is not None else {}

    def delta_of(self, snapshot: Snapshot, resource_name: str) -> ResourceDelta | None:
        """Return the change of a resource since the snapshot before, None if no row changed or it is not known."""
        entries = () if self.chain is None else self.chain.entries
        found = next((each for each in entries if each.publication.snapshot_id == snapshot.snapshot_id), None)
        return None if found is None else found.resources.get(resource_name)

    def brief(self, snapshot: Snapshot | None) -> tuple[str, ...]:
        """Return what changed with a snapshot, in sentences."""
        found = self.entries_of(snapshot)
        return publication_brief(self.chain, snapshot.snapshot_id, len(found)) if snapshot is not None else ()

    def previous(self, snapshot: Snapshot) -> Snapshot | None:
        """Return the snapshot before this one."""
        pairs = pairwise(self.snapshots)
        return next((older for newer, older in pairs if newer.snapshot_id == snapshot.snapshot_id), None)

    def row_history(self, resource_name: str) -> list[int]:
        """Return the resource's row counts in the stored snapshots, oldest first."""
        return [
            entries[resource_name].rows
            for snapshot in reversed(self.snapshots)
            if resource_name in (entries := self.entries_of(snapshot))
        ]


async def load_published_files(page: PageRequest) -> PublishedFiles:
    """Read the account's published files in one transaction."""

    def read(stores: Stores) -> PublishedFiles:
        fresh = freshness(stores.snapshots, page.now, page.dashboard.publish_at)
        snapshots = tuple(stores.snapshots.served())
        ids = [snapshot.snapshot_id for snapshot in snapshots]
        entries = stores.snapshots.manifests(ids, page.client_id, [resource.name for resource in RESOURCES])
        return PublishedFiles(fresh, snapshots, entries, stores.deltas.chain(page.client_id))

    return await page.read(read)


@dataclass(frozen=True, slots=True)
class RequestedEntry:
    """The resource in the path, with the columns of the snapshot that the query names, and its manifest entry there."""

    published: PublishedFiles
    resource: Resource
    snapshot: Snapshot
    entry: ManifestEntry


async def load_requested_entry(page: PageRequest) -> RequestedEntry:
    """Read the manifest entry that a request names. Raises Forbidden or NotFound."""
    name = page.request.path_params["resource"]
    if name not in RESOURCE_NAMES:
        raise unknown_file()
    published, snapshot = await load_requested_snapshot(page)
    columns = await page.read(lambda stores: stores.snapshots.columns(snapshot.snapshot_id))
    resource = resource_at(name, columns)
    entry = published.entries_of(snapshot).get(resource.name)
    if entry is None:
        raise no_files()
    return RequestedEntry(published, resource, snapshot, entry)


async def load_requested_delta(page: PageRequest) -> tuple[RequestedEntry, ResourceDelta]:
    """Read the entry that a request names, and its change since the snapshot before. Raises Forbidden or NotFound."""
    found = await load_requested_entry(page)
    delta = found.published.delta_of(found.snapshot, found.resource.name)
    if delta is None or not delta.formats:
        raise NotFound("The changed rows of this file are not available.", code="no_delta")
    return found, delta


async def load_requested_snapshot(page: PageRequest) -> tuple[PublishedFiles, Snapshot]:
    """Read the account's files and the snapshot that the query names. Raises NotFound."""
    published = await load_published_files(page)
    snapshot = published.find_snapshot(page.request.query_params.get("snapshot", ""))
    if snapshot is None or not published.entries_of(snapshot):
        raise no_files()
    return published, snapshot


async def load_predicate(page: PageRequest, snapshot: Snapshot) -> Mapping[str, Any] | None:
    """Return the predicate of the account's signed statement, None if no statement was signed or it is lost.

    Raises Unavailable.
    """
    try:
        found = await stored_statement(page.services, page.client_id, snapshot.version)
    except FileStoreError:
        return None
    if found is None:
        return None
    predicate = json.loads(found.content)["predicate"]
    return {**predicate, **{name: datetime.fromisoformat(predicate[name]) for name in ("signed_at", "expires_at")}}


def no_files() -> NotFound:
    """Return the error for an account that has no files in a snapshot."""
    return NotFound("This account has no files yet.", code="snapshot_not_ready")


def unknown_file() -> NotFound:
    """Return the error for a resource or format that does not exist."""
    return NotFound("No such file.", code="unknown_file")
