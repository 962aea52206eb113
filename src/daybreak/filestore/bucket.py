"""What the sink asks of a bucket, so that uploading can be read and tested without a cloud."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol


class Bucket(Protocol):
    """Objects by key. Every method raises FileStoreError (it will not work) or Unavailable (it may work later)."""

    def put(self, key: str, content: bytes, headers: Mapping[str, str]) -> str:
        """Stores an object in one request; its ETag without quotes, "" when the store gives none."""

    def put_parts(self, key: str, parts: Iterable[bytes], headers: Mapping[str, str]) -> str:
        """Stores an object from parts, which arrive while others are sent; nothing is seen of it before the last."""

    def check(self, key: str, bytes: int, sha256: str) -> None:
        """Reads an object back. Raises FileDamaged too."""

    def remove_below(self, prefix: str, keep: frozenset[str]) -> int:
        """Deletes everything below a prefix but the kept keys; how many."""
