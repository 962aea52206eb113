"""Sending parts of stored files."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import ExitStack, suppress
from io import FileIO

from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from daybreak.domain.errors import FileDamaged, FileStoreError
from daybreak.filestore.file_store import FileStore
from daybreak.web.http.files import FileAnswer, Segment

# A client that reads slowly occupies about eight pieces in this process.
PIECE_BYTES = 512 * 1024
# These take a seventh less processor time. Even larger ones leave the processor's cache before they are sent.
LARGE_PIECE_BYTES = 2 * PIECE_BYTES
_LARGE_PIECE_TRANSFERS = 4
# Object stores limit the duration of a request, so a file for a slow client is read in several requests.
_STORE_REQUEST_BYTES = 4 * 1024 * 1024
# A client that reads almost nothing would occupy a transfer for days. A mobile connection of the second generation
# reaches this rate.
_GRACE_SECONDS = 60.0
_MINIMUM_BYTES_PER_SECOND = 4096


class FileTransfer(StreamingResponse):
    """Sends a body in pieces, until the client disconnects or has read less than the minimum rate."""

    def __init__(self, answer: FileAnswer, pieces: AsyncIterator[bytes], resources: ExitStack) -> None:
        """Create the response.

        Args:
            answer: Status and headers.
            pieces: The body.
            resources: Closed after the transfer.
        """
        super().__init__(pieces, answer.status, dict(answer.headers))
        self._resources = resources

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response. Below the minimum rate, end it early, which closes the connection."""
        clock = asyncio.get_running_loop().time
        # Seconds that the client may still take. Generating a body does not count. What fits into the buffers of the
        # connection is sent immediately, and must not count for later.
        credit = _GRACE_SECONDS

        async def send_in_time(message: Message) -> None:
            nonlocal credit
            start = clock()
            try:
                async with asyncio.timeout(credit):
                    await send(message)
            except TimeoutError:
                raise _SlowReader from None
            read_seconds = len(message.get("body", b"")) / _MINIMUM_BYTES_PER_SECOND
            credit = min(_GRACE_SECONDS, credit - (clock() - start) + read_seconds)

        with self._resources, suppress(_SlowReader):
            await super().__call__(scope, receive, send_in_time)


class _SlowReader(Exception):
    """The client reads less than the minimum rate."""


def read_segments(file: FileIO, segments: tuple[Segment, ...]) -> bytes:
    """Read small segments of a file as one body.

    Raises:
        FileDamaged: the file is shorter than the segments.
        FileStoreError: the file cannot be read.
    """
    return b"".join(segment.prefix + _read(file, segment.start, segment.length) for segment in segments)


def piece_bytes_for(transfers: int) -> int:
    """Return the size of the pieces of a transfer that starts, from the number of running ones, which includes it.

    Only a few transfers may occupy the memory of large pieces.
    """
    return LARGE_PIECE_BYTES if transfers <= _LARGE_PIECE_TRANSFERS else PIECE_BYTES


async def file_pieces(file: FileIO, segments: tuple[Segment, ...], piece_bytes: int) -> AsyncIterator[bytes]:
    """Read segments of a file in pieces of at most `piece_bytes`.

    Raises:
        FileDamaged: the file is shorter than the segments.
        FileStoreError: the file cannot be read.
    """
    for segment in segments:
        if segment.prefix:
            yield segment.prefix
        position, end = segment.start, segment.start + segment.length
        # The kernel reads two pieces ahead: a read from a slow disk would block the event loop.
        os.posix_fadvise(file.fileno(), position, 2 * piece_bytes, os.POSIX_FADV_WILLNEED)
        while position < end:
            piece = _read(file, position, min(piece_bytes, end - position))
            os.posix_fadvise(file.fileno(), position + 2 * piece_bytes, piece_bytes, os.POSIX_FADV_WILLNEED)
            position += len(piece)
            yield piece
            # `send` returns immediately once the client has left. Let the task run that waits for the disconnection.
            await asyncio.sleep(0)


async def store_pieces(
    files: FileStore, key: str, segments: tuple[Segment, ...], size_bytes: int | None = None
) -> AsyncIterator[bytes]:
    """Read segments of a file from an object store, in pieces of 256 KiB or a little more.

    Raises:
        FileDamaged: the object is shorter than the segments, or has not `size_bytes`.
        FileStoreError, Unavailable: the object cannot be read.
    """
    for segment in segments:
        if segment.prefix:
            yield segment.prefix
        end = segment.start + segment.length
        for start in range(segment.start, end, _STORE_REQUEST_BYTES):
            missing = min(_STORE_REQUEST_BYTES, end - start)
            async for piece in files.stream(key, start, missing, size_bytes):
                missing -= len(piece)
                yield piece
            if missing:
                raise FileDamaged(f"The object {key} is shorter than the manifest states.")


async def with_first_piece(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Read the first piece, and return all pieces. An error in the first becomes a response, not a cut-off body."""
    first = await anext(pieces, b"")

    async def all_pieces() -> AsyncIterator[bytes]:
        yield first
        async for piece in pieces:
            yield piece

    return all_pieces()


def _read(file: FileIO, start: int, length: int) -> bytes:
    try:
        piece = os.pread(file.fileno(), length, start)
    except OSError as error:
        raise FileStoreError(f"A stored file cannot be read: {error.strerror}.") from error
    if len(piece) != length:
        raise FileDamaged("A stored file became shorter while it was sent.")
    return piece
