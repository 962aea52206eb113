"""Changes of a shared table: rows, from the deltas of an account in Parquet, and files, from its kept snapshots."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from daybreak.access.services import Services
from daybreak.catalogue.formats import delta_format, format_named
from daybreak.catalogue.resources import Resource
from daybreak.catalogue.stored_columns import RecordedColumns, resource_at
from daybreak.domain.delta import Chain, Publication, ResourceDelta
from daybreak.domain.errors import InvalidRequest
from daybreak.domain.identity import Caller, Principal
from daybreak.domain.snapshot import StoredFormat, StoredPart, TableFiles
from daybreak.downloads import NamedFile, not_ready, recorded_request, sign_link
from daybreak.sharing import TABLE_QUERIED, SharedFile, TableName, files_with_rows, share_files, shared_table
from daybreak.state.stores import Stores

Bound = TypeVar("Bound", int, int | datetime)
_FORMAT = "parquet"


@dataclass(frozen=True, slots=True)
class VersionRange(Generic[Bound]):
    """Versions of which a client requests the changes, both ends included: numbers or times of publications.

    Without `last`, up to the current version.
    """

    first: Bound
    last: Bound | None = None


@dataclass(frozen=True, slots=True)
class ChangesResult:
    """The first version of the range, and the files of the versions that changed the table, in order."""

    resource: Resource
    first_version: int
    files: tuple[tuple[Publication, SharedFile], ...]


async def changes(
    services: Services, principal: Principal, name: TableName, wanted: VersionRange[int | datetime], caller: Caller
) -> ChangesResult:
    """Return links to the changes of a table, and record the request in the audit trail.

    A request counts as one link for the rate limit. Raises RateLimited, Forbidden, NotFound (`not_found`,
    `snapshot_not_ready`), InvalidRequest, also with `version_not_kept`.
    """
    async with recorded_request(services, principal, caller, TABLE_QUERIED, {}) as details:
        resource = shared_table(principal, name)
        first, last, chain, columns = await _read(services, principal.account.client_id, wanted)
        # The columns of all versions of a chain are the same.
        resource = resource_at(resource.name, columns)
        named = NamedFile(resource, delta_format(_FORMAT))
        changed = _changed(chain, resource, first, last)
        files = tuple(
            (each, SharedFile(delta.formats[_FORMAT], *sign_link(services, principal, each.snapshot_id, named)))
            for each, delta in changed
        )
        details |= {"table": resource.name, "from_version": first, "version": last, "files": len(files)}
    return ChangesResult(resource, first, files)


@dataclass(frozen=True, slots=True)
class Revision:
    """A version of a table, and its files that the version before does not have and the other way round."""

    resource: Resource
    table: TableFiles
    added: tuple[SharedFile, ...]
    removed: tuple[SharedFile, ...]


@dataclass(frozen=True, slots=True)
class History:
    """The first version of a range with its columns, and the versions of the range that changed the table, in order."""

    resource: Resource
    first_version: int
    revisions: tuple[Revision, ...]


async def history(
    services: Services, principal: Principal, name: TableName, wanted: VersionRange[int], caller: Caller
) -> History:
    """Return links to the files that the versions of a range added and removed, and record it in the audit trail.

    A request counts as one link for the rate limit. Raises the same errors as `changes`.
    """
    async with recorded_request(services, principal, caller, TABLE_QUERIED, {}) as details:
        resource = shared_table(principal, name)
        first, last, tables = await _kept_tables(services, principal.account.client_id, resource.name, wanted)
        before, *found = tables
        named = NamedFile(resource, format_named(_FORMAT))

        def shared(files: Sequence[StoredFormat | StoredPart], table: TableFiles | None) -> tuple[SharedFile, ...]:
            return () if table is None else share_files(services, principal, named, table, files)

        revisions = []
        # A version without the table, as of an account that was away, leaves the client with the files before it.
        for table in (each for each in found if each is not None):
            added, removed = _difference(table, before), _difference(before, table)
            if added or removed:
                at = resource_at(resource.name, table.columns)
                revisions.append(Revision(at, table, shared(added, table), shared(removed, before)))
            before = table
        files = sum(len(each.added) + len(each.removed) for each in revisions)
        details |= {"table": resource.name, "from_version": first, "version": last, "files": files}
        columns = next((table.columns for table in found if table is not None), None)
    return History(resource_at(resource.name, columns), first, tuple(revisions))


async def _kept_tables(
    services: Services, client_id: str, table: str, wanted: VersionRange[int]
) -> tuple[int, int, list[TableFiles | None]]:
    """Return the first and the last version of a range, and the files of all its versions and of the one before.

    Versions begin at 1. Raises InvalidRequest, NotFound.
    """

    def read(stores: Stores) -> tuple[set[int], dict[int, TableFiles]]:
        kept = {snapshot.version for snapshot in stores.snapshots.served() if snapshot.version is not None}
        return kept, {each.version: each for each in stores.snapshots.tables(client_id, table)}

    kept, tables = await services.state.aread(read)
    current = max(kept, default=0)
    if not kept or (current >= wanted.first - 1 and current not in tables):
        raise await not_ready(services, client_id)
    first, last = _range(max(wanted.first, 1), wanted.last, current)
    oldest = current
    while oldest - 1 in kept:
        oldest -= 1
    if oldest > max(first - 1, 1):
        # The files that a version removed are those of the version before.
        raise InvalidRequest(
            f"The files from version {first} are not kept. The oldest version to start from is {oldest + 1}, the "
            f"current one is {current}. Query the table at version {oldest}, and continue after it.",
            code="version_not_kept",
        )
    return first, last, [tables.get(number) for number in range(first - 1, last + 1)]


def _difference(left: TableFiles | None, right: TableFiles | None) -> list[StoredFormat | StoredPart]:
    """Return the files with rows of the left side that the right side does not have."""
    others = set() if right is None else {file.sha256 for file in right.stored.files}
    return [] if left is None else [file for file in files_with_rows(left) if file.sha256 not in others]


async def _read(
    services: Services, client_id: str, wanted: VersionRange[int | datetime]
) -> tuple[int, int, Chain, RecordedColumns | None]:
    """Return the first and the last version of the range, and the account's chain with its columns.

    Raises InvalidRequest, NotFound.
    """

    def read(stores: Stores) -> tuple[int | None, int | None, Chain | None, RecordedColumns | None]:
        deltas = stores.deltas
        first = deltas.version_after(wanted.first) if isinstance(wanted.first, datetime) else wanted.first
        last = deltas.version_before(wanted.last) if isinstance(wanted.last, datetime) else wanted.last
        chain = deltas.chain(client_id)
        columns = None if chain is None else stores.snapshots.columns(chain.current.snapshot_id)
        return first, last, chain, columns

    first, last, chain, columns = await services.state.aread(read)
    if chain is None:
        raise await not_ready(services, client_id)
    if last is None and wanted.last is not None:
        raise InvalidRequest("endingTimestamp is before the first version.")
    first, last = _range(first, last, chain.current.version)
    return first, last, chain, columns


def _range(first: int | None, last: int | None, current: int) -> tuple[int, int]:
    """Return the first and the last version of a range that ends with the current version at most.

    Raises InvalidRequest.
    """
    if first is None or first > current:
        raise InvalidRequest(f"The changes begin after the current version, which is {current}.")
    last = current if last is None else min(last, current)
    if last < first:
        raise InvalidRequest(f"The changes end at version {last}, before they begin at version {first}.")
    return first, last


def _changed(chain: Chain, resource: Resource, first: int, last: int) -> list[tuple[Publication, ResourceDelta]]:
    """Return the publications of the range that changed rows of a resource, oldest first.

    Raises InvalidRequest (`version_not_kept`) if changes of the range are missing. The message names the oldest version
    from which there are changes up to the last one.
    """
    found: list[tuple[Publication, ResourceDelta]] = []
    oldest = last + 1
    for entry in reversed(chain.entries):
        publication, delta = entry.publication, entry.resources.get(resource.name)
        if publication.version > last:
            continue
        if publication.version < first or not _is_complete(delta):
            break
        oldest = publication.version
        if delta is not None and delta.lines:
            found.append((publication, delta))
    if oldest == first:
        return found[::-1]
    current = chain.current.version
    if oldest > last:
        raise InvalidRequest(
            f"The changes of version {last} are not kept. They may be larger than half of the table. Query the table "
            f"at this version. The current version is {current}.",
            code="version_not_kept",
        )
    raise InvalidRequest(
        f"The changes from version {first} are not kept. The oldest version with changes is {oldest}, the current one "
        f"is {current}.",
        code="version_not_kept",
    )


def _is_complete(delta: ResourceDelta | None) -> bool:
    """Return whether the changes of a version can be read. Without changed rows, there is no file."""
    return delta is None or _FORMAT in delta.formats or (delta.state == "changed" and not delta.lines)
