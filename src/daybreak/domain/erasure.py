"""Erasures of Members from stored files, and their receipts."""

import hashlib
from dataclasses import dataclass
from datetime import datetime

import msgspec


class ReplacedFiles(msgspec.Struct, frozen=True):
    """Files of one resource of one Leader in one snapshot that an erasure replaced. `rows` are the removed rows."""

    snapshot_id: str
    client_id: str
    resource: str
    rows: int


@dataclass(frozen=True, slots=True)
class Erasure:
    """The erasure of one Member, which is its receipt when it has finished.

    The state database has no identifier of the Member: `member_sha256` is the SHA-256 of its MEMBER_ID.
    `obsolete_keys` are files that no manifest lists any more, and that are still to be deleted.
    """

    erasure_id: str
    member_sha256: str
    requested_by: str
    started_at: datetime
    finished_at: datetime | None = None
    replaced: tuple[ReplacedFiles, ...] = ()
    obsolete_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SignedReceipt:
    """The signed receipt of an account."""

    erasure_id: str
    finished_at: datetime
    statement: str
    signature: str


def member_digest(member_id: str) -> str:
    """Return the SHA-256 (hex) of a MEMBER_ID in lower case."""
    return hashlib.sha256(member_id.encode("ascii")).hexdigest()
