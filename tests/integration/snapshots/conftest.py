"""A folder with a migrated state database and a small platform."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from daybreak.filestore.file_store import FileStore
from daybreak.filestore.local_disk import LocalDisk
from daybreak.snapshots.run_context import RunContext
from tests.parts.buckets import open_bucket
from tests.parts.s3 import S3Bucket
from tests.small_platform import create_state, open_context, platform_of, write_platform


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for `context_in`: a state database and a platform."""
    create_state(tmp_path)
    write_platform(tmp_path / "platform.json", platform_of())
    return tmp_path


@pytest.fixture
def run_context(folder: Path) -> Iterator[RunContext]:
    with open_context(folder) as context:
        yield context


@pytest.fixture(params=["folder", "bucket"])
def target(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileStore]:
    """A file store that is empty."""
    if request.param == "folder":
        yield LocalDisk(tmp_path / "target")
        return
    bucket: S3Bucket = request.getfixturevalue("s3_bucket")
    yield open_bucket(bucket, monkeypatch)
