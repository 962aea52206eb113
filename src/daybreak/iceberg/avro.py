"""Avro object container files of one block, without compression. https://avro.apache.org/docs/1.12.0/specification/

The libraries that write Iceberg's Avro files take a second to import, and fifty times as long per table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


def container(schema: Any, records: Sequence[bytes], metadata: Mapping[str, str]) -> bytes:
    """Return a file with encoded records. The same arguments produce the same bytes."""
    entries = {"avro.schema": msgspec.json.encode(schema).decode(), "avro.codec": "null", **metadata}
    pairs = b"".join(text(name) + text(value) for name, value in entries.items())
    head = b"Obj\x01" + number(len(entries)) + pairs + number(0)
    body = b"".join(records)
    # Any 16 bytes separate the blocks.
    sync = hashlib.sha256(head + body).digest()[:16]
    block = number(len(records)) + number(len(body)) + body + sync if records else b""
    return head + sync + block


def number(value: int) -> bytes:
    """Return an int or long: zigzag, then seven bits per byte."""
    rest = (value << 1) ^ (value >> 63)
    found = bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def text(value: str) -> bytes:
    """Return a string."""
    content = value.encode()
    return number(len(content)) + content


def optional(value: bytes | None) -> bytes:
    """Return a value of the union of null and a type."""
    return number(0) if value is None else number(1) + value


def array(items: Sequence[bytes]) -> bytes:
    """Return an array of encoded items."""
    return number(len(items)) + b"".join(items) + number(0) if items else number(0)
