"""Repository of erasures."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from daybreak.domain.erasure import Erasure, ReplacedFiles, SignedReceipt
from daybreak.domain.errors import Conflict
from daybreak.state.records import columns_of, values_of
from daybreak.state.schema import erasures
from daybreak.state.signature_tables import erasure_receipts
from daybreak.state.statements import Store

_COLUMNS = columns_of(Erasure, erasures)


class ErasureStore(Store):
    """Erasures of Members, which are kept as receipts."""

    def begin(self, erasure: Erasure) -> Erasure:
        """Add an erasure, and return it. If another one of the same Member has not finished, return that one."""
        is_open = erasures.c.member_sha256 == erasure.member_sha256, erasures.c.finished_at.is_(None)
        found = self._first(sa.select(*_COLUMNS).where(*is_open).with_for_update(), Erasure)
        if found is None:
            self._execute(sa.insert(erasures).values(values_of(erasure)))
        return found or erasure

    def reserve(self, erasure_id: str, keys: Sequence[str]) -> None:
        """Record keys as obsolete before their files are written, so that an interrupted erasure leaves no files."""
        found = self._locked(erasure_id)
        self._change(erasures, erasure_id, obsolete_keys=[*found.obsolete_keys, *keys])

    def replace(
        self, erasure_id: str, replaced: Sequence[ReplacedFiles], new_keys: Sequence[str], old_keys: Sequence[str]
    ) -> None:
        """Append replaced files. Their new keys are no longer obsolete, and the old ones are.

        Call it in the transaction that changes the manifest. Raises Conflict if `take_obsolete` has taken a new key.
        """
        found = self._locked(erasure_id)
        if not set(new_keys) <= set(found.obsolete_keys):
            raise Conflict("Another erasure has deleted the new files.")
        kept = [key for key in found.obsolete_keys if key not in set(new_keys)]
        files = (*found.replaced, *replaced)
        self._change(erasures, erasure_id, replaced=files, obsolete_keys=[*kept, *old_keys])

    def take_obsolete(self, erasure_id: str) -> list[str]:
        """Move the obsolete keys of all erasures to this one, and return them. Their files can then be deleted."""
        rows = self._execute(
            sa.select(erasures.c.erasure_id, erasures.c.obsolete_keys)
            .where(erasures.c.finished_at.is_(None))
            .order_by(erasures.c.erasure_id)
            .with_for_update()
        ).all()
        taken = [key for _, keys in rows for key in keys]
        for other_id, keys in rows:
            if keys and other_id != erasure_id:
                self._change(erasures, other_id, obsolete_keys=[])
        self._change(erasures, erasure_id, obsolete_keys=taken)
        return taken

    def get(self, erasure_id: str) -> Erasure | None:
        """Return an erasure, None if it is unknown."""
        return self._first(sa.select(*_COLUMNS).where(erasures.c.erasure_id == erasure_id), Erasure)

    def finish(self, erasure_id: str, now: datetime) -> None:
        """Record that the files of all recorded keys are deleted, and that the erasure has finished."""
        self._change(erasures, erasure_id, finished_at=now, obsolete_keys=[])

    def add_receipt(self, erasure_id: str, client_id: str, content: bytes, signature: bytes) -> None:
        """Add the signed receipt of an account."""
        texts = {"content": content.decode(), "signature": signature.decode()}
        row = {"erasure_id": erasure_id, "client_id": client_id, **texts}
        self._upsert(erasure_receipts, [row])

    def receipts(self, erasure_id: str) -> dict[str, tuple[str, str]]:
        """Return the signed receipts of an erasure: statement and signature by account."""
        table = erasure_receipts.c
        rows = self._execute(
            sa.select(table.client_id, table.content, table.signature).where(table.erasure_id == erasure_id)
        )
        return {client_id: (content, signature) for client_id, content, signature in rows}

    def account_receipts(self, client_id: str, offset: int, limit: int) -> list[SignedReceipt]:
        """Return signed receipts of an account, oldest first."""
        table = erasure_receipts.c
        statement = (
            sa.select(table.erasure_id, erasures.c.finished_at, table.content, table.signature)
            .join(erasures, erasures.c.erasure_id == table.erasure_id)
            .where(table.client_id == client_id)
            .order_by(erasures.c.finished_at, table.erasure_id)
        )
        return self._all(statement.offset(offset).limit(limit), SignedReceipt)

    def list_all(self) -> list[Erasure]:
        """Return all erasures, oldest first."""
        return self._all(sa.select(*_COLUMNS).order_by(erasures.c.started_at, erasures.c.erasure_id), Erasure)

    def _locked(self, erasure_id: str) -> Erasure:
        statement = sa.select(*_COLUMNS).where(erasures.c.erasure_id == erasure_id).with_for_update()
        return Erasure(*self._execute(statement).one())
