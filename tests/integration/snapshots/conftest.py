"""A folder with a migrated state database and a small platform."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from daybreak.filestore.file_store import FileStore
from daybreak.filestore.local_disk import LocalDisk
from daybreak.filestore.object_store import ObjectStore
from daybreak.settings import FilesSettings
from daybreak.snapshots.run_context import RunContext
from daybreak.state.migrate import migrate
from tests.parts.s3 import S3Bucket
from tests.small_platform import context_in, platform_of, state_url, write_platform


@pytest.fixture(scope="session")
def empty_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite state database to copy."""
    folder = tmp_path_factory.mktemp("state")
    migrate(state_url(folder))
    return folder / "state.db"


@pytest.fixture
def folder(tmp_path: Path, empty_state: Path) -> Path:
    """A folder for `context_in`: a state database and a platform."""
    shutil.copy(empty_state, tmp_path / "state.db")
    write_platform(tmp_path / "platform.json", platform_of())
    return tmp_path


@pytest.fixture
def run_context(folder: Path) -> Iterator[RunContext]:
    context = context_in(folder)
    yield context
    context.state.close()


@pytest.fixture(params=["folder", "bucket"])
def target(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileStore]:
    """A file store that is empty."""
    if request.param == "folder":
        yield LocalDisk(tmp_path / "target")
        return
    bucket: S3Bucket = request.getfixturevalue("s3_bucket")
    for name, value in bucket.environment().items():
        monkeypatch.setenv(name, value)
    yield ObjectStore(FilesSettings(url=bucket.url, endpoint=bucket.server.endpoint, path_style=True))
