"""Searches for lost files of kept snapshots and for lost deltas, by key and size.

The run writes those of the published snapshot again. Deltas are not written again: if a version has lost one, all its
deltas are withdrawn, so that consumers who need it load full files instead of waiting for it.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from itertools import chain, islice

import structlog

from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.domain.run_report import RunReport
from daybreak.domain.snapshot import Snapshot, StoredFormat
from daybreak.filestore.file_keys import DELTAS, folder_of
from daybreak.filestore.file_store import FileStore
from daybreak.filestore.packs import last_in_packs
from daybreak.snapshots.retention import with_all_reused_keys, withdraw_deltas
from daybreak.snapshots.verify import delta_files, statement_files
from daybreak.state.manifest_entries import Place
from daybreak.state.stores import State, Stores

_log = structlog.get_logger("daybreak.snapshots")
_FILES_PER_PAGE = 2_000
_Page = Sequence[tuple[str, str, Collection[Place | StoredFormat]]]
"""Resource, client_id and files of some entries."""


def find_lost_files(state: State, store: FileStore, now: datetime, check: Callable[[], None]) -> dict[str, set[str]]:
    """Record the lost files of every kept snapshot, and withdraw lost deltas, also those of older versions. Return the
    Leaders whose files of the published snapshot are lost, by resource. `check` is called often, and raises an error to
    stop.

    Raises FileStoreError, Unavailable.
    """
    is_stored = store.presence()
    searched = state.read(_searched_folders)
    pages = (_pages(state, snapshot, folder, check) for snapshot, folder in searched)
    is_any_lost = not all(_is_complete(page, is_stored) for page in chain.from_iterable(pages))
    lost_leaders: dict[str, set[str]] = {}
    lost_files: dict[str, int] = {}
    for position, (snapshot, _) in enumerate(searched):
        lost = lost_deltas = 0
        for page in _pages(state, snapshot, "", check) if is_any_lost else ():
            for resource, client_id, files in page:
                missing = [file.key for file in files if not is_stored(file.key, file.bytes)]
                if missing and missing[0].startswith(DELTAS):
                    lost_deltas += len(missing)
                    continue
                lost += len(missing)
                if missing and position == 0:
                    lost_leaders.setdefault(resource, set()).add(client_id)
        if lost:
            _log.error("files.lost", snapshot_id=snapshot.snapshot_id, version=snapshot.version, files=lost)
        if lost_deltas:
            _log.error("deltas.lost", snapshot_id=snapshot.snapshot_id, version=snapshot.version, files=lost_deltas)
            withdraw_deltas(state, snapshot.snapshot_id)
        lost_files[snapshot.snapshot_id] = lost

    def record(stores: Stores) -> None:
        for snapshot_id, lost in lost_files.items():
            stores.file_faults.record(snapshot_id, lost, now, by_reading=False)
        stores.file_faults.delete_of_deleted_snapshots()

    state.write(record)
    return lost_leaders


def _searched_folders(stores: Stores) -> list[tuple[Snapshot, str]]:
    """Return the snapshots with stored files, the published one first, and for each the folder whose files are searched
    first, "" for all: files of a deleted snapshot in one that has all of these, others in the snapshot that wrote them.
    After the kept snapshots come those of which only deltas are stored.
    """
    served = stores.snapshots.served()
    whole = with_all_reused_keys(stores, served)
    folders = {each.snapshot_id: f"{folder_of('snapshots', each.snapshot_id)}/" for each in served}
    folders |= dict.fromkeys(whole, "")
    others = [each for each in stores.deltas.published_with_deltas() if each.snapshot_id not in folders]
    return [(each, folders.get(each.snapshot_id, "")) for each in (*served, *others)]


def _is_complete(page: _Page, is_stored: Callable[[str, int], bool]) -> bool:
    sizes = {file.key: file.bytes for _, _, files in page for file in files}
    return all(is_stored(key, sizes[key]) for key in last_in_packs(sizes))


def _pages(state: State, snapshot: Snapshot, folder: str, check: Callable[[], None]) -> Iterator[_Page]:
    """Yield pages of resource, client_id and files of a snapshot: of entries with a file in the folder, and of deltas
    and statements. `check` is called before each.
    """
    snapshot_id = snapshot.snapshot_id

    def page(after: tuple[str, str]) -> list[tuple[str, str, Collection[Place]]]:
        check()
        return state.read(lambda stores: stores.snapshots.places(snapshot_id, after, folder))

    found = page(("", ""))
    while found:
        yield found
        found = page(found[-1][:2])
    deltas = (delta_files(state, snapshot_id, resource) for resource in _resources_with_deltas(snapshot.report))
    files = chain(*deltas, statement_files(state, snapshot_id))
    while some := list(islice(files, _FILES_PER_PAGE)):
        check()
        yield [(file.resource, file.client_id, (file.stored,)) for file in some]


def _resources_with_deltas(report: RunReport) -> list[str]:
    """Return the resources that may have files of deltas."""
    if report.deltas is not None and report.deltas.base is None:
        return []
    deltas = {name: figures.deltas for name, figures in (report.resources or {}).items()}
    return [name for name in RESOURCE_NAMES if (figures := deltas.get(name)) is None or figures.changed]
