"""Export of one large Leader in several tasks: each task encodes a range of its rows, and one task joins the lines.

Encoding lines is most of the work. The joining task compresses and computes digests, because both need a file's content
in sequence. The files are byte for byte the same as without the split.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby, pairwise
from operator import add

from daybreak.catalogue.resources import Resource, resource_named
from daybreak.domain.errors import RunError, SourceError
from daybreak.export.buckets import Spill
from daybreak.export.duckdb_internals import packed_row
from daybreak.export.engine import engine_faults, temp_folder
from daybreak.export.job import ExportJob, ExportObserver, ResourceReport, RowCounts
from daybreak.export.leader_chunks import LeaderChunk
from daybreak.export.leader_files import LeaderFileWriter
from daybreak.export.leader_rows import leader_bundles
from daybreak.export.resource_export import encoding_of, resource_report
from daybreak.export.sql import identifier
from daybreak.export.survey import LeaderTotals, surveyed
from daybreak.export.work_tables import EmbeddedRows, WorkTables, open_work_tables
from daybreak.filestore.file_store import FileSink


@dataclass(frozen=True, slots=True)
class LeaderRange:
    """Totals of one Leader's rows in a range, and the keys of its first and last row. `counts` are those of all rows of
    the range, in its first Leader only.
    """

    totals: LeaderTotals
    counts: RowCounts
    first: bytes
    last: bytes


def range_chunks(
    rows: EmbeddedRows, resource: Resource, *, threads: int
) -> Iterator[tuple[LeaderRange, Iterator[LeaderChunk]]]:
    """Yield the range and the chunks of every Leader in `rows`, sorted by Leader.

    Consume the chunks of one Leader before you request the next Leader. Raises SourceError, and RunError when Leaders
    are missing.
    """
    with (
        engine_faults(f"Resource {resource.name}"),
        open_work_tables(rows, resource) as tables,
        # Closed after the executor, whose threads read it.
        closing(Spill(temp_folder(tables.connection))) as spill,
        ThreadPoolExecutor(threads, thread_name_prefix="ranges") as executor,
    ):
        (totals, counts), keys = tables.totals(frozenset(rows.leaders())), _keys(tables)
        ranges = {one.client_id: LeaderRange(one, RowCounts(), *keys[one.client_id]) for one in totals}
        if totals:
            first = totals[0].client_id
            ranges[first] = replace(ranges[first], counts=counts)
        leaders_seen = 0
        leaders = {one.client_id: one.rows for one in totals}
        bundles = leader_bundles(tables, tables.rows, leaders, spill, executor, threads, lambda: None)
        chunks = (chunk for bundle in bundles for part in bundle.lines for chunk in part)
        for client_id, own in groupby(chunks, key=lambda chunk: chunk.client_id):
            yield ranges[client_id], own
            leaders_seen += 1
        if leaders_seen != len(ranges):
            raise RunError(f"{resource.name}: received lines of {leaders_seen} Leaders, but {len(ranges)} have rows.")


def join_ranges(
    job: ExportJob,
    ranges: Sequence[LeaderRange],
    chunks: Iterable[LeaderChunk],
    sink: FileSink,
    observer: ExportObserver,
) -> ResourceReport:
    """Write the files of one Leader from its ranges, text formats only. `ranges` and `chunks` are in key order.

    The chunks of an unchanged Leader are not consumed. Raises SourceError when ranges overlap, RunError when lines are
    missing, and the errors of the sink.
    """
    for one, following in pairwise(ranges):
        if not one.last < following.first:
            raise SourceError(
                f"{job.resource}: ranges of Leader {one.totals.client_id} overlap. Start the run again, and report the "
                "error if it recurs."
            )
    totals = reduce(add, (one.totals for one in ranges))
    counts = reduce(add, (one.counts for one in ranges))
    [leader] = leaders = surveyed([totals], resource_named(job.resource), encoding_of(job))
    if job.previous.get(leader.client_id) == leader.fingerprint:
        observer.leaders_reused([leader.client_id])
        return resource_report(job, leaders, counts, reused_leaders=1)
    with (
        ThreadPoolExecutor(job.threads, thread_name_prefix="compress") as executor,
        LeaderFileWriter(job, sink, compressors=executor) as files,
    ):
        files.begin(leader)
        for chunk in chunks:
            files.add(chunk)
        files.finish()
    entries, deltas = files.finished()
    observer.entries_written(entries)
    observer.deltas_made(deltas)
    return resource_report(job, leaders, counts)


def _keys(tables: WorkTables) -> dict[str, tuple[bytes, bytes]]:
    key = packed_row(map(identifier, tables.resource.key))
    query = f'SELECT CAST("LEADER_ID" AS VARCHAR), min({key}), max({key}) FROM {tables.rows} GROUP BY "LEADER_ID"'
    return {leader: (first, last) for leader, first, last in tables.connection.execute(query).fetchall()}
