"""Migrated state databases, faster than by a migration for each."""

import tempfile
from functools import cache
from pathlib import Path

from daybreak.state.database import sqlite_path
from daybreak.state.migrate import migrate


def create_migrated(url: str) -> None:
    """Migrate an empty state database. One in a file is a copy of a database that this process has migrated before."""
    path = sqlite_path(url)
    if path is None:
        migrate(url)
        return
    path.touch(mode=0o600)
    path.write_bytes(_database_file())


@cache
def _database_file() -> bytes:
    with tempfile.TemporaryDirectory(prefix="daybreak-state-") as folder:
        migrate(f"sqlite:///{folder}/state.db")
        return (Path(folder) / "state.db").read_bytes()
