"""Downloads in parts, which count as one download while their parts are not longer than the file."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field

_MAX_DOWNLOADS = 4096


@dataclass(slots=True)
class _Download:
    """A download in parts. `recorded_bytes` are the bytes that its last record still covers."""

    recorded_bytes: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class PartialDownloads:
    """Most recent downloads in parts."""

    def __init__(self) -> None:
        self._downloads: OrderedDict[Hashable, _Download] = OrderedDict()

    async def record(
        self, key: Hashable, record: Callable[[], Awaitable[None]], *, part_bytes: int, file_bytes: int
    ) -> None:
        """Record the download of a part, unless an earlier record covers it.

        A record covers as many bytes as the file has. A client that requests the same part repeatedly is therefore
        recorded again. A failed record covers nothing.

        Args:
            key: What was requested, with which credential and from which address.
            record: Records a download. Its errors are raised.
            part_bytes: Length of this part.
            file_bytes: Length of the file.
        """
        download = self._downloads.setdefault(key, _Download())
        self._downloads.move_to_end(key)
        if len(self._downloads) > _MAX_DOWNLOADS:
            self._downloads.popitem(last=False)
        # Parts that arrive at the same time wait for the record of the first one.
        async with download.lock:
            if download.recorded_bytes < part_bytes:
                await record()
                download.recorded_bytes = file_bytes
            download.recorded_bytes -= part_bytes
