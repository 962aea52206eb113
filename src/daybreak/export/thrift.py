"""Thrift's compact protocol, without a schema: the footers of Parquet files as fields by number.

https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

_TRUE, _FALSE, _BYTE, _I64, _BINARY, _LIST, _STRUCT = 1, 2, 3, 6, 8, 9, 12
_LONG = 15

Struct = dict[int, tuple[int, Any]]
"""Fields of a struct by number: type and value. The value of a list is the type of its items and the items."""


def decode(content: bytes) -> Struct:
    """Return a struct. Raises ValueError for a type that is not supported, and if the end is missing."""
    try:
        return _struct(iter(content))
    except StopIteration:
        raise ValueError("The end of the content is missing.") from None


def _struct(content: Iterator[int]) -> Struct:
    fields: Struct = {}
    number = 0
    while head := next(content):
        kind = head & 0x0F
        number = number + (head >> 4) if head >> 4 else _integer(content)
        # The type of a truth value is the value.
        fields[number] = kind, kind == _TRUE if kind in (_TRUE, _FALSE) else _value(content, kind)
    return fields


def _value(content: Iterator[int], kind: int) -> Any:
    if kind == _BYTE:
        return next(content)
    if kind <= _I64:
        return _integer(content)
    if kind == _BINARY:
        return bytes(islice(content, _varint(content)))
    if kind == _LIST:
        head = next(content)
        count = _varint(content) if head >> 4 == _LONG else head >> 4
        return head & 0x0F, [_value(content, head & 0x0F) for _ in range(count)]
    if kind == _STRUCT:
        return _struct(content)
    raise ValueError(f"Type {kind} of the compact protocol is not supported.")


def _varint(content: Iterator[int]) -> int:
    value = shift = 0
    while (byte := next(content)) >= 0x80:
        value |= (byte & 0x7F) << shift
        shift += 7
    return value | byte << shift


def _integer(content: Iterator[int]) -> int:
    value = _varint(content)
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
    if kind == _BYTE:
        return bytes([value])
    if kind <= _I64:
        return integer(value)
    if kind == _BINARY:
        return _encoded_varint(len(value)) + bytes(value)
    if kind == _STRUCT:
        return encode(value)
    item_kind, items = value
    count = len(items)
    head = bytes([min(count, _LONG) << 4 | item_kind]) + (b"" if count < _LONG else _encoded_varint(count))
    return head + b"".join(_encoded(item_kind, item) for item in items)


def _encoded_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def integer(value: int) -> bytes:
    """Return an integer: zigzag, then seven bits per byte, as Avro has it too."""
    return _encoded_varint((value << 1) ^ (value >> 63))
