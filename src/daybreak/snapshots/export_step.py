"""The export step of a run: exports each resource and reuses the files of unchanged Leaders."""

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec import structs

from daybreak.domain.delta import LeaderDelta
from daybreak.domain.errors import FileStoreError, ReuseFailed, RunError
from daybreak.domain.run_report import ResourceFigures
from daybreak.domain.snapshot import ManifestEntry, Snapshot
from daybreak.export.job import ExportJob
from daybreak.filestore.file_keys import slice_of
from daybreak.filestore.file_store import FileSink
from daybreak.filestore.packs import sparse_packs
from daybreak.proof.accounting import WrittenFigures
from daybreak.snapshots.deltas import RunDeltas
from daybreak.snapshots.lease import Lease
from daybreak.snapshots.progress import Progress
from daybreak.snapshots.published_entries import PublishedEntries
from daybreak.snapshots.run_context import RunContext
from daybreak.sources.reading import Reading

CODEC_NAMES: Mapping[str, str] = {"fast": "igzip-2", "small": "zlib-ng-4"}
"""The codec of each value of `snapshot.compression`."""
_WATCH_INTERVAL_SECONDS = 0.5
_MOVED_PACKS = 4
"""Packs with little in use whose files each export moves to new packs, so that their number stays bounded."""

_ENTRIES_PER_TRANSACTION = 2000
_LEADERS_PER_TRANSACTION = 5000


class LeaderSet(Container[str]):
    """A set of some of the Leaders in `places`, which numbers all of them from 0.

    It has one byte for each Leader, because there may be 100,000 in each of nine sets.
    """

    def __init__(self, places: Mapping[str, int]) -> None:
        self._places = places
        self._has = bytearray(len(places))

    def update(self, client_ids: Iterable[str]) -> None:
        """Add Leaders."""
        for client_id in client_ids:
            self._has[self._places[client_id]] = True

    def __contains__(self, client_id: object) -> bool:
        place = self._places.get(client_id)  # type: ignore[call-overload]
        return place is not None and bool(self._has[place])


