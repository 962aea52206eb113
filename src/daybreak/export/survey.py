"""Survey of a resource's rows: counts, and a fingerprint per Leader.

Leaders whose fingerprint is that of the previous snapshot do not need new files.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from daybreak.catalogue.resources import Resource

_ENCODING_VERSION = 5
"""Increment it when the same rows and settings produce other bytes or hashes. All fingerprints then change."""
SUM_MODULUS = 1 << 64


@dataclass(frozen=True, slots=True)
class LeaderTotals:
    """Rows of one Leader, and the sums of two 64-bit hashes of each row. `figures` are the sums of
    `catalogue.written_sums.figure_names`. All sums are modulo 2^64.

    Rows of a Leader have one order, so a sum identifies them as well as a hash over their sequence would.
    """

    client_id: str
    rows: int
    sums: tuple[int, int]
    figures: tuple[int, ...] = ()

    def __add__(self, other: "LeaderTotals") -> "LeaderTotals":
        """Return the totals of two parts of the same Leader's rows."""
        pairs = zip((*self.sums, *self.figures), (*other.sums, *other.figures), strict=True)
        first, second, *figures = ((a + b) % SUM_MODULUS for a, b in pairs)
        return LeaderTotals(self.client_id, self.rows + other.rows, (first, second), tuple(figures))


@dataclass(frozen=True, slots=True)
class SurveyedLeader:
    """A known Leader with rows. The fingerprint covers the rows and everything else that affects the bytes of its
    files. `figures` are those of its `LeaderTotals`.
    """

    client_id: str
    rows: int
    fingerprint: str
    figures: tuple[int, ...] = ()


def surveyed(totals: Sequence[LeaderTotals], resource: Resource, encoding: str) -> list[SurveyedLeader]:
    """Return the Leaders with their fingerprints. `encoding` are the settings that affect the files' bytes."""
    names = [column.name for column in resource.columns]
    key = hashlib.sha256(
        f"{_ENCODING_VERSION}\0v{duckdb.__version__}\0{resource.name}\0{names}\0{encoding}".encode()
    ).digest()

    def fingerprint(one: LeaderTotals) -> str:
        content = f"{one.client_id} {one.rows} {one.sums[0]} {one.sums[1]}".encode()
        return hashlib.blake2b(content, digest_size=16, key=key).hexdigest()

    return [SurveyedLeader(one.client_id, one.rows, fingerprint(one), one.figures) for one in totals]
