"""Port of the erasures in the state database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from daybreak.domain.erasure import Erasure, ReplacedFiles


class ErasureStore(Protocol):
    """Erasures of Members, which are kept as receipts."""

    def begin(self, erasure: Erasure) -> Erasure:
        """Add an erasure, and return it. If another one of the same Member has not finished, return that one."""

    def reserve(self, erasure_id: str, keys: Sequence[str]) -> None:
        """Record keys as obsolete before their files are written, so that an interrupted erasure leaves no files."""

    def replace(
        self, erasure_id: str, replaced: Sequence[ReplacedFiles], new_keys: Sequence[str], old_keys: Sequence[str]
    ) -> None:
        """Append replaced files. Their new keys are no longer obsolete, and the old ones are.

        Call it in the transaction that changes the manifest. Raises Conflict if `take_obsolete` has taken a new key.
        """

    def take_obsolete(self, erasure_id: str) -> list[str]:
        """Move the obsolete keys of all erasures to this one, and return them. Their files can then be deleted."""

    def get(self, erasure_id: str) -> Erasure | None:
        """Return an erasure, None if it is unknown."""

    def finish(self, erasure_id: str, now: datetime) -> None:
        """Record that the files of all recorded keys are deleted, and that the erasure has finished."""

    def list_all(self) -> list[Erasure]:
        """Return all erasures, oldest first."""
