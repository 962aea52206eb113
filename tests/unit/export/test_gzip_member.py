"""Each file is one gzip member, with the same bytes for the same content."""

import contextlib
import dataclasses
import gzip
import hashlib
import os
import struct
import subprocess
import sys
import zlib
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.domain.errors import FileDamaged
from daybreak.export.gzip_member import CODECS, HEADER, Codec, GzipMember, decompressed


def in_parts(codec: Codec, content: bytes, size: int) -> bytes:
    cut = [content[start : start + size] for start in range(0, len(content), size)] or [b""]
    parts = [codec.part(piece, last=number == len(cut))[0] for number, piece in enumerate(cut, 1)]
    trailer = struct.pack("<2I", zlib.crc32(content), len(content))
    return b"".join([HEADER, *chain.from_iterable(parts), trailer])


def member(name: str, content: bytes) -> bytes:
    return b"".join(GzipMember(CODECS[name]).compressed([content]))


@pytest.mark.parametrize("name", CODECS)
@given(content=st.binary(max_size=3000), size=st.integers(1, 900))
def test_parts_join_to_one_member(name: str, content: bytes, size: int) -> None:
    stored = in_parts(CODECS[name], content, size)
    reader = zlib.decompressobj(31)
    assert reader.decompress(stored) == content
    assert reader.eof
    assert reader.unused_data == b""
    assert gzip.decompress(stored) == content


@pytest.mark.parametrize("name", CODECS)
@given(content=st.binary(max_size=3000), repeats=st.integers(1, 2000), size=st.integers(1, 900))
def test_content_is_decompressed_from_pieces(name: str, content: bytes, repeats: int, size: int) -> None:
    """Repeated content is much larger than its compressed pieces."""
    content *= repeats
    stored = in_parts(CODECS[name], content, 1 << 20)
    pieces = [stored[start : start + size] for start in range(0, len(stored), size)]
    assert b"".join(decompressed(pieces)) == content
    assert b"".join(decompressed([pieces[0], b"", *pieces[1:]])) == content


@given(content=st.binary(min_size=1, max_size=300), data=st.data())
def test_damaged_content_is_found(content: bytes, data: st.DataObject) -> None:
    """No stored file has empty content, whose checksum does not differ from zeros after it."""
    stored = member("igzip-2", content)
    place = data.draw(st.integers(0, len(stored) - 1))
    for damaged in (stored[:place], stored + b"\0", stored + b"x", stored * 2):
        for pieces in ([damaged], [damaged[:20], damaged[20:]]):
            with pytest.raises(FileDamaged):
                list(decompressed(pieces))
    flipped = bytearray(stored)
    flipped[place] ^= 1 << data.draw(st.integers(0, 7))
    # Time, level and system in the header and the bits after the last block do not matter.
    with contextlib.suppress(FileDamaged):
        assert b"".join(decompressed([bytes(flipped)])) == content
        assert place in {*range(4, 10), len(stored) - 9}


@pytest.mark.parametrize("name", CODECS)
def test_member_has_no_time_and_no_name(name: str) -> None:
    stored = member(name, b"rows\n" * 100)
    assert stored[:10] == bytes.fromhex("1f8b08000000000000ff")
    assert gzip.decompress(stored) == b"rows\n" * 100


def test_bytes_do_not_depend_on_uninitialized_memory() -> None:
    """Igzip's one-shot function reads uninitialized memory, which glibc can fill with any byte."""
    program = (
        "import hashlib, random\n"
        "from daybreak.export.gzip_member import CODECS, GzipMember\n"
        "source = random.Random(3)\n"
        "digest = hashlib.sha256()\n"
        "for codec in CODECS.values():\n"
        "    for size in [*range(120), 1000, 60_000]:\n"
        "        content = bytes(source.choices(b'abcdef,\\n\"', k=size))\n"
        "        digest.update(b''.join(GzipMember(codec).compressed([content])))\n"
        "        digest.update(b''.join(codec.part(content, last=False)[0]))\n"
        "print(digest.hexdigest())\n"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "MALLOC_PERTURB_": fill},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for fill in ("0", "85", "170")
    }
    assert len(digests) == 1
    assert len(digests.pop().strip()) == hashlib.sha256().digest_size * 2


def test_bytes_do_not_depend_on_the_compressors_address() -> None:
    """The content contains the number that igzip's inner loop takes from its own address."""
    codec = CODECS["igzip-2"]
    compressors = [codec.open() for _ in range(50)]
    for one in compressors:
        # The stream struct follows the header of its Python object in memory.
        address = struct.pack("<I", (id(one) + 100) >> 16 & 0xFFFFFFFF)
        content = b"ab" + address + b"xyzw0123" + address + b"-- and so on, line by line" * 40
        here = dataclasses.replace(codec, open=lambda one=one: one)  # type: ignore[misc]
        assert here.part(content, last=False) == codec.part(content, last=False)
