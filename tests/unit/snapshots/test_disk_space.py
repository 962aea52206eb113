"""Disk space of a run: the estimate from earlier runs, and the check."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec import structs

from daybreak.domain.errors import RunError
from daybreak.domain.run_report import RunReport
from daybreak.filestore.file_store import FreeSpace
from daybreak.snapshots.disk_space import RESERVE_BYTES, SpaceRequirement, SpillFolder, check_disk_space, required_space

MB = 1_000_000
FULL = RunReport(bytes=800 * MB, bytes_written=800 * MB, scratch_bytes=40 * MB)
REUSING = RunReport(bytes=800 * MB, bytes_written=20 * MB, scratch_bytes=8 * MB)


def megabytes(files: int, all_files: int, spill: int) -> SpaceRequirement:
    return SpaceRequirement(files * MB, all_files * MB, spill * MB)


def test_first_run_is_estimated_from_its_source() -> None:
    assert required_space([], 300 * MB, 1000 * MB, reuses_files=False) == megabytes(600, 600, 0)
    assert required_space([RunReport()], 300 * MB, 100 * MB, reuses_files=False) == SpaceRequirement(
        600 * MB, 600 * MB, 200 * MB
    )
    assert required_space([], 0, 100 * MB, reuses_files=False) == megabytes(0, 0, 0)


def test_reused_files_need_no_space() -> None:
    assert required_space([REUSING, REUSING], 300 * MB, 0, reuses_files=True) == SpaceRequirement(
        25 * MB, 1000 * MB, 10 * MB
    )
    assert required_space([REUSING, REUSING], 300 * MB, 0, reuses_files=False) == SpaceRequirement(
        1000 * MB, 1000 * MB, 10 * MB
    )


def test_estimate_uses_the_largest_recent_run() -> None:
    assert required_space([REUSING, FULL], 300 * MB, 0, reuses_files=True) == SpaceRequirement(
        1000 * MB, 1000 * MB, 50 * MB
    )


@dataclass(frozen=True, slots=True)
class Disk(SpillFolder):
    """A spill folder on a disk with the given free space."""

    free: int = 0
    shared: bool = False

    def free_bytes(self) -> int:
        return self.free

    def shares_disk_with_files(self) -> bool:
        return self.shared


REQUIREMENT = SpaceRequirement(files=100 * MB, all_files=500 * MB, spill=50 * MB)
FOLDER = Path("/spill")


@pytest.mark.parametrize("spill", [None, Disk(FOLDER, free=50 * MB + RESERVE_BYTES)])
def test_space_for_a_run_like_the_last_is_enough(spill: SpillFolder | None) -> None:
    assert check_disk_space(REQUIREMENT, None, spill)
    assert check_disk_space(REQUIREMENT, FreeSpace(500 * MB + RESERVE_BYTES), spill)
    assert not check_disk_space(REQUIREMENT, FreeSpace(100 * MB + RESERVE_BYTES), spill), "the caller logs a warning"
    with pytest.raises(RunError, match=r"100 MB for files and a reserve of 67\.1 MB, and 167 MB are free") as caught:
        check_disk_space(REQUIREMENT, FreeSpace(100 * MB + RESERVE_BYTES - 1), spill)
    assert caught.value.code == "disk_short"


def test_spill_on_the_same_disk_is_included() -> None:
    shared = Disk(FOLDER, free=0, shared=True)
    assert check_disk_space(REQUIREMENT, FreeSpace(550 * MB + RESERVE_BYTES), shared)
    with pytest.raises(RunError, match=r"50\.0 MB for temporary files"):
        check_disk_space(REQUIREMENT, FreeSpace(150 * MB + RESERVE_BYTES - 1), shared)


def test_files_need_inodes() -> None:
    report = RunReport(bytes=8 * MB, files=900, files_carried=700)
    assert required_space([report], 0, 0, reuses_files=True).new_files == 200
    assert required_space([report], 0, 0, reuses_files=True, pack_below=65_536).new_files == 10 * MB // 65_536 + 2
    requirement = required_space([report, structs.replace(report, files_carried=0)], 0, 0, reuses_files=True)
    assert requirement.new_files == required_space([report], 0, 0, reuses_files=False).new_files == 900
    assert check_disk_space(requirement, FreeSpace(200 * MB, 900), None)
    with pytest.raises(RunError, match="899 free inodes, and a run needs at least 900, one per file") as caught:
        check_disk_space(requirement, FreeSpace(200 * MB, 899), None)
    assert caught.value.code == "disk_short"


def test_short_spill_disk_is_named() -> None:
    with pytest.raises(RunError, match=r"a reserve of 67\.1 MB, and 117 MB are free\. .* snapshot\.temp_dir"):
        check_disk_space(REQUIREMENT, None, Disk(FOLDER, free=50 * MB + RESERVE_BYTES - 1))


def test_spill_folder_is_measured(tmp_path: Path) -> None:
    spill = SpillFolder(tmp_path / "spill", tmp_path / "files")
    assert spill.used_bytes() == 0
    assert spill.shares_disk_with_files(), "neither folder exists yet"
    (tmp_path / "spill" / "inner").mkdir(parents=True)
    (tmp_path / "spill" / "inner" / "rows").write_bytes(b"x" * 100_000)
    assert 100_000 <= spill.used_bytes() < 200_000
    assert spill.free_bytes() > 0
    assert not SpillFolder(tmp_path / "spill").shares_disk_with_files()
