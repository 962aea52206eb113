"""Application of a delta to a full CSV file, to check that it yields the next one."""

import hashlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, groupby

from daybreak.catalogue.resources import Resource
from daybreak.export.delta.csv_rows import KeyOrder, SortKey, csv_rows, row_batches
from daybreak.export.delta.delta_lines import delta_header
from daybreak.export.line_sql import csv_header

_BATCH_BYTES = 1 << 20
_OPERATION_BYTES = len(b'"I",')


def applied_digest(
    resource: Resource, full: Iterator[bytes], delta: Iterator[bytes], constants: Mapping[str, str | None]
) -> str:
    """Return the SHA-256 of the CSV file that results from a decompressed full file and a decompressed delta.

    Raises ValueError if a header is not that of the resource.
    """
    digest = hashlib.sha256()
    batch = bytearray()
    for row in applied_rows(resource, full, delta, constants):
        batch += row
        if len(batch) > _BATCH_BYTES:
            digest.update(batch)
            batch.clear()
    digest.update(batch)
    return digest.hexdigest()


def applied_rows(
    resource: Resource, full: Iterator[bytes], delta: Iterator[bytes], constants: Mapping[str, str | None]
) -> Iterator[bytes]:
    """Yield the header and the rows of the resulting file, in the order of the key. Raises ValueError."""
    batches, changes = row_batches(full), csv_rows(delta)
    header = csv_header(resource)
    first, *rest = next(filter(None, batches), [b""])
    if first != header or next(changes, b"") != delta_header(resource):
        raise ValueError("a header is not that of the resource")
    yield header
    order = KeyOrder(resource)
    suffix = b"".join(b"," + (constants[name] or "").encode() for name in resource.constants if constants) + b"\n"
    groups = _changes(changes, order)
    changed = next(groups, None)
    for batch in chain([rest], batches):
        rows = [row[:-1].rsplit(b",", len(resource.constants))[0] + suffix for row in batch] if constants else batch
        position = 0
        while changed is not None:
            # Most rows need no key.
            start = bisect_left(rows, changed.key, position, key=order.key)
            end = start
            while end < len(rows) and order.key(rows[end]) == changed.key:
                end += 1
            yield from rows[position : start if changed.deletes else end]
            position = end
            if position == len(rows):
                # The next batch may begin with the same key.
                break
            yield from changed.inserted
            changed = next(groups, None)
        yield from rows[position:]
    while changed is not None:
        yield from changed.inserted
        changed = next(groups, None)


@dataclass(frozen=True, slots=True)
class _Change:
    """Lines of a delta with the same key."""

    key: SortKey
    deletes: bool
    inserted: list[bytes]


def _changes(lines: Iterator[bytes], order: KeyOrder) -> Iterator[_Change]:
    for key, group in groupby(lines, lambda line: order.key(line, _OPERATION_BYTES)):
        same_key = list(group)
        inserted = [line[_OPERATION_BYTES:] for line in same_key if line.startswith(b'"I"')]
        yield _Change(key, len(inserted) < len(same_key), inserted)
