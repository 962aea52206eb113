"""The first look at a resource's rows: one aggregation by Leader, before anything is encoded.

It gives the rows per Leader, what the run report needs, and a fingerprint per Leader by which
unchanged Leaders are carried over instead of written again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Any

from daybreak.catalogue.resources import Resource
from daybreak.export.engine import engine_version
from daybreak.export.lines import literal, quoted
from daybreak.export.packed_row import MARK_BYTES, VALUE_BYTES, packed

_MATTERS_BYTES = 4 << 20
_RECIPE_VERSION = 3
"""Raised when the same rows and settings would give other bytes than before."""


@dataclass(frozen=True, slots=True)
class LeaderRows:
    """One Leader's rows: how many, a fingerprint of them and of what shapes their bytes, and what their texts hold."""

    client_id: str
    rows: int
    fingerprint: str
    text_bytes: int


@dataclass(frozen=True, slots=True)
class LeaderSums:
    """What the aggregation counts of one Leader, known or not: rows, the sum of each row hash, bytes of text, and
    by column the cells that are not NULL and, where values are listed, those with another."""

    client_id: str
    rows: int
    hashes: tuple[int, ...]
    text_bytes: int
    present: tuple[int, ...]
    unexpected: tuple[int, ...]

    def __add__(self, other: LeaderSums) -> LeaderSums:
        """The sums of two parts of the same Leader's rows."""
        return LeaderSums(
            self.client_id,
            self.rows + other.rows,
            _added(self.hashes, other.hashes),
            self.text_bytes + other.text_bytes,
            _added(self.present, other.present),
            _added(self.unexpected, other.unexpected),
        )


@dataclass(frozen=True, slots=True)
class Survey:
    """`leaders` are the known Leaders with rows, sorted. `text_bytes` is what the text cells
    of their rows hold together, `widest_row_bytes` a row's average for the Leader with the widest
    rows (of those with enough to matter)."""

    leaders: tuple[LeaderRows, ...]
    unknown_leader_rows: int
    unexpected_values: Mapping[str, int]
    null_counts: Mapping[str, int]
    text_bytes: int
    widest_row_bytes: int

    @property
    def rows(self) -> int:
        return sum(leader.rows for leader in self.leaders)


def survey(cursor: Any, relation: str, resource: Resource, known: Sequence[str], recipe: str) -> Survey:
    """Aggregates the relation by Leader. `recipe` is whatever else shapes the bytes."""
    return surveyed(leader_sums(cursor, relation, resource), resource, known, recipe)


def leader_sums(cursor: Any, relation: str, resource: Resource) -> Iterator[LeaderSums]:
    """The aggregation, Leader by Leader, in any order.

    Two 64-bit hashes of a whole row share no step: one combines a hash per cell, the other is of the packed row, by
    which texts are measured too. They are summed without overflow; rows of a Leader have one order, so a sum over them
    says as much as a hash over their sequence.
    """
    names = [quoted(column.name) for column in resource.columns]
    cells = [name for name in names if name != quoted("LEADER_ID")]
    fixed = [
        VALUE_BYTES[column.type] if name in cells else 0 for name, column in zip(names, resource.columns, strict=True)
    ]
    odd = [
        f"count(*) FILTER ({quoted(column.name)} NOT IN ({', '.join(map(literal, column.allowed))}))"
        for column in resource.columns
        if column.allowed
    ]
    row = packed(cells)
    sums = ["count(*)", f"sum(hash({', '.join(cells)}))", f"sum(hash({row}))", f"sum(octet_length({row}))",
            *(f"count({name})" for name in names), *odd]  # fmt: skip
    cursor.execute(f'SELECT CAST("LEADER_ID" AS VARCHAR), {", ".join(sums)} FROM {relation} GROUP BY "LEADER_ID"')
    while batch := cursor.fetchmany(10_000):
        for leader_id, rows, sum_one, sum_two, packed_bytes, *counts in batch:
            present, unexpected = tuple(counts[: len(names)]), tuple(counts[len(names) :])
            texts = int(packed_bytes) - rows * len(cells) * MARK_BYTES - sum(map(mul, present, fixed))
            yield LeaderSums(leader_id, rows, (sum_one, sum_two), texts, present, unexpected)


def surveyed(sums: Iterable[LeaderSums], resource: Resource, known: Sequence[str], recipe: str) -> Survey:
    """What the sums say, one for each Leader."""
    names = [column.name for column in resource.columns]
    recipe_digest = hashlib.sha256(
        f"{_RECIPE_VERSION}\0{engine_version()}\0{resource.name}\0{names}\0{recipe}".encode()
    ).digest()
    known_set = frozenset(known)
    found: list[LeaderRows] = []
    unknown = 0
    text_bytes = 0
    widest = 0
    nulls = dict.fromkeys(names, 0)
    odd_counts = {column.name: 0 for column in resource.columns if column.allowed}
    for leader in sums:
        if leader.client_id not in known_set:
            unknown += leader.rows
            continue
        text_bytes += leader.text_bytes
        if leader.text_bytes > _MATTERS_BYTES:
            widest = max(widest, leader.text_bytes // leader.rows)
        for name, present in zip(names, leader.present, strict=True):
            nulls[name] += leader.rows - present
        for name, count in zip(odd_counts, leader.unexpected, strict=True):
            odd_counts[name] += count
        digest = hashlib.blake2b(digest_size=16, key=recipe_digest)
        digest.update(f"{leader.client_id} {leader.rows} {' '.join(map(str, leader.hashes))}".encode())
        found.append(LeaderRows(leader.client_id, leader.rows, digest.hexdigest(), leader.text_bytes))
    found.sort(key=lambda leader: leader.client_id)
    return Survey(
        tuple(found),
        unknown,
        {name: count for name, count in odd_counts.items() if count},
        nulls,
        text_bytes,
        max(widest, text_bytes // max(sum(leader.rows for leader in found), 1)),
    )


def _added(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))
