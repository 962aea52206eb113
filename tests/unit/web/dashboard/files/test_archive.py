"""The zip archive of all files."""

import asyncio
import io
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from daybreak.domain.errors import FileDamaged
from daybreak.web.dashboard.files.archive import ArchivedFile, archive_pieces

NOW = datetime(2026, 11, 25, 3, 12, tzinfo=UTC)
CONTENTS = {"a": b"first" * 1000, "b": b"", "c": bytes(range(256)) * 50}
FILES = [ArchivedFile(f"{key}.csv.gz", key, len(content)) for key, content in CONTENTS.items()]


class Store:
    """File store that returns contents in small pieces, and fails for the key `lost`."""

    def read(self, key: str) -> Iterator[bytes]:
        if key == "lost":
            raise FileDamaged("lost")
        content = CONTENTS[key]
        yield from (content[start : start + 700] for start in range(0, len(content), 700))


def collect(files: list[ArchivedFile], recorded: list[str]) -> bytes:
    store: Any = Store()

    async def record(file: ArchivedFile) -> None:
        recorded.append(file.name)

    async def run() -> bytes:
        return b"".join([piece async for piece in archive_pieces(store, files, NOW, record)])

    return asyncio.run(run())


def test_archive_stores_files_unchanged() -> None:
    recorded: list[str] = []
    with zipfile.ZipFile(io.BytesIO(collect(FILES, recorded))) as archive:
        assert archive.testzip() is None
        assert {entry.filename: archive.read(entry) for entry in archive.infolist()} == {
            f"{key}.csv.gz": content for key, content in CONTENTS.items()
        }
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
        assert archive.infolist()[0].date_time == (2026, 11, 25, 3, 12, 0)
    assert recorded == ["a.csv.gz", "b.csv.gz", "c.csv.gz"]


def test_unreadable_file_ends_the_archive() -> None:
    recorded: list[str] = []
    with pytest.raises(FileDamaged):
        collect([FILES[0], ArchivedFile("lost.csv.gz", "lost", 5), FILES[2]], recorded)
    assert recorded == ["a.csv.gz", "lost.csv.gz"]
