"""A batch of lines, in the memory of its encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LineBatch:
    """Lines of neighboring rows.

    `ordinals` are int32, one per row. `lines` maps a kind of line to (offsets, content): offsets are int32, one more
    than rows, and row `i` is `content[offsets[i]:offsets[i + 1]]`.

    A view does not own its memory: keep a reference to `owner` while a view is in use.
    """

    ordinals: memoryview
    lines: Mapping[str, tuple[memoryview, memoryview]]
    owner: object
