"""Thrift's compact protocol, without a schema: the footers of Parquet files as fields by number.

https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from collections.abc import Sequence
from typing import Any

_TRUE, _FALSE, _BYTE, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 6, 7, 8, 9, 10, 12
_LONG = 15

Struct = dict[int, tuple[int, Any]]
"""Fields of a struct by number: type and value. The value of a list is the type of its items and the items."""


def decode(content: bytes) -> Struct:
    """Return a struct. Raises ValueError, IndexError."""
    return _Reader(content).struct()


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    def struct(self) -> Struct:
        fields: Struct = {}
        number = 0
        while head := self._byte():
            kind = head & 0x0F
            number = number + (head >> 4) if head >> 4 else self._integer()
            fields[number] = kind, self._value(kind)
        return fields

    def _value(self, kind: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _BYTE:
            return self._byte()
        if kind <= _I64:
            return self._integer()
        if kind in (_DOUBLE, _BINARY):
            return self._bytes(8 if kind == _DOUBLE else self._varint())
        if kind in (_LIST, _SET):
            head = self._byte()
            count = self._varint() if head >> 4 == _LONG else head >> 4
            return head & 0x0F, [self._item(head & 0x0F) for _ in range(count)]
        if kind == _STRUCT:
            return self.struct()
        raise ValueError(f"Type {kind} of the compact protocol is not supported.")

    def _item(self, kind: int) -> Any:
        # Truth values in lists are bytes.
        return self._value(_BYTE if kind in (_TRUE, _FALSE) else kind)

    def _byte(self) -> int:
        self._position += 1
        return self._content[self._position - 1]

    def _bytes(self, length: int) -> bytes:
        self._position += length
        return self._content[self._position - length : self._position]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _integer(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)


def encode(fields: Struct) -> bytes:
    """Return the bytes of a struct."""
    out = bytearray()
    last = 0
    for number, (kind, value) in sorted(fields.items()):
        step = number - last
        out += bytes([step << 4 | kind]) if 0 < step < _LONG else bytes([kind]) + integer(number)
        out += b"" if kind in (_TRUE, _FALSE) else _encoded(kind, value)
        last = number
    out.append(0)
    return bytes(out)


def _encoded(kind: int, value: Any) -> bytes:
    if kind in (_TRUE, _FALSE, _BYTE):
        return bytes([value])
    if kind <= _I64:
        return integer(value)
    if kind in (_DOUBLE, _BINARY):
        return (b"" if kind == _DOUBLE else _varint(len(value))) + bytes(value)
    if kind == _STRUCT:
        return encode(value)
    item_kind, items = value
    return _list_head(item_kind, items) + b"".join(_encoded(item_kind, item) for item in items)


def _list_head(kind: int, items: Sequence[Any]) -> bytes:
    count = len(items)
    return bytes([count << 4 | kind]) if count < _LONG else bytes([_LONG << 4 | kind]) + _varint(count)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def integer(value: int) -> bytes:
    """Return an integer: zigzag, then seven bits per byte, as Avro has it too."""
    return _varint((value << 1) ^ (value >> 63))
