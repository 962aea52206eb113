"""One gzip member per file (RFC 1952), made of parts that can be compressed in parallel.

Content is cut every `PART_BYTES` bytes from its first byte. Every part but the last is raw deflate (RFC 1951) that ends
in a full flush; the last one ends the stream. Parts do not depend on each other, so the bytes of a file depend only on
its content, not on the number of threads.
"""

import hashlib
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from gzip import BadGzipFile
from io import RawIOBase
from itertools import chain
from typing import Protocol

from isal import igzip, isal_zlib
from zlib_ng import zlib_ng

from daybreak.domain.errors import FileDamaged
from daybreak.domain.snapshot import StoredFormat
from daybreak.filestore.file_store import WrittenFile

PART_BYTES = 1 << 20
HEADER = bytes((0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255))  # no name, mtime 0, unknown system
_TIME_AT = 4

_RAW = -15
_MEMORY_LEVEL = 8
# Bytes decompressed at a time. Larger blocks of memory would be returned to the system after each use.
_CONTENT_BYTES = 256 << 10
# igzip leaves the upper halves of vector registers in use, which slows down other vector code in the thread, such as
# WebAssembly, up to forty times. zlib-ng's CRC of 256 bytes or more clears them.
_CLEARING = bytes(256)
# Small enough that igzip uses its code for the end of a stream, which records that the stream has a history.
_OPENING_BYTES = 4


