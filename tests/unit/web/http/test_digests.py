"""Digest checks of stored files."""

import asyncio
import hashlib
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path

import pytest

from daybreak.domain.errors import FileDamaged
from daybreak.domain.snapshot import CurrentFile, StoredFormat
from daybreak.web.http.digests import DigestGuard

CONTENT = bytes(range(256)) * 8
AT = datetime(2026, 11, 22, 4, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "members.csv.gz"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def guard() -> Iterator[DigestGuard]:
    guard = DigestGuard()
    yield guard
    guard.close()


def stored(content: bytes = CONTENT) -> CurrentFile:
    digest = hashlib.sha256(content).hexdigest()
    return CurrentFile("s", AT, AT, 1, "members", "csv", 7, StoredFormat(len(content), digest, 1, digest, "key"))


def check(guard: DigestGuard, path: Path, file: CurrentFile) -> None:
    with FileIO(path) as opened:
        asyncio.run(guard.check(opened, file))


def test_unchanged_file_passes(guard: DigestGuard, path: Path) -> None:
    check(guard, path, stored())
    check(guard, path, stored())


@pytest.mark.parametrize("checked_before", [False, True])
@pytest.mark.parametrize("content", [CONTENT[:-1] + b"x", CONTENT[:-1], CONTENT + b"x", b""])
def test_changed_file_fails(guard: DigestGuard, path: Path, content: bytes, checked_before: bool) -> None:
    if checked_before:
        check(guard, path, stored())
        os.utime(path, ns=(1, 1))
    path.write_bytes(content)
    for _ in range(2):
        with pytest.raises(FileDamaged):
            check(guard, path, stored())
    path.write_bytes(CONTENT)
    check(guard, path, stored())


def test_file_of_another_manifest_fails(guard: DigestGuard, path: Path) -> None:
    check(guard, path, stored())
    with pytest.raises(FileDamaged):
        check(guard, path, stored(CONTENT[::-1]))


def test_open_file_is_checked_not_its_path(guard: DigestGuard, path: Path) -> None:
    replacement = path.with_name("replacement")
    replacement.write_bytes(CONTENT[::-1])
    with FileIO(path) as opened:
        replacement.rename(path)
        asyncio.run(guard.check(opened, stored()))
    with pytest.raises(FileDamaged):
        check(guard, path, stored())


def test_concurrent_requests_share_one_digest(guard: DigestGuard, path: Path) -> None:
    async def check_concurrently() -> None:
        files = [FileIO(path) for _ in range(5)]
        await asyncio.gather(*(guard.check(opened, stored()) for opened in files))
        # One file was read to its end, the others were not read.
        assert sorted(opened.tell() for opened in files) == [0, 0, 0, 0, len(CONTENT)]
        for opened in files:
            opened.close()

    asyncio.run(check_concurrently())
