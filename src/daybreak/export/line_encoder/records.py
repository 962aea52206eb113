"""Layout of packed rows and records, as cells.h describes them."""

import struct
from dataclasses import dataclass

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.resources import Resource
from daybreak.export.line_encoder.runtime import Instance

KINDS = {
    ColumnType.TEXT: 0,
    ColumnType.UUID: 1,
    ColumnType.BIGINT: 2,
    ColumnType.BOOLEAN: 3,
    ColumnType.DATE: 4,
    ColumnType.TIMESTAMP: 5,
}
LEADER = "LEADER_ID"
_INCREASED = bytes((byte + 1) % 256 for byte in range(256))
HEADER = struct.Struct("<2I")
"""The header of a record: size of its cells, and ordinal of its Leader."""


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """Order of a record's cells: the columns that order the rows of a file, then the others. `key_cells` is the number
    of cells that are not in the order of the file.
    """

    resource: Resource
    cells: tuple[Column, ...]
    key_cells: int

    @classmethod
    def of(cls, resource: Resource) -> "RecordLayout":
        """Return the layout of a resource's records."""
        key = [resource.column(name) for name in (*resource.key, *resource.tie_break)]
        in_file = [column for column in resource.columns if column.name != LEADER]
        cells = (*key, *(column for column in in_file if column not in key))
        return cls(resource, cells, 0 if list(cells) == in_file else len(key))

    @property
    def packed_columns(self) -> tuple[str, ...]:
        """Names of the columns of a packed row in order."""
        return (LEADER, *(column.name for column in self.cells))


def packed_text(text: str | None) -> bytes:
    """Return a text as it is in packed rows."""
    return b"\1" if text is None else b"\2" + text.encode().translate(_INCREASED) + b"\0"


def write_words(instance: Instance, address: int, *words: int) -> None:
    """Write 32-bit words to an address."""
    content = struct.pack(f"<{len(words)}I", *words)
    instance.memory[address : address + len(content)] = content
