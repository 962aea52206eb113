"""Deltas of simulated days: each day and random pairs of days, compared with plain dictionaries.

`DELTA_DAYS=365` sets the number of days (6), and `DELTA_PAIRS=10000` that of pairs (100).
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from daybreak.domain.run_report import RunDeltaFigures
from daybreak.snapshots.retention import withdraw_deltas
from daybreak.snapshots.verify_deltas import verify_deltas
from tests.parts.daily_runs import DailyRuns
from tests.parts.stored_files import overwrite_stored, read_stored
from tests.reference.days import ChangingPlatform
from tests.small_platform import create_state

DAYS = int(os.environ.get("DELTA_DAYS", "6"))
PAIRS = int(os.environ.get("DELTA_PAIRS", "100"))


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DailyRuns]:
    """Return the runs of all days."""
    with runs_of(DAYS, tmp_path_factory.mktemp("days")) as found:
        yield found


@contextmanager
def runs_of(count: int, folder: Path) -> Iterator[DailyRuns]:
    create_state(folder)
    with closing(DailyRuns(folder, ChangingPlatform(3, members=240))) as found:
        for day in range(count):
            if day:
                found.platform.next_day()
            found.run()
        yield found


@pytest.mark.release
def test_deltas_of_each_day_are_those_of_the_reference(days: DailyRuns) -> None:
    for version in range(2, DAYS + 1):
        days.check_day(version)
    assert days.states["changed"] > 3 * DAYS
    assert set(days.states) <= {"changed", "larger_than_full"}


def test_chain_is_proven_again_until_a_delta_is_damaged(tmp_path: Path) -> None:
    with runs_of(4, tmp_path) as runs:
        state, store = runs.context.state, runs.context.store
        proven = verify_deltas(state, store)
        assert proven.faults == ()
        assert (proven.versions, proven.deltas) == (3, len(runs.deltas))
        assert proven.compared == len(runs.contents)
        key, delta = next((key, delta) for key, delta in runs.deltas.items() if delta.lines)
        files, stored = runs.folder / "files", delta.formats["csv"].key
        content = read_stored(files, stored)
        overwrite_stored(files, stored, content[:-8] + bytes(8))
        (fault,) = verify_deltas(state, store).faults
        version, client_id, resource = key
        assert fault.startswith(f"version {version}, {resource} of {client_id}: ")
        # The chain begins after a version whose deltas were withdrawn.
        _, third, _ = (each.snapshot_id for each in state.read(lambda stores: stores.deltas.published_with_deltas()))
        withdraw_deltas(state, third)
        proven = verify_deltas(state, store)
        assert (proven.versions, proven.faults) == (1, ())


@pytest.mark.release
def test_leaders_share_deltas_without_rows(tmp_path: Path) -> None:
    """Only ETL_LOADED_AT of term accepts changes. The end of one Leader's chain does not end that of another one."""
    create_state(tmp_path)
    with closing(DailyRuns(tmp_path, ChangingPlatform(3, members=240))) as runs:
        runs.run()
        runs.platform.as_of += timedelta(days=1)
        runs.run()
        shared = {key[1:]: delta.formats for key, delta in runs.deltas.items() if delta.formats and not delta.has_rows}
        assert {resource for _, resource in shared} == {"member_term_accepts"}
        assert len(shared) > 1
        for name in ("csv", "json"):
            assert len({formats[name].key for formats in shared.values()}) == 1
        state = runs.context.state
        current = state.read(lambda stores: stores.snapshots.current())
        assert current is not None
        files = (tmp_path / "files/deltas" / current.snapshot_id).rglob("*.*")
        assert (current.report.deltas or RunDeltaFigures(None)).bytes == sum(file.stat().st_size for file in files)
        (erased, _), (other, _) = sorted(shared)[:2]
        closed = state.write(
            lambda stores: stores.deltas.close_account_chain(erased, str(uuid4()), "member_erased", runs.platform.as_of)
        )
        assert not {stored.key for formats in shared.values() for stored in formats.values()} & set(closed)
        chain = state.read(lambda stores: stores.deltas.chain(other))
        assert chain is not None
        assert len(chain.entries) == 1
        assert verify_deltas(state, runs.context.store).faults == ()


@pytest.mark.release
def test_returned_leader_has_only_the_deltas_after_its_return(tmp_path: Path) -> None:
    create_state(tmp_path)
    with closing(DailyRuns(tmp_path, ChangingPlatform(3, members=240))) as runs:
        leaders = runs.platform.tables["leaders"]
        removed = leaders[0]
        client_id = removed["leader_id"]
        state = runs.context.state

        def has_delta(version: int) -> bool:
            args = (version, client_id, "member_term_accepts", "csv")
            return state.read(lambda stores: stores.deltas.file(*args)) is not None

        def run() -> None:
            runs.run()
            runs.platform.as_of += timedelta(days=1)

        run()
        run()
        assert has_delta(2)
        leaders.remove(removed)
        run()
        assert not has_delta(2), "the feed does not list it"
        leaders.insert(0, removed)
        run()
        run()
        assert (has_delta(2), has_delta(5)) == (False, True)
        assert verify_deltas(state, runs.context.store).faults == ()


def test_deltas_lead_from_any_day_to_any_later_day(days: DailyRuns) -> None:
    assert days.check_pairs(PAIRS) > PAIRS // 2
