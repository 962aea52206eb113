"""Export of one large Leader in several tasks: each task encodes a range of its rows, and one task joins the lines.

Encoding lines is most of the work. The joining task compresses and computes digests, because both need a file's content
in sequence. The files are byte for byte the same as without the split.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import reduce
from itertools import groupby, pairwise
from operator import add

from daybreak.catalogue.resources import Resource, resource_named
from daybreak.domain.errors import RunError, SourceError
from daybreak.export.engine import engine_faults
from daybreak.export.leader_chunks import LeaderChunk, split_by_leader
from daybreak.export.leader_files import LeaderFileWriter
from daybreak.export.ordered_lines import line_batches
from daybreak.export.resource_export import encoding_of, resource_report
from daybreak.export.sql import identifier
from daybreak.export.survey import LeaderTotals, leader_totals, summarize
from daybreak.export.work_tables import EmbeddedRows, WorkTables, open_work_tables
from daybreak.ports.files import FileSink
from daybreak.ports.sources import ExportJob, ExportObserver, ResourceReport

Key = tuple[str | None, ...]
"""Values of a row's key as text. For every type used in keys, texts and values have the same order."""


@dataclass(frozen=True, slots=True)
class LeaderRange:
    """Totals of one Leader's rows in a range, and the keys of its first and last row."""

    totals: LeaderTotals
    first: Key
    last: Key


def range_chunks(
    rows: EmbeddedRows, resource: Resource, kinds: Sequence[str], *, threads: int
) -> Iterator[tuple[LeaderRange, Iterator[LeaderChunk]]]:
    """Yield the range and the chunks of every Leader in `rows`, sorted by Leader. `kinds` are the kinds of line.

    Consume the chunks of one Leader before you request the next Leader. Raises SourceError, and RunError when Leaders
    are missing.
    """
    with engine_faults(f"Resource {resource.name}"), open_work_tables(rows, resource) as tables:
        totals = {one.client_id: one for one in leader_totals(tables)}
        survey = summarize(totals.values(), resource, list(totals), "")
        ranges = {client_id: _range(tables, one) for client_id, one in totals.items()}
        leaders_seen = 0
        with closing(line_batches(tables, survey, survey.leaders, kinds, threads=threads)) as batches:
            for ordinal, chunks in groupby(split_by_leader(batches), key=lambda chunk: chunk.ordinal):
                yield ranges[survey.leaders[ordinal].client_id], chunks
                leaders_seen += 1
        if leaders_seen != len(survey.leaders):
            raise RunError(
                f"{resource.name}: received lines of {leaders_seen} Leaders, but {len(survey.leaders)} have rows."
            )


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
        if not _sort_key(one.last) < _sort_key(following.first):
            raise SourceError(
                f"{job.resource}: ranges of Leader {one.totals.client_id} overlap. Start the run again, and report the "
                "error if it recurs."
            )
    totals = reduce(add, (one.totals for one in ranges))
    survey = summarize([totals], resource_named(job.resource), [totals.client_id], encoding_of(job))
    [leader] = survey.leaders
    if job.previous.get(leader.client_id) == leader.fingerprint:
        observer.leaders_reused([leader.client_id])
        return resource_report(job, survey, 1, 0)
    with LeaderFileWriter(job, sink) as files:
        files.begin(leader)
        for chunk in chunks:
            files.add(chunk)
        files.finish()
        files.flush()
    entries = files.finished_entries()
    observer.entries_written(entries)
    observer.deltas_made(files.finished_deltas())
    bytes_written = sum(stored.bytes for entry in entries for stored in entry.formats.values())
    return resource_report(job, survey, 0, bytes_written)


def _range(tables: WorkTables, totals: LeaderTotals) -> LeaderRange:
    key = tables.resource.key
    forward = ", ".join(f"{identifier(name)} NULLS FIRST" for name in key)
    backward = ", ".join(f"{identifier(name)} DESC NULLS LAST" for name in key)
    return LeaderRange(totals, _first_key(tables, totals, forward), _first_key(tables, totals, backward))


def _first_key(tables: WorkTables, totals: LeaderTotals, order: str) -> Key:
    texts = ", ".join(f"CAST({identifier(name)} AS VARCHAR)" for name in tables.resource.key)
    query = f'SELECT {texts} FROM {tables.ROWS} WHERE "LEADER_ID" = CAST($1 AS UUID) ORDER BY {order} LIMIT 1'
    return tuple(tables.connection.execute(query, [totals.client_id]).fetchall()[0])


def _sort_key(key: Key) -> tuple[tuple[bool, str], ...]:
    """Return the key in a form that sorts like the rows of a file, NULL first."""
    return tuple((cell is not None, cell or "") for cell in key)
