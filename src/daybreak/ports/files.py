"""Where files live: what writes a snapshot's files and what serves them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from io import FileIO
from typing import Protocol

import msgspec


class WrittenFile(msgspec.Struct, frozen=True, gc=False):
    """What a store says about a file it took: digest and length of the stored bytes, and key."""

    key: str
    bytes: int
    sha256: str


class FileSink(Protocol):
    """Where one run's files go: the staging of one snapshot. Called from several threads."""

    def write(self, client_id: str, resource: str, format: str, pieces: Iterable[bytes | memoryview]) -> WrittenFile:
        """Takes one finished file, piece by piece; `client_id` "" is the shared header-only one."""

    def carry(self, key: str) -> str:
        """Makes a file of an earlier snapshot part of this one (link or reference): its new key."""

    def seal(self) -> None:
        """Returns when everything written is durable (sync once) and under its final name."""

    def discard(self) -> None:
        """Removes what was written."""


@dataclass(frozen=True, slots=True)
class StoreLink:
    """A URL of the store's own, good for a minute at most."""

    url: str
    expires_at: datetime


class FileStore(Protocol):
    """Where published files live: local disk or an object store."""

    @property
    def reads_cheaply(self) -> bool:
        """Whether reading every file back costs little. A store that is far away checks digests as files arrive, and
        a run reads back a sample."""

    def stage(self, snapshot_id: str) -> FileSink: ...

    def check(self, key: str, bytes: int, sha256: str) -> None:
        """Reads the whole file; raises FileDamaged when length or digest differ, FileStoreError
        when it is not there."""

    def open_local(self, key: str) -> FileIO | None:
        """The file, open to be read, when it lies on local disk; None on an object store. Whoever asks closes it.
        Raises FileStoreError when it is gone, or is no file but a link to one."""

    async def store_link(
        self,
        key: str,
        *,
        seconds: int,
        file_name: str,
        content_type: str,
        content_encoding: str | None,
        method: str = "GET",
    ) -> StoreLink | None:
        """A store-signed URL, or None on local disk."""

    def read(self, key: str) -> Iterator[bytes]: ...

    def remove(self, snapshot_id: str, keep_keys: frozenset[str]) -> int:
        """Deletes a snapshot's files but those kept (carried into living ones); how many."""

    def snapshot_ids(self) -> list[str]:
        """Every snapshot of which anything lies in the store, staged or not, sorted."""

    def free_bytes(self) -> int | None:
        """Free space, None when the store has no such figure."""

    def probe(self) -> None:
        """Writes, reads and deletes a small object; raises FileStoreError or Unavailable."""
