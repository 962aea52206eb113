"""Since when the bytes of a file are published, through all that can happen between two publications."""

from pathlib import Path

import pytest

from daybreak.domain.errors import SourceError
from daybreak.domain.run_report import ReferentialFault
from daybreak.domain.snapshot import ManifestEntry, Snapshot, SnapshotState
from daybreak.snapshots.publish import accept, discard
from daybreak.snapshots.run import run_manually
from daybreak.snapshots.run_context import RunContext
from daybreak.state.stores import Stores
from tests.small_platform import leader_ids, platform_of, source_of, write_platform

CHANGED, SAME, WITHOUT_ROWS = leader_ids(3)
FAULT = ReferentialFault("members.MEMBER_ID", 3, CHANGED)


def entries(context: RunContext, client_id: str) -> dict[str, ManifestEntry]:
    def read(stores: Stores) -> list[ManifestEntry]:
        current = stores.snapshots.current()
        return [] if current is None else stores.snapshots.manifest(current.snapshot_id, client_id)

    return {entry.resource: entry for entry in context.state.read(read)}


def versions(context: RunContext, client_id: str, resource: str = "members") -> set[int]:
    """Return the versions since which the formats of a file are published, and check their times."""
    publications = context.state.read(lambda stores: stores.snapshots.served())
    times = {each.version: each.published_at for each in publications}
    current = publications[0]
    assert current.version is not None
    assert current.published_at is not None
    found = set()
    for stored in entries(context, client_id)[resource].formats.values():
        since = stored.since_in(current.version, current.published_at)
        assert since.published_at == times[since.version]
        found.add(since.version)
    return found


def change(folder: Path, mark: str) -> None:
    platform = platform_of()
    platform[CHANGED]["members"] = [f"{mark} {number}" for number in range(4)]
    write_platform(folder / "platform.json", platform)


@pytest.mark.parametrize("full", [False, True], ids=["reused", "rebuilt"])
def test_same_bytes_keep_their_publication(run_context: RunContext, folder: Path, *, full: bool) -> None:
    run_manually(run_context)
    change(folder, "b")
    run_manually(run_context, full=full)
    assert (versions(run_context, CHANGED), versions(run_context, SAME)) == ({2}, {1})
    run_manually(run_context, full=full)
    assert (versions(run_context, CHANGED), versions(run_context, SAME)) == ({2}, {1})
    change(folder, "a")
    run_manually(run_context, full=full)
    assert versions(run_context, CHANGED) == {4}


def test_header_only_files_belong_to_each_publication(run_context: RunContext, folder: Path) -> None:
    """The bytes are old, but a Leader may have had rows in between."""
    run_manually(run_context)
    platform = platform_of()
    platform[SAME]["members"] = []
    write_platform(folder / "platform.json", platform)
    run_manually(run_context)
    assert versions(run_context, SAME) == versions(run_context, WITHOUT_ROWS) == {2}
    write_platform(folder / "platform.json", platform_of())
    run_manually(run_context)
    assert versions(run_context, SAME) == {3}, "the bytes of version 1 are published again"


def test_runs_that_are_not_published_leave_no_trace(run_context: RunContext, folder: Path) -> None:
    run_manually(run_context)
    change(folder, "b")
    source_of(run_context).on_confirm = [fail]
    with pytest.raises(SourceError):
        run_manually(run_context)
    source_of(run_context).on_confirm = []
    held = run_held(run_context)
    discard(run_context.state, held.snapshot_id, "wrong", run_context.clock())
    run_manually(run_context)
    assert (versions(run_context, CHANGED), versions(run_context, SAME)) == ({2}, {1})


def test_publication_in_between_begins_anew(run_context: RunContext, folder: Path) -> None:
    """A held snapshot has reused files of version 1. Version 2 may have had others."""
    run_manually(run_context)
    waiting = run_held(run_context)
    source_of(run_context).on_resource = [lambda resource: accept_during(run_context, waiting, resource)]
    run_manually(run_context)
    assert versions(run_context, CHANGED) == {3}
    source_of(run_context).on_resource = []
    run_manually(run_context)
    assert versions(run_context, CHANGED) == {3}


def run_held(context: RunContext) -> Snapshot:
    source_of(context).faults = [FAULT]
    held = run_manually(context)
    source_of(context).faults = []
    assert held.state is SnapshotState.HELD
    return held


def accept_during(context: RunContext, waiting: Snapshot, resource: str) -> None:
    if resource == "members":
        accept(context.state, context.store, context.settings, waiting.snapshot_id, "checked", context.clock())


def fail() -> None:
    raise SourceError("The table members has no column email.")
