"""File systems for one test: disk images, whose copies simulate power cuts, and small disks in memory."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.parts.presence import absent, not_allowed

# During a test only explicit syncs reach the disk: the journal commits every 300 seconds, which is longer than the
# test, and a rename does not force the data of the file to be written (ext4(5)).
_EXPLICIT_SYNC_ONLY = "commit=300,noauto_da_alloc"


def format_image(image: Path, size_bytes: int) -> None:
    """Create an ext4 file system in a sparse file."""
    program = shutil.which("mkfs.ext4", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if program is None:
        absent("mkfs.ext4", "apt-get install e2fsprogs")
    with image.open("wb") as file:
        file.truncate(size_bytes)
    subprocess.run([program, "-q", "-E", "nodiscard", "-J", "size=4", image], check=True)


def copy_image(image: Path, copy: Path) -> None:
    """Copy the bytes that have reached the disk. All writers must be stopped, so that the copy is consistent."""
    subprocess.run(["cp", "--sparse=always", image, copy], check=True)


@contextmanager
def mounted_image(image: Path, folder: Path) -> Iterator[None]:
    """Mount an image, which replays its journal."""
    with _mounted(["-o", f"loop,{_EXPLICIT_SYNC_ONLY}", str(image)], folder, "a file system in a file (a loop device)"):
        yield


@contextmanager
def memory_disk(folder: Path, size_bytes: int, inodes: int = 0) -> Iterator[None]:
    """Mount a file system in memory with a fixed size. `inodes`: its number of inodes, 0 without a limit."""
    options = f"size={size_bytes},nr_inodes={inodes}"
    with _mounted(["-t", "tmpfs", "-o", options, "tmpfs"], folder, "a file system in memory"):
        yield


@contextmanager
def _mounted(options: list[str], folder: Path, what: str) -> Iterator[None]:
    if os.geteuid() != 0:
        not_allowed(f"mounting {what}", "this test needs root")
    folder.mkdir(exist_ok=True)
    mounted = subprocess.run(["mount", *options, folder], capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        not_allowed(f"mounting {what}", mounted.stderr.strip())
    try:
        yield
    finally:
        if subprocess.run(["umount", folder], capture_output=True, check=False).returncode != 0:
            # A process of the test still uses it. A lazy unmount detaches it now and frees it when that process ends.
            with contextlib.suppress(OSError):
                subprocess.run(["umount", "--lazy", folder], check=True)
