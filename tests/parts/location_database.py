"""Writer of small databases in the MaxMind DB format, https://maxmind.github.io/MaxMind-DB/."""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path

_RECORD_BYTES = 3
_MARKER = b"\xab\xcd\xefMaxMind.com"


def write_location_database(path: Path, records: Mapping[str, object], database_type: str = "Test-City") -> None:
    """Write a database with a record for each network, which must not overlap."""
    nodes: list[list[int | None]] = [[None, None]]
    data, offsets = b"", {}
    for name, record in records.items():
        offsets[name] = len(data)
        data += _encoded(record)
    leaves: list[tuple[int, int, int]] = []
    for text, offset in offsets.items():
        network = _network(text)
        # IPv4 addresses are in ::/96.
        bits = network.prefixlen + (96 if isinstance(network, IPv4Network) else 0)
        number, node = int(network.network_address), 0
        for depth in range(bits):
            side = number >> (127 - depth) & 1
            if depth == bits - 1:
                leaves.append((node, side, offset))
                break
            following = nodes[node][side]
            if following is None:
                following = len(nodes)
                nodes[node][side] = following
                nodes.append([None, None])
            node = following
    count = len(nodes)
    values = [[count if value is None else value for value in node] for node in nodes]
    for node, side, offset in leaves:
        values[node][side] = count + 16 + offset
    tree = b"".join(value.to_bytes(_RECORD_BYTES, "big") for node in values for value in node)
    metadata = {
        "node_count": _Unsigned(6, count),
        "record_size": _Unsigned(5, 8 * _RECORD_BYTES),
        "ip_version": _Unsigned(5, 6),
        "database_type": database_type,
        "languages": ["en"],
        "binary_format_major_version": _Unsigned(5, 2),
        "binary_format_minor_version": _Unsigned(5, 0),
        "build_epoch": _Unsigned(9, 1_795_000_000),
        "description": {"en": "Test"},
    }
    path.write_bytes(tree + bytes(16) + data + _MARKER + _encoded(metadata))


def _network(text: str) -> IPv4Network | IPv6Network:
    return ip_network(text)


@dataclass(frozen=True)
class _Unsigned:
    """Unsigned integer with the number of its type."""

    kind: int
    value: int


def _encoded(value: object) -> bytes:
    if isinstance(value, _Unsigned):
        content = value.value.to_bytes((value.value.bit_length() + 7) // 8, "big")
        return _control(value.kind, len(content)) + content
    if isinstance(value, str):
        content = value.encode()
        return _control(2, len(content)) + content
    if isinstance(value, list):
        return _control(11, len(value)) + b"".join(map(_encoded, value))
    assert isinstance(value, Mapping)
    return _control(7, len(value)) + b"".join(_encoded(key) + _encoded(item) for key, item in value.items())


def _control(kind: int, size: int) -> bytes:
    assert size < 285
    length, more = (size, b"") if size < 29 else (29, bytes([size - 29]))
    return (bytes([kind << 5 | length]) if kind < 8 else bytes([length, kind - 7])) + more
