"""File systems of a test's own: one whose power can be cut, and one that is soon full."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.parts.presence import absent, not_allowed

# Nothing reaches the disk by itself within a test: no commit by the clock, no write-out because a file was renamed.
_LAZY = "commit=300,noauto_da_alloc"


def format_image(image: Path, size_bytes: int) -> None:
    """An ext4 file system in a file that takes little room."""
    program = shutil.which("mkfs.ext4", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if program is None:
        absent("mkfs.ext4", "apt-get install e2fsprogs")
    with image.open("wb") as file:
        file.truncate(size_bytes)
    subprocess.run([program, "-q", "-E", "nodiscard", "-J", "size=4", image], check=True)


def what_a_power_cut_leaves(image: Path, copy: Path) -> None:
    """The bytes that have reached the disk so far. Whoever writes to it must be stopped, so that they are of one
    moment.
    """
    subprocess.run(["cp", "--sparse=always", image, copy], check=True)


@contextmanager
def mounted_image(image: Path, folder: Path) -> Iterator[None]:
    """Mounts an image; what its journal holds is replayed."""
    with _mounted(["-o", f"loop,{_LAZY}", str(image)], folder, "a file system in a file (a loop device)"):
        yield


@contextmanager
def memory_disk(folder: Path, size_bytes: int) -> Iterator[None]:
    """Mounts a file system in memory that holds no more than that."""
    with _mounted(["-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs"], folder, "a file system in memory"):
        yield


@contextmanager
def _mounted(words: list[str], folder: Path, what: str) -> Iterator[None]:
    if os.geteuid() != 0:
        not_allowed(f"mounting {what}", "this test needs root")
    folder.mkdir(exist_ok=True)
    tried = subprocess.run(["mount", *words, folder], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        not_allowed(f"mounting {what}", tried.stderr.strip())
    try:
        yield
    finally:
        if subprocess.run(["umount", folder], capture_output=True, check=False).returncode != 0:
            # Something that the test started is still in there: out of sight at once, gone when that ends.
            with contextlib.suppress(OSError):
                subprocess.run(["umount", "--lazy", folder], check=True)
