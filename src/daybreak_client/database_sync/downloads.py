"""Folders of the files that syncs download. A folder is empty between syncs that succeed."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from pathlib import Path

from daybreak_client.errors import Busy
from daybreak_client.folder import locked
from daybreak_client.service import AccountFiles

_MAX_AGE_SECONDS = 7 * 24 * 3600.0


def work_folder(account: AccountFiles, place: str) -> Path:
    """Return the folder of downloads of one account for one database."""
    digest = hashlib.sha256(f"{account.address}\n{account.client_id}\n{place}".encode()).hexdigest()
    return _root() / digest[:32]


def delete_old_downloads() -> None:
    """Delete folders without a change for a week: those of syncs that failed and were not repeated."""
    oldest = time.time() - _MAX_AGE_SECONDS
    for folder in _root().glob("*/"):
        try:
            if max(path.stat().st_mtime for path in (folder, *folder.iterdir())) < oldest:
                with locked(folder):
                    shutil.rmtree(folder, ignore_errors=True)
        except (OSError, Busy):
            # Another sync has deleted the folder, or uses it.
            continue


def _root() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "daybreak" / "sync"
