"""Dependencies of endpoints and pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from daybreak.access.services import AccessServices
from daybreak.credentials.keyring import KeyringFile
from daybreak.downloads import DownloadServices
from daybreak.filestore.file_store import FileStore
from daybreak.settings import Settings
from daybreak.state.stores import State


@dataclass(frozen=True, slots=True)
class Services:
    """Dependencies of endpoints and pages, one instance per worker process.

    Attributes:
        clock: Returns the current instant in UTC.
        random: Returns a number of random bytes.
    """

    settings: Settings
    state: State
    files: FileStore
    keyring: KeyringFile
    clock: Callable[[], datetime]
    random: Callable[[int], bytes]
    access: AccessServices
    downloads: DownloadServices
