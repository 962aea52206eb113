"""The zip archive of all files."""

import io
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial

import pytest

from daybreak.domain.errors import FileDamaged
from daybreak.web.dashboard.files.archive import ArchivedFile, archive_pieces

NOW = datetime(2026, 11, 25, 3, 12, tzinfo=UTC)
CONTENTS = {"a": b"first" * 1000, "b": b"", "c": bytes(range(256)) * 50}


def read(key: str) -> Iterator[bytes]:
    """Yield a content in small pieces. Fails for the key `lost`."""
    if key == "lost":
        raise FileDamaged("lost")
    content = CONTENTS[key]
    yield from (content[start : start + 700] for start in range(0, len(content), 700))


FILES = [ArchivedFile(f"{key}.csv.gz", partial(read, key), len(content)) for key, content in CONTENTS.items()]


async def collect(files: list[ArchivedFile], recorded: list[str]) -> bytes:

    async def record(file: ArchivedFile) -> None:
        recorded.append(file.name)

    return b"".join([piece async for piece in archive_pieces(files, NOW, record)])


async def test_archive_stores_files_unchanged() -> None:
    recorded: list[str] = []
    with zipfile.ZipFile(io.BytesIO(await collect(FILES, recorded))) as archive:
        assert archive.testzip() is None
        assert {entry.filename: archive.read(entry) for entry in archive.infolist()} == {
            f"{key}.csv.gz": content for key, content in CONTENTS.items()
        }
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
        assert archive.infolist()[0].date_time == (2026, 11, 25, 3, 12, 0)
    assert recorded == ["a.csv.gz", "b.csv.gz", "c.csv.gz"]


async def test_other_files_are_compressed() -> None:
    with zipfile.ZipFile(io.BytesIO(await collect([ArchivedFile("a.csv", partial(read, "a"))], []))) as archive:
        (entry,) = archive.infolist()
        assert (archive.read(entry), entry.compress_type) == (CONTENTS["a"], zipfile.ZIP_DEFLATED)
        assert entry.compress_size < entry.file_size


async def test_unreadable_file_ends_the_archive() -> None:
    recorded: list[str] = []
    with pytest.raises(FileDamaged):
        await collect([FILES[0], ArchivedFile("lost.csv.gz", partial(read, "lost"), 5), FILES[2]], recorded)
    assert recorded == ["a.csv.gz", "lost.csv.gz"]
