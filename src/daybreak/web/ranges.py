"""Byte ranges (RFC 9110 §14): which parts of a file a Range header asks for."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_RANGES = 8
_BYTES = re.compile(r"bytes[ \t]*=(.+)", re.IGNORECASE | re.ASCII)
_SPEC = re.compile(r"([0-9]{0,30})-([0-9]{0,30})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Span:
    """The octets from `start` up to and not including `stop`."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Unsatisfiable:
    """No part of the file is asked for, or too many are (416)."""

    reason: str


def parse_ranges(header: str, size: int) -> tuple[Span, ...] | Unsatisfiable | None:
    """The parts of a file of `size` octets, in the order asked for, overlapping ones joined.

    None when the header is to be ignored: another unit, or malformed (§14.2).
    """
    given = _BYTES.fullmatch(header.strip())
    if given is None:
        return None
    specs = [spec.strip() for spec in given.group(1).split(",")]
    specs = [spec for spec in specs if spec]
    if len(specs) > MAX_RANGES:
        return Unsatisfiable(f"At most {MAX_RANGES} ranges can be asked for at once.")
    spans: list[Span] = []
    for spec in specs:
        match = _SPEC.fullmatch(spec)
        if match is None or spec == "-":
            return None
        first, last = match.groups()
        if not first:
            span = Span(max(0, size - int(last)), size)
        elif last and int(last) < int(first):
            return None
        else:
            span = Span(int(first), min(int(last) + 1, size) if last else size)
        if span.start < span.stop:
            spans.append(span)
    if not specs:
        return None
    if not spans:
        return Unsatisfiable(f"The file has {size} octets.")
    return _joined(spans)


def _joined(spans: list[Span]) -> tuple[Span, ...]:
    """Overlapping and touching parts as one, in the place of the first of them."""
    kept: list[Span] = []
    for span in spans:
        joined = span
        place = len(kept)
        for index in range(len(kept) - 1, -1, -1):
            other = kept[index]
            if other.start <= joined.stop and joined.start <= other.stop:
                joined = Span(min(other.start, joined.start), max(other.stop, joined.stop))
                del kept[index]
                place = index
        kept.insert(place, joined)
    return tuple(kept)
