"""Stored files as answers: only what was stored goes out, and every file that is opened is closed."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path

import pytest
from starlette.responses import Response
from starlette.types import Message

from daybreak.domain.errors import FileDamaged
from daybreak.domain.snapshot import CurrentFile, StoredFormat
from daybreak.web.answers import Answer
from daybreak.web.file_responses import INLINE_BYTES, DigestGuard, StoredBytes, file_headers, file_response
from daybreak.web.negotiation import Representation

CONTENT = bytes(range(256)) * 8
AT = datetime(2026, 11, 22, 4, tzinfo=UTC)
AS_FILE = Representation("application/gzip", None, "members.csv.gz", "f", varies=True)


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
    return CurrentFile("s", AT, AT, "members", "csv", 7, StoredFormat(len(content), digest, 1, digest, "key"))


def checked(guard: DigestGuard, path: Path, file: CurrentFile) -> bytes | None:
    """What is sent of a file after the check of it."""

    async def check() -> Response:
        await guard.check(octets, file)
        return file_response(octets, file, AS_FILE, {}, method="GET")

    with FileIO(path) as octets:
        response = asyncio.run(check())
        assert isinstance(response, Answer)
        return bytes(response.body)


def test_a_file_is_served_as_it_was_stored(guard: DigestGuard, path: Path) -> None:
    assert checked(guard, path, stored()) == CONTENT
    assert checked(guard, path, stored()) == CONTENT


@pytest.mark.parametrize("served_before", [False, True])
@pytest.mark.parametrize("content", [CONTENT[:-1] + b"x", CONTENT[:-1], CONTENT + b"x", b""])
def test_another_content_is_found_before_anything_is_sent(
    guard: DigestGuard, path: Path, content: bytes, served_before: bool
) -> None:
    if served_before:
        checked(guard, path, stored())
        os.utime(path, ns=(1, 1))
    path.write_bytes(content)
    for _ in range(2):
        with pytest.raises(FileDamaged):
            checked(guard, path, stored())
    path.write_bytes(CONTENT)
    assert checked(guard, path, stored()) == CONTENT


def test_a_good_digest_says_nothing_of_another_manifest(guard: DigestGuard, path: Path) -> None:
    checked(guard, path, stored())
    with pytest.raises(FileDamaged):
        checked(guard, path, stored(CONTENT[::-1]))


def test_what_is_checked_is_the_file_that_is_sent(guard: DigestGuard, path: Path) -> None:
    """Another file may be put in its place between the two."""
    bad = path.with_name("bad")
    bad.write_bytes(CONTENT[::-1])

    async def check(octets: FileIO) -> None:
        bad.rename(path)
        await guard.check(octets, stored())

    with FileIO(path) as octets:
        asyncio.run(check(octets))
        response = file_response(octets, stored(), AS_FILE, {}, method="GET")
        assert bytes(response.body) == CONTENT
    with pytest.raises(FileDamaged):
        checked(guard, path, stored())


def test_many_at_once_wait_for_one_digest(guard: DigestGuard, path: Path) -> None:
    async def together() -> None:
        files = [FileIO(path) for _ in range(5)]
        await asyncio.gather(*(guard.check(octets, stored()) for octets in files))
        # Who read it all is at its end; who waited has read nothing.
        assert sorted(octets.tell() for octets in files) == [0, 0, 0, 0, len(CONTENT)]
        for octets in files:
            octets.close()

    asyncio.run(together())


@pytest.mark.parametrize("headers", [{}, {"range": "bytes=0-9"}, {"range": "bytes=0-9,20-29"}])
def test_a_large_file_is_closed_once_it_is_sent(path: Path, headers: dict[str, str]) -> None:
    content = CONTENT * (INLINE_BYTES // len(CONTENT) + 1)
    path.write_bytes(content)
    octets = FileIO(path)
    response = file_response(octets, stored(content), AS_FILE, headers, method="GET")
    assert isinstance(response, StoredBytes)

    async def receive() -> Message:
        raise AssertionError

    async def send(message: Message) -> None:
        assert not octets.closed

    asyncio.run(response({"type": "http"}, receive, send))
    assert octets.closed


def test_headers_are_those_of_the_file_and_of_nothing_else() -> None:
    one = file_headers(stored(), AS_FILE)
    other = file_headers(stored(CONTENT[::-1]), AS_FILE)
    assert one.texts["etag"] != other.texts["etag"]
    assert one.texts["repr-digest"] != other.texts["repr-digest"]
    assert [(name.decode(), text.decode()) for name, text in one.wire] == list(one.texts.items())
    unpacked = file_headers(stored(), Representation("text/csv", "gzip", "members.csv", "c", varies=True))
    assert unpacked.texts["etag"] != one.texts["etag"]
    assert unpacked.texts["content-encoding"] == "gzip"
