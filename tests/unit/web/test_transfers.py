"""Transfers of file segments."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import ExitStack
from io import FileIO
from pathlib import Path

import pytest
from starlette.types import Message

from daybreak.domain.errors import FileDamaged, FileStoreError
from daybreak.filestore.local_disk import LocalDisk
from daybreak.web import transfers
from daybreak.web.http.files import FileAnswer, Segment
from daybreak.web.transfers import (
    LARGE_PIECE_BYTES,
    PIECE_BYTES,
    FileTransfer,
    file_pieces,
    piece_bytes_for,
    read_segments,
    store_pieces,
    with_first_piece,
)
from tests.unit.web.asgi import call, http_scope

CONTENT = bytes(range(256)) * (3 * PIECE_BYTES // 256)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    return path


def transfer(path: Path, *segments: Segment) -> tuple[FileTransfer, FileIO]:
    file = FileIO(path)
    resources = ExitStack()
    resources.enter_context(file)
    return FileTransfer(FileAnswer(200, {}, segments), file_pieces(file, segments, PIECE_BYTES), resources), file


def test_segments_are_sent_in_order_and_the_file_is_closed(path: Path) -> None:
    response, file = transfer(path, Segment(b"a", 10, PIECE_BYTES + 5), Segment(b"b", 0, 3), Segment(b"c", 99, 0))
    answer = call(response, http_scope())
    assert answer.body == b"a" + CONTENT[10 : 15 + PIECE_BYTES] + b"b" + CONTENT[:3] + b"c"
    assert file.closed


async def test_pieces_have_a_maximum_size(path: Path) -> None:
    response, _ = transfer(path, Segment(b"", 0, len(CONTENT)))
    sizes = []

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        sizes.append(len(message.get("body", b"")))

    await response(http_scope(), receive, send)
    assert max(sizes) == PIECE_BYTES
    assert sum(sizes) == len(CONTENT)


def test_large_pieces_are_for_few_transfers() -> None:
    """A hundred clients that read slowly must not occupy twice the documented memory."""
    assert [piece_bytes_for(transfers) for transfers in (1, 4, 5, 100)] == [
        LARGE_PIECE_BYTES, LARGE_PIECE_BYTES, PIECE_BYTES, PIECE_BYTES
    ]  # fmt: skip


async def test_transfer_ends_when_the_client_disconnects(path: Path) -> None:
    response, file = transfer(path, Segment(b"", 0, len(CONTENT)))
    disconnected = asyncio.Event()
    sent = 0

    async def receive() -> Message:
        await disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal sent
        sent += len(message.get("body", b""))
        # As in the server, `send` returns immediately after the client has disconnected.
        disconnected.set()

    await response(http_scope(), receive, send)
    assert sent < len(CONTENT)
    assert file.closed


async def test_transfer_ends_below_the_minimum_rate(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that reads a piece now and then does not occupy a transfer for days."""
    monkeypatch.setattr(transfers, "_GRACE_SECONDS", 0.01)
    response, file = transfer(path, Segment(b"", 0, len(CONTENT)))
    sent = 0

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        nonlocal sent
        sent += len(message.get("body", b""))
        if sent:
            await asyncio.Event().wait()

    await asyncio.wait_for(response(http_scope(), receive, send), 60)
    assert sent == PIECE_BYTES
    assert file.closed


def test_shortened_file_ends_the_transfer(path: Path) -> None:
    response, file = transfer(path, Segment(b"", 0, len(CONTENT)))
    path.write_bytes(CONTENT[: PIECE_BYTES + 1])
    with pytest.raises(FileDamaged):
        call(response, http_scope())
    assert file.closed


def test_segments_are_read_as_one_body(path: Path) -> None:
    with FileIO(path) as file:
        assert read_segments(file, (Segment(b"a", 1, 2), Segment(b"b", 5, 0))) == b"a" + CONTENT[1:3] + b"b"
        with pytest.raises(FileDamaged):
            read_segments(file, (Segment(b"", len(CONTENT), 1),))


async def _joined(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


async def test_segments_of_a_store_are_sent_in_order(disk: LocalDisk) -> None:
    content = bytes(range(256)) * 40_000
    key = _stored(disk, content)
    segments = (Segment(b"a", 7, 9_000_000), Segment(b"b", 0, 3), Segment(b"c", 99, 0))
    assert await _joined(store_pieces(disk, key, segments)) == b"a" + content[7:9_000_007] + b"b" + content[:3] + b"c"


async def test_short_object_ends_the_transfer(disk: LocalDisk) -> None:
    key = _stored(disk, CONTENT)
    with pytest.raises(FileDamaged):
        await _joined(store_pieces(disk, key, (Segment(b"", 1, len(CONTENT)),)))


async def test_missing_object_is_an_error_before_the_response(disk: LocalDisk) -> None:
    with pytest.raises(FileStoreError):
        await with_first_piece(store_pieces(disk, _stored(disk, b"x") + "x", (Segment(b"", 0, 1),)))


async def test_first_piece_is_sent_once(disk: LocalDisk) -> None:
    key = _stored(disk, CONTENT)
    assert await _joined(await with_first_piece(store_pieces(disk, key, (Segment(b"", 0, len(CONTENT)),)))) == CONTENT


@pytest.fixture
def disk(tmp_path: Path) -> LocalDisk:
    return LocalDisk(tmp_path / "files")


def _stored(disk: LocalDisk, content: bytes) -> str:
    sink = disk.stage(str(uuid.uuid4()))
    written = sink.write("", "members", "csv", [content])
    sink.commit()
    return written.key
