"""A Leader too large for one place: its lines are made range by range, anywhere, and joined in one.

Making lines is most of the work. What is left to the place that joins them, compression and digests, needs a file's
content in a row; so the joined files are byte for byte those of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import reduce
from itertools import groupby, pairwise
from operator import add
from typing import Any

from daybreak.catalogue.resources import Resource
from daybreak.domain.errors import RunError, SourceError
from daybreak.domain.snapshot import ManifestEntry
from daybreak.export.content import text_format
from daybreak.export.engine import engine_faults
from daybreak.export.file_making import FileMaking
from daybreak.export.gzip_member import codec_named
from daybreak.export.line_stream import line_batches
from daybreak.export.lines import quoted
from daybreak.export.resource_export import recipe_of, report_of, shaped_relation
from daybreak.export.splitting import Run, runs
from daybreak.export.survey import LeaderSums, leader_sums, surveyed
from daybreak.ports.files import FileSink
from daybreak.ports.sources import EmbeddedReading, ResourceReport

Key = tuple[str | None, ...]
"""A row's place in the order, as text: for the types that keys have, texts are in the order of their values."""


@dataclass(frozen=True, slots=True)
class RangeFigures:
    """What one range holds of one Leader, and the keys of its first and last row."""

    sums: LeaderSums
    first: Key
    last: Key


def range_lines(
    reading: EmbeddedReading, resource: Resource, columns: Sequence[str], *, threads: int
) -> Iterator[tuple[RangeFigures, Iterator[Run]]]:
    """The figures and the lines of every Leader in the reading, Leaders sorted; `columns` are the kinds of line. Each
    one's runs must be taken before the next is asked for. Raises SourceError, and RunError when Leaders are missing.
    """
    with engine_faults(f"Resource {resource.name}"), closing(reading.cursor()) as cursor:
        relation = shaped_relation(cursor, reading, resource)
        sums = {one.client_id: one for one in leader_sums(cursor, relation, resource)}
        found = surveyed(sums.values(), resource, list(sums), "")
        ends = {client_id: _ends(cursor, relation, resource, client_id) for client_id in sums}
        with closing(
            line_batches(cursor, relation, resource, columns, found, found.leaders, threads=threads)
        ) as batches:
            came = 0
            for ordinal, own in groupby(runs(batches), key=lambda run: run.ordinal):
                client_id = found.leaders[ordinal].client_id
                yield RangeFigures(sums[client_id], *ends[client_id]), own
                came += 1
        if came != len(found.leaders):
            raise RunError(f"{resource.name}: lines of {came} Leaders came where {len(found.leaders)} have rows.")


def join_ranges(
    resource: Resource,
    formats: Sequence[str],
    sink: FileSink,
    figures: Sequence[RangeFigures],
    lines: Iterable[Run],
    *,
    previous: Mapping[str, str],
    threads: int,
    compression: str,
    on_entries: Callable[[list[ManifestEntry]], None],
    on_carried: Callable[[list[str]], None],
) -> ResourceReport:
    """Makes the files of one Leader from its ranges: `figures` and `lines` in the order of the ranges, text formats
    only. An unchanged Leader's lines are left alone. Raises SourceError when the ranges are not one order, RunError
    when lines are missing, and what the sink raises.
    """
    for one, other in pairwise(figures):
        if not _place(one.last) < _place(other.first):
            raise SourceError(
                f"{resource.name}: the ranges of Leader {one.sums.client_id} overlap. Nothing of this run is used."
            )
    whole = reduce(add, (one.sums for one in figures))
    found = surveyed([whole], resource, [whole.client_id], recipe_of(formats, compression))
    [leader] = found.leaders
    if previous.get(leader.client_id) == leader.fingerprint:
        on_carried([leader.client_id])
        return report_of(resource, found, 1, 0)
    texts = [text_format(resource, name) for name in formats]
    with FileMaking(resource.name, formats, texts, sink, codec_named(compression), others={}, threads=threads) as files:
        files.begin(leader)
        for run in lines:
            files.add(run)
        files.finish()
        files.flush()
    entries = files.finished()
    on_entries(entries)
    written = sum(stored.bytes for entry in entries for stored in entry.formats.values())
    return report_of(resource, found, 0, written)


def _ends(cursor: Any, relation: str, resource: Resource, client_id: str) -> tuple[Key, Key]:
    """The keys of a Leader's first and last row."""
    keys = ", ".join(f"CAST({quoted(name)} AS VARCHAR)" for name in resource.key)
    forwards = ", ".join(f"{quoted(name)} NULLS FIRST" for name in resource.key)
    backwards = ", ".join(f"{quoted(name)} DESC NULLS LAST" for name in resource.key)

    def end(order: str) -> Key:
        query = f'SELECT {keys} FROM {relation} WHERE "LEADER_ID" = CAST($1 AS UUID) ORDER BY {order} LIMIT 1'
        return tuple(cursor.execute(query, [client_id]).fetchall()[0])

    return end(forwards), end(backwards)


def _place(key: Key) -> tuple[tuple[bool, str], ...]:
    """NULL comes first, as in the files."""
    return tuple((cell is not None, cell or "") for cell in key)
