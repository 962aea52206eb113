"""Disk space of a run, checked before anything is written.

The estimate is based on earlier runs, whose reports have the size of written files and of the engine's spill. Without
an earlier run it is based on the size of the source: a multiple of it for files, and the part that exceeds the memory
limit for the spill.
"""

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from daybreak.domain.display import format_count, format_size
from daybreak.domain.errors import RunError
from daybreak.domain.run_report import RunReport
from daybreak.filestore.file_store import FreeSpace

RESERVE_BYTES = 64 << 20
# Size of CSV and JSON files divided by that of the same rows in a columnar source. Measured: 1.4 to 1.9.
_FILES_PER_INPUT_BYTE = 2.0
_GROWTH = 1.25
_BLOCK_BYTES = 512
_PACKS = 2  # Packs that are not full: of files, and of deltas.


@dataclass(frozen=True, slots=True)
class SpillFolder:
    """The folder to which the engine spills. `files_folder` is the folder of a file store on local disk, else None."""

    folder: Path
    files_folder: Path | None = None

    def used_bytes(self) -> int:
        """Return the space in use. Files may be created and deleted meanwhile."""
        return sum(status.st_blocks * _BLOCK_BYTES for _, status in self._files())

    def free_bytes(self) -> int:
        """Return the free space of the disk."""
        return shutil.disk_usage(_existing(self.folder)).free

    def delete_before(self, instant: datetime) -> None:
        """Delete files that were last written before an instant: those of killed runs."""
        for file, status in self._files():
            if status.st_mtime < instant.timestamp():
                file.unlink(missing_ok=True)

    def shares_disk_with_files(self) -> bool:
        """Return whether the file store is on the same disk."""
        if self.files_folder is None:
            return False
        return _existing(self.folder).stat().st_dev == _existing(self.files_folder).stat().st_dev

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        for path, _folders, names in os.walk(self.folder):
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    yield Path(path, name), Path(path, name).stat()


@dataclass(frozen=True, slots=True)
class SpaceRequirement:
    """Bytes that a run needs: for files if it reuses about the same share as the last runs, for files if it reuses
    none, and for the engine's spill. `new_files` is the number of files and packs that it creates, without deltas.
    """

    files: int
    all_files: int
    spill: int
    new_files: int = 0


def required_space(
    reports: Iterable[RunReport], input_bytes: int, memory_bytes: int, *, reuses_files: bool, pack_below: int = 0
) -> SpaceRequirement:
    """Estimate the space of the next run from the reports of the last complete runs, newest first, the size of the
    source and the builder's memory limit. `reuses_files` is whether files of unchanged Leaders are reused. `pack_below`
    is `snapshot.pack_below`.
    """
    known = [report for report in reports if report.bytes]
    all_files = (known[0].bytes or 0) * _GROWTH if known else input_bytes * _FILES_PER_INPUT_BYTE
    written = [report.bytes_written for report in known if report.bytes_written is not None]
    files = min(max(written) * _GROWTH, all_files) if written and reuses_files else all_files
    spilled = [report.scratch_bytes for report in known if report.scratch_bytes is not None]
    spill = max(spilled) * _GROWTH if spilled else max(input_bytes - memory_bytes, 0)
    new_files = [(each.files or 0) - (each.files_carried or 0 if reuses_files else 0) for each in known]
    most_files = max(new_files, default=0)
    if pack_below:
        # Files outside packs are larger than that.
        most_files = min(most_files, int(files) // pack_below + _PACKS)
    return SpaceRequirement(int(files), int(all_files), int(spill), most_files)


def check_disk_space(requirement: SpaceRequirement, free: FreeSpace | None, spill: SpillFolder | None) -> bool:
    """Check the free space. `free` is that of the file store, None if it has no limit. Return whether a run that
    reuses no file would also fit. Raises RunError (`disk_short`) if the run would fill a disk.
    """
    spill_bytes = 0
    if spill is not None and spill.shares_disk_with_files():
        spill_bytes = requirement.spill
    elif spill is not None and spill.free_bytes() < requirement.spill + RESERVE_BYTES:
        raise RunError(
            f"Not enough space on the disk of {spill.folder}: a run needs about {format_size(requirement.spill)} for "
            f"temporary files and a reserve of {format_size(RESERVE_BYTES)}, and {format_size(spill.free_bytes())} are "
            "free. Free some space, or set snapshot.temp_dir to a larger disk.",
            code="disk_short",
        )
    if free is None:
        return True
    if free.files is not None and free.files < requirement.new_files:
        raise RunError(
            f"The disk of files.url has {format_count(free.files, 'free inode')}, and a run needs at least "
            f"{requirement.new_files:,}, one per file. Keep fewer snapshots or deltas (snapshot.keep, "
            "snapshot.keep_deltas), or use a file system with more inodes, such as XFS.",
            code="disk_short",
        )
    if free.bytes < requirement.files + spill_bytes + RESERVE_BYTES:
        temporary = f", {format_size(spill_bytes)} for temporary files" if spill_bytes else ""
        raise RunError(
            f"Not enough space on the disk of files.url: a run needs about {format_size(requirement.files)} for files"
            f"{temporary} and a reserve of {format_size(RESERVE_BYTES)}, and {format_size(free.bytes)} are free. Free "
            "some space, or keep fewer snapshots (snapshot.keep).",
            code="disk_short",
        )
    return free.bytes >= requirement.all_files + spill_bytes + RESERVE_BYTES


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
