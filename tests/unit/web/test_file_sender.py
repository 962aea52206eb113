"""Which parts of downloads are recorded."""

import asyncio

import pytest

from daybreak.web.file_sender import PartialDownloads

LINK = (b"/link", b"signature=1", "192.0.2.1")


class Refused(Exception):
    pass


class Trail:
    """Counts records. Refuses them while `full`."""

    def __init__(self) -> None:
        self.records = 0
        self.full = False

    async def record(self) -> None:
        await asyncio.sleep(0)
        if self.full:
            raise Refused
        self.records += 1


async def test_parts_of_a_file_are_recorded_once() -> None:
    downloads, trail = PartialDownloads(), Trail()
    for _ in range(10):
        await downloads.record(LINK, trail.record, part_bytes=100, file_bytes=1000)
    assert trail.records == 1


async def test_repeated_parts_are_recorded_again() -> None:
    """A client that downloads all but the first byte 10 times has downloaded the file 10 times."""
    downloads, trail = PartialDownloads(), Trail()
    for _ in range(10):
        await downloads.record(LINK, trail.record, part_bytes=999, file_bytes=1000)
    assert trail.records == 10


async def test_links_and_addresses_are_recorded_separately() -> None:
    downloads, trail = PartialDownloads(), Trail()
    for key in (LINK, (b"/link", b"signature=2", "192.0.2.1"), (b"/link", b"signature=1", "192.0.2.2")):
        await downloads.record(key, trail.record, part_bytes=1, file_bytes=1000)
    assert trail.records == 3


async def test_parallel_parts_are_recorded_once() -> None:
    downloads, trail = PartialDownloads(), Trail()
    parts = (downloads.record(LINK, trail.record, part_bytes=100, file_bytes=1000) for _ in range(10))
    await asyncio.gather(*parts)
    assert trail.records == 1


async def test_no_part_follows_a_refused_record() -> None:
    downloads, trail = PartialDownloads(), Trail()
    trail.full = True
    parts = [downloads.record(LINK, trail.record, part_bytes=100, file_bytes=1000) for _ in range(3)]
    assert [type(result) for result in await asyncio.gather(*parts, return_exceptions=True)] == [Refused] * 3
    with pytest.raises(Refused):
        await downloads.record(LINK, trail.record, part_bytes=100, file_bytes=1000)
    trail.full = False
    await downloads.record(LINK, trail.record, part_bytes=100, file_bytes=1000)
    assert trail.records == 1


async def test_memory_for_partial_downloads_is_limited() -> None:
    """A forgotten download is recorded again."""
    downloads, trail = PartialDownloads(), Trail()
    for number in (0, *range(5000), 0):
        await downloads.record((b"", b"%d" % number, ""), trail.record, part_bytes=1, file_bytes=1000)
    assert trail.records == 5001


async def test_recent_download_is_not_forgotten() -> None:
    downloads, trail = PartialDownloads(), Trail()
    for number in range(5000):
        await downloads.record((b"", b"%d" % number, ""), trail.record, part_bytes=1, file_bytes=100_000)
        await downloads.record((b"", b"0", ""), trail.record, part_bytes=1, file_bytes=100_000)
    assert trail.records == 5000
