"""Range headers (RFC 9110 §14)."""

import re
from dataclasses import dataclass

MAX_RANGES = 8
_BYTES = re.compile(r"bytes[ \t]*=(.+)", re.IGNORECASE | re.ASCII)
_SPEC = re.compile(r"([0-9]{0,30})-([0-9]{0,30})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes from `start` up to and excluding `stop`."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Unsatisfiable:
    """The header selects no part of the file, or too many (416)."""

    reason: str


def parse_ranges(header: str, size: int) -> tuple[Span, ...] | Unsatisfiable | None:
    """Parse a Range header for a file of `size` bytes.

    Returns:
        The requested parts in their order, with overlapping ones merged. None when the header must be ignored, because
        its unit is not `bytes` or it is malformed (§14.2).
    """
    matched = _BYTES.fullmatch(header.strip())
    if matched is None:
        return None
    specs = [spec.strip() for spec in matched.group(1).split(",")]
    specs = [spec for spec in specs if spec]
    if len(specs) > MAX_RANGES:
        return Unsatisfiable(f"At most {MAX_RANGES} ranges are allowed in one request.")
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
        return Unsatisfiable(f"The file has {size} bytes.")
    return _merged(spans)


def _merged(spans: list[Span]) -> tuple[Span, ...]:
    """Merge overlapping and adjacent parts, at the position of the first of them."""
    kept: list[Span] = []
    for span in spans:
        merged = span
        position = len(kept)
        for index in range(len(kept) - 1, -1, -1):
            other = kept[index]
            if other.start <= merged.stop and merged.start <= other.stop:
                merged = Span(min(other.start, merged.start), max(other.stop, merged.stop))
                del kept[index]
                position = index
        kept.insert(position, merged)
    return tuple(kept)
