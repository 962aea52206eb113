"""One resource, from its rows to the manifest entries of all Leaders."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

from daybreak.catalogue.columns import Column
from daybreak.catalogue.resources import Resource, resource_named
from daybreak.domain.errors import RunError
from daybreak.domain.snapshot import ManifestEntry, StoredFormat
from daybreak.export.content import TextFormat, line_columns, text_format
from daybreak.export.engine import ENGINE_TYPES, engine_faults
from daybreak.export.file_making import FileMaking
from daybreak.export.gzip_member import Codec, codec_named
from daybreak.export.line_stream import line_batches, number_leaders, row_order
from daybreak.export.lines import quoted
from daybreak.export.parquet_files import PARQUET, ParquetFiles
from daybreak.export.passes import wide_last
from daybreak.export.splitting import runs
from daybreak.export.survey import LeaderRows, Survey, survey
from daybreak.ports.files import FileSink
from daybreak.ports.sources import EmbeddedReading, ResourceReport

_ENTRIES_AT_ONCE = 2000


def export_resource(
    reading: EmbeddedReading,
    resource: Resource | str,
    formats: Sequence[str],
    sink: FileSink,
    *,
    previous: Mapping[str, str] | None = None,
    threads: int = 2,
    compression: str = "igzip-2",
    on_entries: Callable[[list[ManifestEntry]], None],
    on_carried: Callable[[list[str]], None] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> ResourceReport:
    """Makes all files of one resource and hands them to the sink, which is not sealed here.

    `formats` are names of the catalogue's formats. `previous` gives, per client_id, the fingerprint
    in the snapshot before: Leaders whose rows and settings are the same are not written again but
    named to `on_carried`. `on_entries` gets manifest entries in batches, first the shared
    header-only one with client_id "". `on_progress` gets the rows done so far. All three are
    called from the calling thread.

    The same rows give the same bytes, whatever the threads. Raises SourceError when rows come out
    of order or a model fails, RunError when rows are missing, and what the sink raises.
    """
    if isinstance(resource, str):
        resource = resource_named(resource)
    codec = codec_named(compression)
    texts = [text_format(resource, name) for name in formats if name != PARQUET]
    progress = on_progress or _say_nothing
    with engine_faults(f"Resource {resource.name}"), closing(reading.cursor()) as cursor:
        parquet = ParquetFiles(cursor, resource, sink) if PARQUET in formats else None
        on_entries([_header_only(resource, formats, texts, parquet, sink, codec)])
        relation = shaped_relation(cursor, reading, resource)
        found = survey(cursor, relation, resource, reading.leaders(), recipe_of(formats, compression))
        before = previous or {}
        carried = [x.client_id for x in found.leaders if before.get(x.client_id) == x.fingerprint]
        if carried and on_carried is not None:
            on_carried(carried)
        kept = frozenset(carried)
        wanted = wide_last([leader for leader in found.leaders if leader.client_id not in kept])
        carried_rows = found.rows - sum(leader.rows for leader in wanted)
        progress(carried_rows)
        written = 0
        if wanted:
            written = _make_files(
                cursor,
                relation,
                resource,
                formats=formats,
                texts=texts,
                parquet=parquet,
                sink=sink,
                codec=codec,
                wanted=wanted,
                found=found,
                threads=threads,
                on_entries=on_entries,
                on_progress=lambda rows: progress(carried_rows + rows),
            )
    return report_of(resource, found, len(carried), written)


def recipe_of(formats: Sequence[str], compression: str) -> str:
    """What shapes the bytes of a Leader's files besides its rows."""
    return f"{compression} {','.join(formats)}"


def report_of(resource: Resource, found: Survey, carried: int, bytes_written: int) -> ResourceReport:
    """What the survey found, and what came of it."""
    return ResourceReport(
        resource=resource.name,
        rows=found.rows,
        leaders=len(found.leaders),
        carried=carried,
        unknown_leader_rows=found.unknown_leader_rows,
        unexpected_values=found.unexpected_values,
        null_counts=found.null_counts,
        bytes_written=bytes_written,
    )


def _say_nothing(rows: int) -> None:
    del rows


def _header_only(
    resource: Resource,
    formats: Sequence[str],
    texts: Sequence[TextFormat],
    parquet: ParquetFiles | None,
    sink: FileSink,
    codec: Codec,
) -> ManifestEntry:
    stored = {} if parquet is None else {PARQUET: parquet.empty()}
    for format in texts:
        written = sink.write("", resource.name, format.name, (codec.member(format.empty),))
        stored[format.name] = StoredFormat(
            written.bytes,
            written.sha256,
            len(format.empty),
            hashlib.sha256(format.empty).hexdigest(),
            written.key,
        )
    return ManifestEntry("", resource.name, 0, "", {name: stored[name] for name in formats})


def shaped_relation(cursor: Any, reading: EmbeddedReading, resource: Resource) -> str:
    """The resource's rows in our types, under a name the cursor knows."""
    columns = ", ".join(_cast(column) for column in resource.columns)
    name = f"rows_of_{resource.name}"
    cursor.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT {columns} FROM ({reading.rows(resource.name)})")
    return name


def _cast(column: Column) -> str:
    name = quoted(column.name)
    return f"CAST({name} AS {ENGINE_TYPES[column.type]}) AS {name}"


def _make_files(
    cursor: Any,
    relation: str,
    resource: Resource,
    *,
    formats: Sequence[str],
    texts: Sequence[TextFormat],
    parquet: ParquetFiles | None,
    sink: FileSink,
    codec: Codec,
    wanted: Sequence[LeaderRows],
    found: Survey,
    threads: int,
    on_entries: Callable[[list[ManifestEntry]], None],
    on_progress: Callable[[int], None],
) -> int:
    """Makes the wanted Leaders' files; the bytes written."""
    others: Mapping[str, Mapping[str, StoredFormat]] = {}
    if parquet is not None:
        number_leaders(cursor, wanted)
        others = parquet.make(relation, row_order(resource), wanted, on_progress if not texts else _say_nothing)
    columns = line_columns(texts)
    bytes_written = 0
    rows_done = 0
    last = -1

    def deliver(entries: list[ManifestEntry]) -> None:
        nonlocal bytes_written
        if entries:
            bytes_written += sum(f.bytes for entry in entries for f in entry.formats.values())
            on_entries(entries)

    if not texts:
        deliver(
            [
                ManifestEntry(
                    leader.client_id, resource.name, leader.rows, leader.fingerprint, others[leader.client_id]
                )
                for leader in wanted
            ]
        )
        return bytes_written
    with (
        FileMaking(resource.name, formats, texts, sink, codec, others=others, threads=threads) as making,
        closing(line_batches(cursor, relation, resource, columns, found, wanted, threads=threads)) as batches,
    ):
        collected: list[ManifestEntry] = []
        for run in runs(batches):
            if run.ordinal != last:
                making.begin(wanted[run.ordinal])
                last = run.ordinal
            making.add(run)
            rows_done += run.rows
            on_progress(rows_done)
            collected += making.finished()
            if len(collected) >= _ENTRIES_AT_ONCE:
                deliver(collected)
                collected = []
        making.finish()
        if last != len(wanted) - 1 or rows_done != sum(leader.rows for leader in wanted):
            raise RunError(
                f"{resource.name}: {rows_done} rows of {last + 1} Leaders came where "
                f"{len(wanted)} Leaders have rows: the stream was cut or the source changed."
            )
        making.flush()
    deliver(collected + making.finished())
    return bytes_written
