"""SIGKILL at any point of an erasure: files stay undamaged, and the command completes it when it is run again."""

import shutil
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from daybreak.filestore.file_keys import slice_of
from daybreak.snapshots.erase import erase_member
from daybreak.snapshots.run import run_manually
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.verify import verify_snapshot
from daybreak.state.stores import Stores
from tests.configured import configured
from tests.faults.conftest import ForkServer, check_kills
from tests.parts.erasure import AS_OF, Person, make_person, traces_in
from tests.parts.sources import duckdb_source
from tests.parts.variants import one_of
from tests.small_platform import context_in, open_context

SETTINGS = configured(snapshot={"formats": ("csv",), "keep": 2})
# The erasure writes and moves files, erases bytes of a pack, and commits.
EXPECTED_CALLS = Counter(write=6, rename=6, fsync=6, fallocate=6, pwrite64=10, fdatasync=4)


def publish(folder: Path) -> Person:
    """Publish a snapshot of a platform with the Member, as CSV files."""
    person = make_person(folder / "platform", leaders=2, members=30)
    source = duckdb_source(folder / "platform", folder / "spill", threads=1)
    context = replace(context_in(folder, settings=SETTINGS), source=source)
    run_manually(context, as_of=AS_OF)
    context.state.close()
    shutil.rmtree(folder / "platform")
    return person


def check_files(context: RunContext) -> None:
    for snapshot in context.state.read(lambda stores: stores.snapshots.served()):
        verified = verify_snapshot(context.state, context.store, snapshot.snapshot_id)
        assert (verified.damaged, verified.files) == ((), snapshot.report.files)


def keys_in_manifests(stores: Stores) -> set[str]:
    return {
        slice_of(stored.key).key
        for snapshot in stores.snapshots.served()
        for entry in stores.snapshots.entries(snapshot.snapshot_id)
        for stored in entry.formats.values()
    }


def check_recovery(folder: Path, person: Person) -> None:
    """Check that all files are undamaged after a kill, and that a second erasure of the Member completes the first."""
    with open_context(folder, settings=SETTINGS) as context:
        check_files(context)
        begun = context.state.read(lambda stores: stores.erasures.list_all())
        erasure = erase_member(context, person.member_id, "test", lambda _: None)
        assert [each.erasure_id for each in begun if each.finished_at is None] in ([], [erasure.erasure_id])
        assert erasure.finished_at is not None
        check_files(context)
        in_manifests = context.state.read(keys_in_manifests)
        files = folder / "files"
        folders = [files / name for name in ("snapshots", "staging", "deltas")]
        stored = {str(path.relative_to(files)) for each in folders for path in each.rglob("*") if path.is_file()}
        assert stored == in_manifests
    assert traces_in(folder) == []


@pytest.mark.parametrize("kills_per_call", one_of(1, 8))
def test_kill_before_any_system_call_is_recovered(
    kills_per_call: int, folder: Path, killing_server: tuple[ForkServer, Path]
) -> None:
    person = publish(folder)
    formats = list(SETTINGS.snapshot.formats)
    check_kills(
        killing_server,
        partial(killing_server[0].start, "erase", member=person.member_id, formats=formats),
        folder,
        partial(check_recovery, person=person),
        expected_calls=EXPECTED_CALLS,
        kills_per_call=kills_per_call,
    )
