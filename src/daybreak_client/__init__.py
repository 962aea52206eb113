"""Daybreak's client: what consumers of the files install. It imports nothing of the service.

The command `daybreak` is made of it; see `daybreak --help`.
"""

from daybreak_client.errors import ClientError, Damaged, NotPublished, Refused, Unreachable, WrongUse
from daybreak_client.published import Account, Published, PublishedFile
from daybreak_client.service import AccountFiles, Daybreak, Fetched

__all__ = [
    "Account",
    "AccountFiles",
    "ClientError",
    "Damaged",
    "Daybreak",
    "Fetched",
    "NotPublished",
    "Published",
    "PublishedFile",
    "Refused",
    "Unreachable",
    "WrongUse",
]
