"""Lines by Leader."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LeaderChunk:
    """Lines of neighboring rows of one Leader, by kind of line (csv, json)."""

    client_id: str
    rows: int
    lines: Mapping[str, memoryview]


@dataclass(frozen=True, slots=True)
class LineBundle:
    """Lines of neighboring Leaders, which are complete.

    The lines of a large bundle stay valid, but must be requested in the thread that exports the resource. Other lines
    may be requested in any thread; each list overwrites the lines of the previous list.
    """

    lines: Iterator[list[LeaderChunk]]
    is_large: bool
