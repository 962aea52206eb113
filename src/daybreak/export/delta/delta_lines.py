"""Lines of delta files: `_OP`, then the columns of the resource, as CSV and as JSON."""

import re
from collections.abc import Sequence

from daybreak.catalogue.columns import TEXTS, TIMES
from daybreak.catalogue.resources import Resource
from daybreak.domain.delta import OPERATION
from daybreak.export.delta.csv_rows import unquoted
from daybreak.export.line_sql import JSON_SEPARATOR, csv_header

_ESCAPED = re.compile(rb'[\x00-\x1f"\\]')
_SHORT = {b'"': b'\\"', b"\\": b"\\\\", b"\b": b"\\b", b"\f": b"\\f", b"\n": b"\\n", b"\r": b"\\r", b"\t": b"\\t"}


def delta_header(resource: Resource) -> bytes:
    """Return the CSV header record of a delta."""
    return f'"{OPERATION}",'.encode() + csv_header(resource)


class DeltaLines:
    """Lines of one resource's deltas. Cells are as in the CSV file. A JSON line begins with its separator."""

    def __init__(self, resource: Resource) -> None:
        self._is_key = [name in resource.key for name in resource.column_names]
        self._columns = [(f'"{column.name}":'.encode(), column.type) for column in resource.columns]

    def delete(self, cells: Sequence[bytes]) -> tuple[bytes, bytes]:
        """Return the lines that delete all rows with the key of this row."""
        keys = [cell if is_key else b"" for cell, is_key in zip(cells, self._is_key, strict=True)]
        return b'"D",' + b",".join(keys) + b"\n", self._json(b"D", keys)

    def insert(self, cells: Sequence[bytes]) -> tuple[bytes, bytes]:
        """Return the lines that insert this row."""
        return b'"I",' + b",".join(cells) + b"\n", self._json(b"I", cells)

    def _json(self, operation: bytes, cells: Sequence[bytes]) -> bytes:
        parts = [JSON_SEPARATOR + b'{"_OP":"' + operation + b'"']
        for (name, type_), cell in zip(self._columns, cells, strict=True):
            if not cell:
                value = b"null"
            elif type_ in TEXTS:
                value = b'"' + _ESCAPED.sub(_escape, unquoted(cell)) + b'"'
            else:
                value = b'"' + cell + b'"' if type_ in TIMES else cell
            parts.append(name + value)
        return b",".join(parts) + b"}"


def _escape(found: re.Match[bytes]) -> bytes:
    byte = found[0]
    return _SHORT.get(byte) or b"\\u%04X" % byte[0]
