"""Copies of published files in a folder: which are current, and how those that are not are brought.

All are fetched beside the folder's files, compared with their digests, and then renamed into their places one right
after the other: the folder holds the files of one snapshot, and after an error those that were there before. What came
of a file before an interruption is gone on with the next time.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Event

from daybreak_client.errors import Damaged, Unreachable, WrongUse
from daybreak_client.published import PublishedFile

# (file, where to begin) -> where the octets begin, and the octets. Raises Unreachable when they break off.
OpenOctets = Callable[[PublishedFile, int], AbstractContextManager[tuple[int, Iterator[bytes]]]]
# Told as octets come: the file, and how many octets of it are here.
Tell = Callable[[PublishedFile, int], None]

_AT_ONCE = 4
_FRUITLESS_TRIES = 5
_FIRST_WAIT_SECONDS = 1.0
_PART = ".part"


def bring(
    folder: Path, files: Sequence[PublishedFile], open_octets: OpenOctets, tell: Tell
) -> tuple[PublishedFile, ...]:
    """Fetches those of the files that the folder does not have, and puts them in place, all or none; which they were.

    Raises WrongUse when another process does the same in this folder, Damaged, and what `open_octets` does.
    """
    with _alone_in(folder):
        missing = tuple(file for file in files if not _is_whole(folder / file.name, file))
        _bring_parts(folder, missing, open_octets, tell)
        for file in missing:
            _part_of(folder, file).replace(folder / file.name)
        for file in files:
            for outdated in folder.glob(f".{file.name}.*{_PART}"):
                outdated.unlink()
    return missing


def _bring_parts(folder: Path, files: Sequence[PublishedFile], open_octets: OpenOctets, tell: Tell) -> None:
    """Fetches some at a time; the first error ends the others, too."""
    stop = Event()
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="fetch") as threads:
        under_way = [
            threads.submit(_bring_one, _part_of(folder, file), file, open_octets, tell, stop) for file in files
        ]
        try:
            for done in as_completed(under_way):
                done.result()
        except BaseException:
            stop.set()
            threads.shutdown(wait=False, cancel_futures=True)
            raise


def _bring_one(part: Path, file: PublishedFile, open_octets: OpenOctets, tell: Tell, stop: Event) -> None:
    """Fetches what is missing of one file, as long as it goes on. Of what is not what was published nothing is kept."""
    fruitless = whole = 0
    while not stop.is_set() and not _is_whole(part, file):
        here = _size_bytes(part)
        if here >= file.size_bytes:
            part.unlink()
            whole += 1
            if whole > 1:
                raise Damaged(f"{file.name} came with other content than was published, twice.")
            here = 0
        try:
            _go_on(part, file, here, open_octets, tell, stop)
        except OSError as fault:
            # The disk is full, or has an error: a write does not say of which file.
            fault.filename = fault.filename or str(part)
            raise
        except Unreachable:
            fruitless = 0 if _size_bytes(part) > here else fruitless + 1
            if fruitless >= _FRUITLESS_TRIES:
                raise
            stop.wait(_FIRST_WAIT_SECONDS * 2.0**fruitless)


def _go_on(part: Path, file: PublishedFile, here: int, open_octets: OpenOctets, tell: Tell, stop: Event) -> None:
    with open_octets(file, here) as (begin, octets), part.open("r+b" if begin else "wb") as target:
        target.seek(begin)
        for piece in octets:
            if stop.is_set():
                return
            target.write(piece)
            tell(file, target.tell())
        target.flush()
        os.fsync(target.fileno())


def _is_whole(path: Path, file: PublishedFile) -> bool:
    if _size_bytes(path) != file.size_bytes:
        return False
    with path.open("rb") as octets:
        return hashlib.file_digest(octets, "sha256").hexdigest() == file.sha256


def _size_bytes(path: Path) -> int:
    """0 when there is no such file: none that is published is empty."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _part_of(folder: Path, file: PublishedFile) -> Path:
    return folder / f".{file.name}.{file.sha256[:16]}{_PART}"


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Holds the folder's lock, which ends with the process at the latest."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise WrongUse(f"{folder}: another fetch is at work there. Let it end first.") from None
        yield
    finally:
        os.close(handle)
