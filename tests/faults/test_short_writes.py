"""Short writes, caused by a limit on file sizes: the system writes a part of the data and refuses the rest."""

import random
import uuid
from pathlib import Path

import pytest

from daybreak.domain.errors import StoreFull
from daybreak.filestore.local_disk import LocalDisk
from tests.parts.file_sizes import file_size_limit

LEADER = "d90cd8fe-ecce-4b28-b5b4-cded8d7e46f7"


def test_short_write_fails_and_leaves_no_file(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path / "files")
    sink = disk.stage(str(uuid.uuid4()))
    content = random.Random(1).randbytes(5_000_000)
    small = sink.write(LEADER, "members", "json", [b"small"])
    with file_size_limit(4_000_000), pytest.raises(StoreFull) as caught:
        sink.write(LEADER, "members", "csv", [content])
    assert caught.value.code == "disk_short"
    assert [path.suffix for path in tmp_path.rglob("*") if path.is_file()] == [".pack"], "the pack of the small file"
    sink.commit()
    disk.check(small.key, 5, small.sha256)
