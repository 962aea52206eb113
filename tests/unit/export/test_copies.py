"""Copies of memory, pages that are returned, and chunks that are used again."""

import mmap

import pytest

from daybreak.export.memory import MemoryPool, copy, discard

SIZES = [0, 1, (16 << 10) - 1, 16 << 10, 3 << 20]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_every_byte_is_copied_and_none_beside(size: int, kind: type[bytes | bytearray]) -> None:
    source = kind(number % 251 for number in range(size))
    target = bytearray(b"\xff" * (size + 2))
    copy(memoryview(target)[1:-1], memoryview(source))
    assert target == b"\xff" + source + b"\xff"


@pytest.mark.parametrize("size", SIZES[1:])
@pytest.mark.parametrize("excess", [-1, 1])
def test_another_length_is_an_error(size: int, excess: int) -> None:
    target = bytearray(size + excess)
    with pytest.raises(ValueError, match="cannot be copied"):
        copy(memoryview(target), memoryview(bytearray(b"x" * size)))
    assert target == bytes(size + excess)


def test_only_pages_inside_are_discarded() -> None:
    page = mmap.PAGESIZE
    memory = memoryview(mmap.mmap(-1, 4 * page, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    memory[:] = b"x" * 4 * page
    discard(memory[1:page])
    discard(memory[page - 1 : page + 1])
    assert memory == b"x" * 4 * page
    discard(memory[1:-1])
    # Pages that were returned contain zeros.
    assert memory == b"x" * page + bytes(2 * page) + b"x" * page


@pytest.mark.parametrize("chunk_bytes", [mmap.PAGESIZE + 1, 1 << 20, 4 << 20])
def test_chunks_do_not_overlap_and_are_used_again(chunk_bytes: int) -> None:
    pool = MemoryPool(chunk_bytes)
    chunks = [pool.take() for _ in range(9)]
    for number, chunk in enumerate(chunks):
        chunk[:] = bytes([number]) * chunk_bytes
    assert [bytes(chunk) for chunk in chunks] == [bytes([number]) * chunk_bytes for number in range(9)]
    pool.give_back(chunks[4])
    assert pool.take() is chunks[4]
