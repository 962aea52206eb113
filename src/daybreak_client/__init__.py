"""Client of Daybreak: the package that consumers of the files install. It imports nothing from the service.

The command `daybreak` is built on it; see `daybreak --help`.
"""

from daybreak_client.database_sync import Callbacks, ResourceResult, SyncResult, sync
from daybreak_client.errors import (
    Busy,
    ClientError,
    Damaged,
    DatabaseFailed,
    Expired,
    Late,
    NotProved,
    NotPublished,
    Refused,
    Unreachable,
    Unsigned,
    WrongUse,
)
from daybreak_client.folder import LockWait
from daybreak_client.published import Account, PublishedFile, PublishedSnapshot
from daybreak_client.service import AccountFiles, Daybreak, FetchResult
from daybreak_client.table_files import read

__all__ = [
    "Account",
    "AccountFiles",
    "Busy",
    "Callbacks",
    "ClientError",
    "Damaged",
    "DatabaseFailed",
    "Daybreak",
    "Expired",
    "FetchResult",
    "Late",
    "LockWait",
    "NotProved",
    "NotPublished",
    "PublishedFile",
    "PublishedSnapshot",
    "Refused",
    "ResourceResult",
    "SyncResult",
    "Unreachable",
    "Unsigned",
    "WrongUse",
    "read",
    "sync",
]