class _Compressor(Protocol):
    def compress(self, data: bytes | memoryview, /) -> bytes: ...

    def flush(self, mode: int = ..., /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Codec:
    """A deflate implementation at one level.

    The first `opening_bytes` of a part are compressed as a separate block. The inner loop of igzip 1 and 2 hashes
    its own address in place of the third to sixth byte of a stream (ISA-L 2.32, `write_first_byte` in
    igzip_icf_body_h1_gr_bt.asm), so the same content can produce different bytes. A stream with earlier input does not
    use that code.
    """

    open: Callable[[], _Compressor]
    opening_bytes: int = 0

    def part(self, content: bytes | memoryview, *, last: bool) -> tuple[tuple[bytes, bytes, bytes], int]:
        """Return one part as raw deflate, in pieces, and the CRC-32 of its content.

        The sequence of calls is fixed, because igzip's output depends on how its input is divided into calls. Each part
        has a new compressor, because igzip's one-shot function reads uninitialized memory.
        """
        compressor = self.open()
        opening, rest = b"", memoryview(content)
        if 0 < self.opening_bytes < len(content):
            opening = compressor.compress(rest[: self.opening_bytes]) + compressor.flush(zlib.Z_SYNC_FLUSH)
            rest = rest[self.opening_bytes :]
        body = compressor.compress(rest)
        end = compressor.flush(zlib.Z_FINISH if last else zlib.Z_FULL_FLUSH)
        zlib_ng.crc32(_CLEARING)
        return (opening, body, end), int(zlib_ng.crc32(content))


class ContentTotals:
    """Length, SHA-256 and gzip trailer of content, from its parts in order."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._crc = 0
        self.length = 0

    def add(self, part: bytes | memoryview, crc: int) -> None:
        """Add a part and its CRC-32."""
        self._digest.update(part)
        self._crc = zlib_ng.crc32_combine(self._crc, crc, len(part))
        self.length += len(part)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def stored(self, written: WrittenFile) -> StoredFormat:
        """Return the stored file with this content."""
        return StoredFormat(written.bytes, written.sha256, self.length, self.sha256, written.key)

    @property
    def trailer(self) -> bytes:
        """CRC-32 and length modulo 2^32, little endian."""
        return struct.pack("<2I", self._crc, self.length & 0xFFFFFFFF)


class GzipMember:
    """Content that arrives in pieces of any size, which must stay valid until they are compressed, as one gzip member.
    `totals` describe what was compressed so far.
    """

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        # Joined once: memory that grows with each piece would be copied, and requested from the system, several times.
        self._pieces: list[bytes | memoryview] = []
        self._size = 0
        self.totals = ContentTotals()

    def compressed(self, content: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the member with the whole content."""
        yield HEADER
        for piece in content:
            yield from self.add(piece)
        yield from self.end()

    def add(self, piece: bytes | memoryview) -> list[bytes]:
        """Append content. Return the parts that it completes, without the header."""
        self._pieces.append(piece)
        self._size += len(piece)
        completed: list[bytes] = []
        # `>` instead of `>=`, so that the last part is never empty.
        if self._size > PART_BYTES:
            content = memoryview(b"".join(self._pieces))
            while len(content) > PART_BYTES:
                completed += self._compressed(content[:PART_BYTES], last=False)
                content = content[PART_BYTES:]
            self._pieces, self._size = [bytes(content)], len(content)
        return completed

    def end(self, tail: bytes = b"") -> list[bytes]:
        """Return the rest with `tail` as the last content, and the trailer."""
        completed = self.add(tail)
        self._pieces = [last := b"".join(self._pieces)]
        return [*completed, *self._compressed(last, last=True), self.totals.trailer]

    @property
    def whole_content(self) -> bytes | None:
        """The content after its end, None if it has several parts."""
        return bytes(self._pieces[0]) if self._size == self.totals.length else None

    def _compressed(self, part: bytes | memoryview, *, last: bool) -> tuple[bytes, ...]:
        compressed, crc = self._codec.part(part, last=last)
        self.totals.add(part, crc)
        return compressed


def decompressed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the content of a file with one gzip member, whose header has no optional fields.

    Raises FileDamaged if it is damaged.
    """
    rest = filter(None, pieces)
    first = next(rest, b"")
    while len(first) < len(HEADER) and (piece := next(rest, b"")):
        first += piece
    # Readers ignore time, compression level and system.
    if first[:_TIME_AT] != HEADER[:_TIME_AT]:
        raise FileDamaged("The header of a file's gzip data is wrong or missing.")
    second = next(rest, b"")
    file = _Pieces(chain((first, second), rest))
    # A file object would take as long to make as a small file takes to decompress.
    is_small = not second and _stated_length(first) < PART_BYTES
    length = 0
    try:
        for content in [igzip.decompress(first)] if is_small else _read(file):  # type: ignore[no-untyped-call]
            zlib_ng.crc32(_CLEARING)
            length += len(content)
            yield content
    except (EOFError, BadGzipFile, isal_zlib.error) as error:  # type: ignore[misc] # an exception, which the stubs do not say
        raise FileDamaged(f"The gzip data of a file is damaged: {error}") from error
    # Readers accept several members, and zeros after the last one.
    if length & 0xFFFFFFFF != _stated_length(first if is_small else file.end):
        raise FileDamaged("The gzip data of a file is damaged: its length is not the one at its end.")


def _stated_length(end: bytes) -> int:
    """Return the length of a member's content modulo 2^32, from the last bytes of the member."""
    return int.from_bytes(end[-4:], "little")


def _read(file: "_Pieces") -> Iterator[bytes]:
    with igzip.open(file) as reader:  # type: ignore[no-untyped-call]
        while content := reader.read(_CONTENT_BYTES):
            yield content


class _Pieces(RawIOBase):
    """A readable file whose content arrives in pieces. `end` has the last bytes that were read."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest = memoryview(b"")
        self.end = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override] # the stubs allow any buffer
        if not self._rest:
            piece = next(self._pieces, b"")
            self._rest, self.end = memoryview(piece), (self.end + piece[-4:])[-4:]
        length = min(len(buffer), len(self._rest))
        buffer[:length], self._rest = self._rest[:length], self._rest[length:]
        return length


CODECS: dict[str, Codec] = {
    "igzip-2": Codec(lambda: isal_zlib.compressobj(2, zlib.DEFLATED, _RAW, _MEMORY_LEVEL), _OPENING_BYTES),
    "zlib-ng-4": Codec(lambda: zlib_ng.compressobj(4, zlib.DEFLATED, _RAW, _MEMORY_LEVEL)),
}
"""Codecs by name. The name is part of fingerprints, because it affects the bytes of files."""