class ExportStep:
    """Exports resources of one reading, and observes each export.

    `previous` is the published snapshot whose files may be reused, None to write all files. `lost` are the Leaders, by
    resource, of which files are lost, so that they are written again. After the export, `resources` has the report's
    figures by resource, `reused` the Leaders whose files were reused, `unchanged` the resources whose rows are all as
    in `previous`, and `written` the figures for row accounting.
    """

    def __init__(
        self,
        context: RunContext,
        lease: Lease,
        progress: Progress,
        manifest: "ManifestWriter",
        deltas: RunDeltas,
        previous: Snapshot | None,
    ) -> None:
        self._context, self._lease, self._progress = context, lease, progress
        self._manifest, self._deltas, self._previous = manifest, deltas, previous
        self._watched_at = context.ticks()
        self._resource = ""
        self.lost: Mapping[str, Collection[str]] = {}
        self.written = WrittenFigures(())
        self.resources: dict[str, ResourceFigures] = {}
        self.reused: dict[str, LeaderSet] = {}
        self.unchanged: set[str] = set()
        self.reused_files = 0
        self.bytes_written = 0
        self.spill_bytes = 0

    def export(self, reading: Reading, resource: str, sink: FileSink) -> None:
        """Export one resource. Raises RunError (`verification_failed`) when the manifest lacks rows, ReuseFailed, and
        the errors of the reading and the sink.
        """
        began = self._progress.seconds
        self._resource = resource
        self.reused[resource] = reused = LeaderSet(self.written.places)
        settings = self._context.settings.snapshot
        codec, threads = CODEC_NAMES[settings.compression], settings.thread_count
        before = self._manifest.published.fingerprints(resource)
        previous, deltas = self._previous_fingerprints(resource, before), self._deltas.job(resource, before, reused)
        job = ExportJob(resource, settings.formats, codec, threads, previous, deltas)
        bytes_before = self.bytes_written
        report = reading.export(job, sink, self)
        written_bytes = self.bytes_written - bytes_before
        self._measure_spill(report.spill_bytes)
        is_unchanged = report.reused_leaders == report.leaders == len(before) - 1
        reused_bytes = 0
        if report.reused_leaders:
            # Packs lose files on days with changes only.
            moved = {} if is_unchanged else self._sparse_packs(sink)
            reused_bytes = self._reuse_files(before, moved, sink)
        self._deltas.complete(resource)
        if self._manifest.rows[resource] != report.rows:
            raise RunError(
                f"{resource}: the files have {self._manifest.rows[resource]} rows, but {report.rows} were read.",
                code="verification_failed",
            )
        if self._previous is not None and is_unchanged:
            self.unchanged.add(resource)
        self.written.add_sums(resource, report.sums)
        self.resources[resource] = ResourceFigures(
            rows=report.rows,
            leaders=report.leaders,
            carried=report.reused_leaders,
            bytes=written_bytes + reused_bytes,
            seconds=round(self._progress.seconds - began, 3),
            nulls=report.counts.nulls,
            unknown_leader_rows=report.counts.unknown,
            unexpected_values=report.counts.unexpected,
            deltas=self._deltas.resource_report(resource),
        )

    def entries_written(self, entries: list[ManifestEntry]) -> None:
        """Count the files, and add the entries to the manifest."""
        sizes = [stored.bytes for entry in entries for stored in entry.formats.values()]
        self._progress.add_files(len(sizes), sum(sizes))
        self.bytes_written += sum(
            stored.bytes for each in entries if each.client_id for stored in each.formats.values()
        )
        self._manifest.add(entries, self._manifest.published.of(self._resource, (entry.client_id for entry in entries)))
        self._deltas.entries_written(entries)
        self._add_written(entries)

    def deltas_made(self, deltas: list[LeaderDelta]) -> None:
        """Record the deltas of changed Leaders."""
        self._deltas.add(deltas)

    def leaders_reused(self, client_ids: list[str]) -> None:
        """Record the Leaders whose files are reused after the export."""
        self.reused[self._resource].update(client_ids)

    def rows_done(self, rows: int) -> None:
        """Record progress. Raises RunFenced or RunError when the run must end."""
        self._lease.check()
        self._progress.rows_done(rows)
        if self._context.ticks() - self._watched_at >= _WATCH_INTERVAL_SECONDS:
            self._watched_at = self._context.ticks()
            self._context.watch(self._progress.read())
            self._measure_spill()

    def _measure_spill(self, unnamed_bytes: int = 0) -> None:
        """Record the maximum size of the spill, the estimate for the next run. `unnamed_bytes` are those of files that
        are not in the folder.
        """
        if self._context.spill is not None:
            self.spill_bytes = max(self.spill_bytes, self._context.spill.used_bytes() + unnamed_bytes)

    def _add_written(self, entries: Sequence[ManifestEntry]) -> None:
        self.written.add_rows(self._resource, ((entry.client_id, entry.rows) for entry in entries if entry.client_id))

    def _previous_fingerprints(self, resource: str, before: Mapping[str, str]) -> Mapping[str, str]:
        """Return the fingerprints of Leaders whose files can be reused. `before` are all of the published snapshot."""
        if self._previous is None:
            return {}
        lost = self.lost.get(resource, ())
        return {client_id: before[client_id] for client_id in before if client_id not in lost} if lost else before

    def _reused_entries(self) -> Iterator[ManifestEntry]:
        return self._manifest.published.wanted(self._resource, self.reused[self._resource].__contains__)

    def _sparse_packs(self, sink: FileSink) -> dict[str, bytes]:
        """Return packs with little in use, whose files are written again so that the packs can be deleted."""
        keys = (stored.key for entry in self._reused_entries() for stored in entry.formats.values())
        try:
            return {pack: b"".join(sink.read(pack)) for pack in sparse_packs(keys)[:_MOVED_PACKS]}
        except FileStoreError as error:
            raise ReuseFailed(error.message) from error

    def _reuse_files(self, before: Mapping[str, str], moved: Mapping[str, bytes], sink: FileSink) -> int:
        """Reuse the files of unchanged Leaders, and write those in `moved` packs again. Return their size. `before` has
        the fingerprints of their entries.
        """
        size_bytes = 0
        entries = self._reused_entries()
        while some := list(islice(entries, _ENTRIES_PER_TRANSACTION)):
            self._lease.check()
            if any(entry.fingerprint != before[entry.client_id] for entry in some):
                raise ReuseFailed(f"{self._resource}: files of the published snapshot were replaced during the run.")
            reused = [self._reused(entry, moved, sink) for entry in some]
            sizes = [stored.bytes for entry in reused for stored in entry.formats.values()]
            size_bytes += sum(sizes)
            self.reused_files += len(sizes)
            self._progress.add_reused_files(len(sizes))
            self._manifest.add(reused, {entry.client_id: entry for entry in some})
            self._add_written(reused)
        return size_bytes

    def _reused(self, entry: ManifestEntry, moved: Mapping[str, bytes], sink: FileSink) -> ManifestEntry:
        """Add the unchanged files of a Leader. Return its entry."""
        formats = {}
        for name, stored in entry.formats.items():
            part = slice_of(stored.key) if moved else None
            if part is not None and part.key in moved:
                content = moved[part.key][part.offset :][: part.length]
                written = sink.write(entry.client_id, entry.resource, name, [content])
                if written.sha256 != stored.sha256:
                    raise ReuseFailed(f"The file {stored.key} is damaged: its SHA-256 does not match.")
                key = written.key
            else:
                try:
                    key = sink.reuse(stored.key, stored.bytes)
                except FileStoreError as error:
                    raise ReuseFailed(error.message) from error
            if key != stored.key:
                formats[name] = structs.replace(stored, key=key)
        return structs.replace(entry, formats={**entry.formats, **formats}) if formats else entry


