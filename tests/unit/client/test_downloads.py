"""Downloads that failed syncs leave behind."""

import os
import time
from pathlib import Path

import pytest

from daybreak_client.database_sync import delete_old_downloads
from daybreak_client.folder import locked


def leave_download(cache: Path, name: str, *, days: float) -> Path:
    folder = cache / "daybreak" / "sync" / name
    folder.mkdir(parents=True)
    (folder / ".members.csv.gz.0.part").write_bytes(b"half")
    changed = time.time() - days * 86400
    for path in (folder / ".members.csv.gz.0.part", folder):
        os.utime(path, (changed, changed))
    return folder


def test_old_downloads_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    delete_old_downloads()
    old, recent, used = (
        leave_download(tmp_path, name, days=days) for name, days in (("old", 7.1), ("recent", 6.9), ("used", 8))
    )
    growing = leave_download(tmp_path, "growing", days=8)
    (growing / ".members.csv.gz.0.part").touch()
    with locked(used):
        delete_old_downloads()
    assert not old.exists()
    assert recent.exists()
    assert growing.exists()
    assert used.exists()
