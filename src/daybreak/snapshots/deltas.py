"""Deltas of one run: which publication they begin from, the previous files, and the figures of the report."""

import hashlib
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import structlog
from msgspec import convert

from daybreak.catalogue.resources import RESOURCES
from daybreak.catalogue.stored_columns import recorded_columns, types_of
from daybreak.domain.delta import (
    COLUMNS_CHANGED,
    DELTAS_DISABLED,
    FIRST_PUBLICATION,
    LARGER_THAN_FULL,
    NOT_MADE,
    LeaderDelta,
    ResourceDelta,
)
from daybreak.domain.run_report import DeltaFigures, RunDeltaFigures
from daybreak.domain.snapshot import ManifestEntry, Snapshot
from daybreak.export.job import DeltaBase, DeltaJob
from daybreak.snapshots.lease import Lease
from daybreak.snapshots.progress import Progress
from daybreak.snapshots.published_entries import PreviousFiles, PublishedEntries
from daybreak.snapshots.run_context import RunContext

_log = structlog.get_logger("daybreak.snapshots")
_DELTAS_PER_TRANSACTION = 2000


def columns_digest() -> str:
    """Return a digest of the columns and keys of all resources. Deltas need both to be the same on both sides."""
    parts = [f"{resource.name} {resource.column_names} {resource.key}" for resource in RESOURCES]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


class _CsvContent(NamedTuple):
    """What remains in memory of a CSV file that was written."""

    rows: int
    sha256: str


