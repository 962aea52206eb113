"""Digest checks of stored files before they are served."""

import asyncio
import hashlib
import os
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from io import FileIO

from daybreak.domain.errors import FileDamaged, FileStoreError
from daybreak.domain.snapshot import CurrentFile

_CACHED_FILES = 100_000


_Identity = tuple[int, int, int, str]
"""State of a file whose digest matched: inode, time of the last change in nanoseconds, size and digest."""


class DigestGuard:
    """Checks the digest of a file before this worker serves it for the first time, and whenever it has changed."""

    def __init__(self) -> None:
        self._verified: OrderedDict[str, _Identity] = OrderedDict()
        self._running: dict[str, asyncio.Future[None]] = {}
        # Digests of large files must not delay the short tasks of other requests.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="digest")

    async def check(self, opened: FileIO, file: CurrentFile) -> None:
        """Check an open file against its entry in the manifest.

        Raises:
            FileDamaged: the content differs from the manifest.
            FileStoreError: the file cannot be read.
        """
        key = file.stored.key
        identity = _identity(opened, file)
        if self._verified.get(key) == identity:
            return
        while key in self._running:
            await asyncio.wait((self._running[key],))
            if self._verified.get(key) == identity:
                return
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._running[key] = done
        try:
            await loop.run_in_executor(self._threads, _compare, opened, file)
        finally:
            del self._running[key]
            done.set_result(None)
        self._verified[key] = identity
        if len(self._verified) > _CACHED_FILES:
            self._verified.popitem(last=False)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _identity(opened: FileIO, file: CurrentFile) -> _Identity:
    found = os.fstat(opened.fileno())
    if found.st_size != file.stored.bytes:
        raise FileDamaged(f"The file {file.stored.key} has {found.st_size} bytes instead of {file.stored.bytes}.")
    return found.st_ino, found.st_mtime_ns, found.st_size, file.stored.sha256


def _compare(opened: FileIO, file: CurrentFile) -> None:
    try:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise FileStoreError(f"The file {file.stored.key} cannot be read: {error.strerror}") from error
    if digest != file.stored.sha256:
        raise FileDamaged(f"The file {file.stored.key} does not match its digest.")
