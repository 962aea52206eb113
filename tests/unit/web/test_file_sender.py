"""Which parts of downloads are recorded, and faults of files."""

import asyncio
import hashlib
import secrets
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import structlog
from prometheus_client import REGISTRY
from starlette.types import Message, Receive, Scope, Send

from daybreak.access import sessions
from daybreak.domain.snapshot import ManifestEntry, StoredFormat
from daybreak.downloads import file_named, issue_link
from daybreak.web.app import create_app
from daybreak.web.file_sender import PartialDownloads
from daybreak.web.transfers import LARGE_PIECE_BYTES
from tests.unit.access.instance import ALPHA, CALLER, open_instance
from tests.unit.web.asgi import acall, http_scope

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


async def test_damage_during_a_transfer_is_counted_and_named(tmp_path: Path) -> None:
    """The response has started, so it is cut off. The log has the file and the cause, and no stack trace."""
    content, snapshot_id = secrets.token_bytes(3 * LARGE_PIECE_BYTES), str(uuid.uuid4())
    with open_instance(tmp_path) as instance:
        services = instance.services
        sink = services.files.stage(snapshot_id)
        written = sink.write(ALPHA, "members", "csv", [content])
        sink.commit()
        stored = StoredFormat(written.bytes, written.sha256, 1, hashlib.sha256(b"x").hexdigest(), written.key)
        instance.publish(snapshot_id, [ALPHA], [ManifestEntry(ALPHA, "members", 1, "ff" * 16, {"csv": stored})])
        principal = await sessions.authenticate(services, (await instance.log_in()).token)
        named = file_named("members.csv.gz", ("csv",))
        url = urlsplit((await issue_link(services, principal, ALPHA, named, CALLER)).url)
        file = services.files.open_local(written.key)
        assert file is not None

        @asynccontextmanager
        async def no_background() -> AsyncIterator[None]:
            yield

        app = create_app(services, no_background)

        async def damaged_later(scope: Scope, receive: Receive, send: Send) -> None:
            async def send_and_damage(message: Message) -> None:
                await send(message)
                if message["type"] == "http.response.body":
                    Path(str(file.name)).write_bytes(b"")

            await app(scope, receive, send_and_damage)

        def counted() -> float:
            return REGISTRY.get_sample_value("daybreak_events_total", {"event": "file_damaged"}) or 0

        before = counted()
        with file, structlog.testing.capture_logs() as lines:
            answer = await acall(damaged_later, http_scope(url.path, query_string=url.query.encode()))
        assert (answer.status, answer.body) == (200, content[:LARGE_PIECE_BYTES])
        assert counted() == before + 1
        logged = {line["event"]: line for line in lines}
        assert logged["file_not_served"]["key"] == written.key
        assert logged["response_cut_off"]["code"] == logged["request"]["code"] == "file_damaged"
        assert "request_failed" not in logged