class RunDeltas:
    """Deltas of one run. They begin from the `published` snapshot."""

    def __init__(
        self, context: RunContext, snapshot: Snapshot, lease: Lease, progress: Progress, published: PublishedEntries
    ) -> None:
        self._context, self._snapshot, self._lease, self._progress = context, snapshot, lease, progress
        self._published = published
        self._base: Snapshot | None = None
        self._pending: list[LeaderDelta] = []
        self._bases: Mapping[str, DeltaBase] = {}
        self._reused: Container[str] = ()
        # The files written, by Leader. None if the Leader has a delta.
        self._written: dict[str, _CsvContent | None] = {}
        # The Leaders of both snapshots.
        self._lasting: frozenset[str] = frozenset()
        # Files that Leaders share, which are counted once.
        self._shared_keys: set[str] = set()
        self._figures: dict[str, Counter[str]] = {}
        self._reasons: dict[str, Counter[str]] = {}
        self._reason: str | None = None

    def begin(self) -> None:
        """Decide whether the run makes deltas, and record the decision. Raises RunFenced, Unavailable."""
        self._reason = self._reason_for_none()
        self._base = self._published.snapshot if self._reason is None else None
        own, base_id, reason = self._snapshot, self._base.snapshot_id if self._base else None, self._reason
        self._lease.write(lambda stores: stores.deltas.begin(own.snapshot_id, own.fence, base_id, reason))
        if self._reason is not None:
            _log.info("deltas.not_made", reason=self._reason)

    def compare_leaders(self, leaders: Sequence[str]) -> None:
        """Record the Leaders that the snapshot before did not have."""
        if self._base is None:
            return
        base_id, own = self._base.snapshot_id, self._snapshot
        former = self._context.state.read(lambda stores: frozenset(stores.snapshots.leaders(base_id)))
        self._lasting = former.intersection(leaders)
        new = [client_id for client_id in leaders if client_id not in former]
        self._lease.write_in_batches(
            new,
            _DELTAS_PER_TRANSACTION,
            lambda some, stores: stores.deltas.add_new_leaders(own.snapshot_id, own.fence, some),
        )

    def job(self, resource: str, before: Iterable[str], reused: Container[str]) -> DeltaJob | None:
        """Return the parameters of the deltas of one resource, None if the run makes none.

        `before` are the Leaders with an entry in the published snapshot, sorted. `reused` are those whose files are
        reused, as far as that is known.
        """
        if self._base is None:
            return None
        lasting = [client_id for client_id in before if client_id in self._lasting]
        self._bases, self._reused = PreviousFiles(self._published, resource, lasting, reused), reused
        self._written = {}
        self._figures[resource] = Counter()
        self._reasons[resource] = Counter()
        context = self._context
        return DeltaJob(
            self._bases,
            context.settings.snapshot.verify_deltas,
            self._snapshot.as_of.toordinal(),
            None if context.spill is None else str(context.spill.folder),
            parquet=context.settings.sharing.enabled,
        )

    def entries_written(self, entries: Sequence[ManifestEntry]) -> None:
        """Record entries of the resource whose files were written. Their deltas are added afterwards."""
        if self._base is not None:
            for entry in entries:
                csv = entry.formats.get("csv")
                self._written[entry.client_id] = _CsvContent(entry.rows, "" if csv is None else csv.content_sha256)

    def add(self, deltas: Sequence[LeaderDelta]) -> None:
        """Add deltas. They are written when a transaction is full."""
        self._pending.extend(deltas)
        self._written.update(dict.fromkeys(each.client_id for each in deltas))
        inserted = sum(each.delta.inserted for each in deltas)
        self._progress.add_delta(inserted, sum(each.delta.deleted for each in deltas))
        sizes: list[int] = []
        for each in deltas:
            delta, figures = each.delta, self._figures[each.resource]
            figures["inserted"] += delta.inserted
            figures["deleted"] += delta.deleted
            figures[delta.state] += 1
            for stored in delta.formats.values():
                if stored.key in self._shared_keys:
                    continue
                if not delta.has_rows:
                    self._shared_keys.add(stored.key)
                figures["bytes"] += stored.bytes
                sizes.append(stored.bytes)
            if delta.reason:
                self._reasons[each.resource][delta.reason] += 1
        self._progress.add_files(len(sizes), sum(sizes))
        if len(self._pending) >= _DELTAS_PER_TRANSACTION:
            self.flush()

    def complete(self, resource: str) -> None:
        """Add the Leaders of a resource whose file changed without a delta.

        A delta of first rows, or one that deletes the last ones, is larger than the full file.
        """
        shared = self._published.of(resource, [""]) if self._base is not None else {}
        empty_now = self._written.get("")
        if not shared or empty_now is None:
            return
        empty_before = DeltaBase(0, shared[""].formats["csv"])
        written, clients = self._written, iter(self._lasting)
        if empty_before.stored.content_sha256 == empty_now.sha256:
            # Leaders without rows on both sides have the same file.
            gone = (client_id for client_id in self._bases if client_id not in written)
            clients = chain(self._lasting.intersection(written), gone)
        missing = []
        for client_id in sorted(client_id for client_id in clients if client_id not in self._reused):
            now = written.get(client_id, empty_now)
            if now is None:
                continue
            before = self._bases.get(client_id)
            old = empty_before if before is None else before
            if old.stored.content_sha256 == now.sha256:
                continue
            is_shortcut = before is None or client_id not in written
            missing.append(
                LeaderDelta(
                    client_id,
                    resource,
                    ResourceDelta(
                        rows_before=old.rows,
                        rows_after=now.rows,
                        inserted=now.rows if is_shortcut else 0,
                        deleted=old.rows if is_shortcut else 0,
                        content_sha256_before=old.stored.content_sha256,
                        content_sha256_after=now.sha256,
                        reason=LARGER_THAN_FULL if is_shortcut else NOT_MADE,
                    ),
                )
            )
        self.add(missing)
        self._bases, self._written = {}, {}
        faults = {reason: count for reason, count in self._reasons[resource].items() if reason != LARGER_THAN_FULL}
        if faults:
            _log.warning("deltas.full_required", resource=resource, leaders=faults)

    def flush(self) -> None:
        """Write the deltas added so far."""
        deltas, self._pending = self._pending, []
        own = self._snapshot
        if deltas:
            self._lease.write(lambda stores: stores.deltas.add(own.snapshot_id, own.fence, deltas))

    def report(self) -> RunDeltaFigures:
        """Return the figures of all resources."""
        if self._base is None:
            return RunDeltaFigures(None, self._reason)
        total: Counter[str] = Counter()
        for figures in self._figures.values():
            total.update(figures)
        return RunDeltaFigures(self._base.snapshot_id, None, *(total[name] for name in _FIGURES))

    def resource_report(self, resource: str) -> DeltaFigures | None:
        """Return the figures of one resource, None if the run makes no deltas."""
        if self._base is None:
            return None
        figures = self._figures[resource]
        return convert({**figures, "reasons": self._reasons[resource]}, DeltaFigures)

    def _reason_for_none(self) -> str | None:
        """Return why the run makes no deltas, None if it makes them."""
        context, published = self._context, self._published.snapshot
        if not context.settings.snapshot.deltas:
            return DELTAS_DISABLED
        if published is None:
            return FIRST_PUBLICATION
        if published.report.columns not in (None, columns_digest()):
            return COLUMNS_CHANGED
        recorded = context.state.read(lambda stores: stores.snapshots.columns(published.snapshot_id))
        if recorded is not None and types_of(recorded) != types_of(recorded_columns()):
            return COLUMNS_CHANGED
        return None


_FIGURES = ("changed", "full_required", "inserted", "deleted", "bytes")