class ManifestWriter:
    """Collects the manifest entries of one run. `rows` counts their rows by resource, `files` their files.

    `published` are the entries of the published snapshot. Files with the same bytes in it keep their age.
    """

    def __init__(self, snapshot: Snapshot, lease: Lease, published: PublishedEntries) -> None:
        self._snapshot, self._lease, self.published = snapshot, lease, published
        self._pending: list[ManifestEntry] = []
        self.rows: Counter[str] = Counter()
        self.files = 0

    def add_leaders(self, client_ids: Sequence[str]) -> None:
        """Write the Leaders of the snapshot."""
        own = self._snapshot
        self._lease.write_in_batches(
            client_ids,
            _LEADERS_PER_TRANSACTION,
            lambda some, stores: stores.snapshots.add_leaders(own.snapshot_id, own.fence, some),
        )

    def add(self, entries: Sequence[ManifestEntry], before: Mapping[str, ManifestEntry]) -> None:
        """Add entries. They are written when a transaction is full. `before` are the Leaders' published entries."""
        base = self.published.snapshot
        self._pending += entries if base is None else [with_since(entry, before, base) for entry in entries]
        for entry in entries:
            self.rows[entry.resource] += entry.rows
            self.files += len(entry.formats)
        if len(self._pending) >= _ENTRIES_PER_TRANSACTION:
            self.flush()

    def flush(self) -> None:
        """Write the entries added so far."""
        entries, self._pending = self._pending, []
        own = self._snapshot
        if entries:
            self._lease.write(lambda stores: stores.snapshots.add_entries(own.snapshot_id, own.fence, entries))


def with_since(entry: ManifestEntry, before: Mapping[str, ManifestEntry], base: Snapshot) -> ManifestEntry:
    """Return an entry of a run with `since` in files whose bytes are the same in `base`, the published snapshot with
    the entries `before`.

    Shared files have none: a Leader may have had rows in `base`, so the same bytes would be new for it.
    """
    assert base.version is not None  # the base is published
    assert base.published_at is not None
    old = before.get(entry.client_id) if entry.client_id else None
    if old is None:
        return entry
    formats = {}
    for name, stored in entry.formats.items():
        same = old.formats.get(name)
        is_same = same is not None and same.sha256 == stored.sha256
        since = same.since_in(base.version, base.published_at) if same is not None and is_same else None
        formats[name] = structs.replace(stored, since=since)
    return structs.replace(entry, formats=formats)
