"""Copies of memory, and chunks that are used again."""

import mmap

import pytest

from daybreak.export.memory import MemoryPool, copy

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


@pytest.mark.parametrize("chunk_bytes", [mmap.PAGESIZE + 1, 1 << 20, 4 << 20])
def test_chunks_do_not_overlap_and_are_used_again(chunk_bytes: int) -> None:
    pool = MemoryPool(chunk_bytes)
    chunks = [pool.take() for _ in range(9)]
    for number, chunk in enumerate(chunks):
        chunk[:] = bytes([number]) * chunk_bytes
    assert [bytes(chunk) for chunk in chunks] == [bytes([number]) * chunk_bytes for number in range(9)]
    pool.give_back(chunks[4])
    assert pool.take() is chunks[4]
    larger = pool.take(chunk_bytes + 1)
    assert len(larger) == chunk_bytes + 1
    pool.give_back(larger)
    assert len(pool.take()) == chunk_bytes
