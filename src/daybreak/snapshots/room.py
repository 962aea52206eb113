"""Whether a run has room on its disks, asked before anything is written.

What the last runs wrote says what the next one needs: files that are carried over cost nothing, and what the engine put
aside was measured. Without earlier runs the size of the source stands for the files, and what of it does not fit the
memory for what is put aside.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from daybreak.domain.errors import RunError
from daybreak.snapshots.report import figure

SPARE_BYTES = 64 << 20
# Files of both formats against what the same rows take in a columnar source; measured at 1.4 to 1.9.
_FILES_PER_INPUT_BYTE = 2.0
_GROWTH = 1.25
_BLOCK_BYTES = 512


@dataclass(frozen=True, slots=True)
class Scratch:
    """Where the engine puts aside what does not fit its memory. `files` is the folder of the file store when that is a
    disk too.
    """

    folder: Path
    files: Path | None = None

    def used_bytes(self) -> int:
        """What lies there now. Files come and go meanwhile."""
        size = 0
        for path, _folders, names in os.walk(self.folder):
            for name in names:
                try:
                    size += Path(path, name).stat().st_blocks * _BLOCK_BYTES
                except FileNotFoundError:
                    continue
        return size

    def free_bytes(self) -> int:
        return shutil.disk_usage(_standing(self.folder)).free

    def shares_the_files_disk(self) -> bool:
        if self.files is None:
            return False
        return _standing(self.folder).stat().st_dev == _standing(self.files).stat().st_dev


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes that a run takes: for files, if it is like the last ones and if it writes every file anew, and beside
    them.
    """

    files: int
    files_anew: int
    scratch: int


def expected_need(
    reports: Iterable[Mapping[str, object]], input_bytes: int, memory_bytes: int, *, carries: bool
) -> Need:
    """From the reports of the last complete runs, newest first, the bytes of the source, and the builder's memory.
    `carries`: unchanged files are carried over.
    """
    known = [report for report in reports if figure(report, "bytes")]
    anew = figure(known[0], "bytes") * _GROWTH if known else input_bytes * _FILES_PER_INPUT_BYTE
    written = [figure(report, "bytes_written") for report in known if "bytes_written" in report]
    files = min(max(written) * _GROWTH, anew) if written and carries else anew
    scratch = [figure(report, "scratch_bytes") for report in known if "scratch_bytes" in report]
    aside = max(scratch) * _GROWTH if scratch else max(input_bytes - memory_bytes, 0)
    return Need(int(files), int(anew), int(aside))


def require_room(need: Need, free_bytes: int | None, scratch: Scratch | None) -> bool:
    """Whether every file could be written anew, too. `free_bytes` is the file store's, None when it has no such figure.
    Raises RunError (`disk_short`) for a run that would surely fill a disk.
    """
    beside = 0
    if scratch is not None and scratch.shares_the_files_disk():
        beside = need.scratch
    elif scratch is not None and scratch.free_bytes() < need.scratch + SPARE_BYTES:
        raise RunError(
            f"The disk of {scratch.folder} is short: a run puts about {_megabytes(need.scratch)} aside there, "
            f"{_megabytes(SPARE_BYTES)} have to stay free, and {_megabytes(scratch.free_bytes())} are. "
            "Make room, or set snapshot.temp_dir to a larger disk.",
            code="disk_short",
        )
    if free_bytes is None:
        return True
    if free_bytes < need.files + beside + SPARE_BYTES:
        aside = f" and {_megabytes(beside)} to put rows aside" if beside else ""
        raise RunError(
            f"The disk of files.url is short: a run needs about {_megabytes(need.files)} for files{aside}, "
            f"{_megabytes(SPARE_BYTES)} have to stay free, and {_megabytes(free_bytes)} are. "
            "Make room, or keep fewer snapshots (snapshot.keep).",
            code="disk_short",
        )
    return free_bytes >= need.files_anew + beside + SPARE_BYTES


def _standing(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there already."""
    return next(path for path in (folder, *folder.absolute().parents) if path.is_dir())


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.0f} MB"
