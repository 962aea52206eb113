"""Lines by Leader."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LeaderChunk:
    """Lines of neighboring rows of one Leader, by kind of line (csv, json).

    Row `i` is `lines[kind]` from `offsets[kind][i] - offsets[kind][0]` to `offsets[kind][i + 1] - offsets[kind][0]`.
    Lines that another process encoded have no offsets.
    """

    client_id: str
    rows: int
    lines: Mapping[str, memoryview]
    offsets: Mapping[str, memoryview] = field(default_factory=dict)

    def copy(self) -> "LeaderChunk":
        """Return a chunk that stays valid."""
        lines = {kind: memoryview(bytes(view)) for kind, view in self.lines.items()}
        offsets = {kind: memoryview(bytes(view)).cast("i") for kind, view in self.offsets.items()}
        return LeaderChunk(self.client_id, self.rows, lines, offsets)


@dataclass(frozen=True, slots=True)
class LineBundle:
    """Lines of neighboring Leaders, which are complete.

    The lines of a large bundle stay valid, but must be requested in the thread that exports the resource. Other lines
    may be requested in any thread; each list overwrites the lines of the previous list.
    """

    lines: Iterator[list[LeaderChunk]]
    is_large: bool
