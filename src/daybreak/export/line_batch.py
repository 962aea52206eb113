"""Lines of neighbouring rows, as whatever made them hands them on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LineBatch:
    """`ordinals` are int32, one a row. `lines` has, by kind of line, int32 bounds (one more than rows) and the bytes
    they count in: row `i` is `bytes[bounds[i]:bounds[i + 1]]`.

    A view does not keep the memory it looks into: `owner` must be held for as long as one is in use.
    """

    ordinals: memoryview
    lines: Mapping[str, tuple[memoryview, memoryview]]
    owner: object


def int32_values(child: Any, length: int) -> memoryview:
    """The values of an int32 column of an Arrow batch."""
    return memoryview(child.buffer(1)).cast("B").cast("i")[child.offset : child.offset + length]
