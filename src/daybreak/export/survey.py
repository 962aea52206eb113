"""Survey of a resource's rows: one aggregation by Leader, before anything is encoded.

It counts rows per Leader, collects the figures of the run report, and computes a fingerprint per Leader. Files of
Leaders with the same fingerprint are reused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import mul

from daybreak.catalogue.resources import Resource
from daybreak.export.duckdb_internals import CELL_MARK_BYTES, CELL_VALUE_BYTES, packed_row
from daybreak.export.engine import engine_version
from daybreak.export.sql import identifier, literal
from daybreak.export.work_tables import WorkTables

_MIN_WIDE_LEADER_BYTES = 4 << 20
_ENCODING_VERSION = 3
"""Increment it when the same rows and settings produce different bytes than before. All fingerprints then change."""


@dataclass(frozen=True, slots=True)
class SurveyedLeader:
    """A known Leader with rows. The fingerprint covers the rows and everything else that affects the bytes of its
    files. `text_bytes` is the size of its text cells.
    """

    client_id: str
    rows: int
    fingerprint: str
    text_bytes: int


@dataclass(frozen=True, slots=True)
class LeaderTotals:
    """Totals of one Leader, known or not: rows, sums of each row hash, bytes of text, and by column the cells that are
    not NULL and, for columns with listed values, those with another value.
    """

    client_id: str
    rows: int
    hashes: tuple[int, ...]
    text_bytes: int
    present: tuple[int, ...]
    unexpected: tuple[int, ...]

    def __add__(self, other: LeaderTotals) -> LeaderTotals:
        """Return the totals of two parts of the same Leader's rows."""
        return LeaderTotals(
            self.client_id,
            self.rows + other.rows,
            _added(self.hashes, other.hashes),
            self.text_bytes + other.text_bytes,
            _added(self.present, other.present),
            _added(self.unexpected, other.unexpected),
        )


@dataclass(frozen=True, slots=True)
class Survey:
    """Survey of one resource.

    `leaders` are the known Leaders with rows, sorted by client_id. `text_bytes` is the size of their text cells.
    `widest_row_bytes` is the average text of a row of the Leader with the widest rows, among Leaders large enough to
    affect memory.
    """

    leaders: tuple[SurveyedLeader, ...]
    unknown_leader_rows: int
    unexpected_values: Mapping[str, int]
    null_counts: Mapping[str, int]
    text_bytes: int
    widest_row_bytes: int

    @property
    def rows(self) -> int:
        """Rows of known Leaders."""
        return sum(leader.rows for leader in self.leaders)

    @property
    def non_null_columns(self) -> frozenset[str]:
        """Columns without a NULL in the rows of known Leaders."""
        return frozenset(name for name, count in self.null_counts.items() if not count)


def survey_rows(tables: WorkTables, known: Sequence[str], encoding: str) -> Survey:
    """Survey the resource. `known` are the Leaders with files, `encoding` the settings that affect the files' bytes."""
    return summarize(leader_totals(tables), tables.resource, known, encoding)


def leader_totals(tables: WorkTables) -> Iterator[LeaderTotals]:
    """Yield the totals of each Leader, in any order.

    Two independent 64-bit hashes cover a row: one combines a hash per cell, the other hashes the packed row, whose
    length also yields the size of the texts. Hashes are summed without overflow. Rows of a Leader have one order, so
    a sum identifies them as well as a hash over their sequence would.
    """
    resource = tables.resource
    names = [identifier(column.name) for column in resource.columns]
    cells = [name for name in names if name != identifier("LEADER_ID")]
    value_bytes = [
        CELL_VALUE_BYTES[column.type] if name in cells else 0
        for name, column in zip(names, resource.columns, strict=True)
    ]
    unexpected = [
        f"count(*) FILTER ({identifier(column.name)} NOT IN ({', '.join(map(literal, column.allowed))}))"
        for column in resource.columns
        if column.allowed
    ]
    row = packed_row(cells)
    totals = [
        "count(*)", f"sum(hash({', '.join(cells)}))", f"sum(hash({row}))", f"sum(octet_length({row}))",
        *(f"count({name})" for name in names), *unexpected,
    ]  # fmt: skip
    found = tables.connection.execute(
        f'SELECT CAST("LEADER_ID" AS VARCHAR), {", ".join(totals)} FROM {tables.ROWS} GROUP BY "LEADER_ID"'
    )
    while batch := found.fetchmany(10_000):
        for leader_id, rows, cell_hashes, row_hashes, packed_bytes, *counts in batch:
            present = tuple(counts[: len(names)])
            text_bytes = int(packed_bytes) - rows * len(cells) * CELL_MARK_BYTES - sum(map(mul, present, value_bytes))
            hashes = (cell_hashes, row_hashes)
            yield LeaderTotals(leader_id, rows, hashes, text_bytes, present, tuple(counts[len(names) :]))


def summarize(totals: Iterable[LeaderTotals], resource: Resource, known: Sequence[str], encoding: str) -> Survey:
    """Combine the totals, one per Leader, into a survey."""
    names = [column.name for column in resource.columns]
    encoding_digest = hashlib.sha256(
        f"{_ENCODING_VERSION}\0{engine_version()}\0{resource.name}\0{names}\0{encoding}".encode()
    ).digest()
    known_ids = frozenset(known)
    leaders: list[SurveyedLeader] = []
    unknown_rows = widest = 0
    nulls = dict.fromkeys(names, 0)
    unexpected = {column.name: 0 for column in resource.columns if column.allowed}
    for one in totals:
        if one.client_id not in known_ids:
            unknown_rows += one.rows
            continue
        if one.text_bytes > _MIN_WIDE_LEADER_BYTES:
            widest = max(widest, one.text_bytes // one.rows)
        for name, present in zip(names, one.present, strict=True):
            nulls[name] += one.rows - present
        for name, count in zip(unexpected, one.unexpected, strict=True):
            unexpected[name] += count
        leaders.append(SurveyedLeader(one.client_id, one.rows, _fingerprint(one, encoding_digest), one.text_bytes))
    leaders.sort(key=lambda leader: leader.client_id)
    text_bytes = sum(leader.text_bytes for leader in leaders)
    return Survey(
        leaders=tuple(leaders),
        unknown_leader_rows=unknown_rows,
        unexpected_values={name: count for name, count in unexpected.items() if count},
        null_counts=nulls,
        text_bytes=text_bytes,
        widest_row_bytes=max(widest, text_bytes // max(sum(leader.rows for leader in leaders), 1)),
    )


def _fingerprint(totals: LeaderTotals, encoding_digest: bytes) -> str:
    digest = hashlib.blake2b(digest_size=16, key=encoding_digest)
    digest.update(f"{totals.client_id} {totals.rows} {' '.join(map(str, totals.hashes))}".encode())
    return digest.hexdigest()


def _added(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))
