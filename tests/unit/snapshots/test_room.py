"""What a run needs on its disks, by what is known of the runs before it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from daybreak.domain.errors import RunError
from daybreak.snapshots.room import SPARE_BYTES, Need, Scratch, expected_need, require_room

MB = 1_000_000
FULL = {"bytes": 800 * MB, "bytes_written": 800 * MB, "scratch_bytes": 40 * MB}
CARRYING = {"bytes": 800 * MB, "bytes_written": 20 * MB, "scratch_bytes": 8 * MB}


def test_a_first_run_is_judged_by_its_source() -> None:
    assert expected_need([], 300 * MB, 1000 * MB, carries=False) == Need(600 * MB, 600 * MB, 0)
    assert expected_need([{}], 300 * MB, 100 * MB, carries=False) == Need(600 * MB, 600 * MB, 200 * MB)
    assert expected_need([], 0, 100 * MB, carries=False) == Need(0, 0, 0)


def test_files_that_are_carried_over_cost_nothing() -> None:
    assert expected_need([CARRYING, CARRYING], 300 * MB, 0, carries=True) == Need(25 * MB, 1000 * MB, 10 * MB)
    assert expected_need([CARRYING, CARRYING], 300 * MB, 0, carries=False) == Need(1000 * MB, 1000 * MB, 10 * MB)


def test_the_largest_of_the_last_runs_counts() -> None:
    assert expected_need([CARRYING, FULL], 300 * MB, 0, carries=True) == Need(1000 * MB, 1000 * MB, 50 * MB)


@dataclass(frozen=True, slots=True)
class Disk(Scratch):
    """A scratch folder on a disk of the test's choice."""

    free: int = 0
    shared: bool = False

    def free_bytes(self) -> int:
        return self.free

    def shares_the_files_disk(self) -> bool:
        return self.shared


NEED = Need(files=100 * MB, files_anew=500 * MB, scratch=50 * MB)
SCRATCH = Path("/scratch")


@pytest.mark.parametrize("scratch", [None, Disk(SCRATCH, free=50 * MB + SPARE_BYTES)])
def test_room_for_what_the_last_runs_wrote_is_enough(scratch: Scratch | None) -> None:
    assert require_room(NEED, None, scratch)
    assert require_room(NEED, 500 * MB + SPARE_BYTES, scratch)
    assert not require_room(NEED, 100 * MB + SPARE_BYTES, scratch), "worth a warning"
    with pytest.raises(RunError, match="100 MB for files, 67 MB have to stay free, and 167 MB are") as caught:
        require_room(NEED, 100 * MB + SPARE_BYTES - 1, scratch)
    assert caught.value.code == "disk_short"


def test_rows_put_aside_beside_the_files_need_their_room_there() -> None:
    beside = Disk(SCRATCH, free=0, shared=True)
    assert require_room(NEED, 550 * MB + SPARE_BYTES, beside)
    with pytest.raises(RunError, match="50 MB to put rows aside"):
        require_room(NEED, 150 * MB + SPARE_BYTES - 1, beside)


def test_a_short_scratch_disk_is_named() -> None:
    with pytest.raises(RunError, match=r"aside there, 67 MB have to stay free, and 117 MB are\. .* snapshot\.temp_dir"):
        require_room(NEED, None, Disk(SCRATCH, free=50 * MB + SPARE_BYTES - 1))


def test_scratch_is_measured_where_it_lies(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path / "spill", files=tmp_path / "files")
    assert scratch.used_bytes() == 0
    assert scratch.shares_the_files_disk(), "neither is there yet: what counts is where they will be"
    (tmp_path / "spill" / "inner").mkdir(parents=True)
    (tmp_path / "spill" / "inner" / "rows").write_bytes(b"x" * 100_000)
    assert 100_000 <= scratch.used_bytes() < 200_000
    assert scratch.free_bytes() > 0
    assert not Scratch(tmp_path / "spill").shares_the_files_disk()
