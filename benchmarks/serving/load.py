"""The client of every figure: a process of its own, plain sockets, the same for each server.

`python -m benchmarks.serving.load KIND PLAN` takes its plan as JSON and prints what it saw as JSON. Kinds: `closed`
(every connection asks again as soon as it has its answer), `paced` (an open loop: requests leave by the clock, and
the time of each counts from the instant it was meant to leave, however busy the server or this client was).
"""

from __future__ import annotations

import heapq
import itertools
import json
import os
import select
import socket
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

_BUFFER_BYTES = 1 << 20
_LONGEST_HEAD = 16 * 1024
_LENGTH = b"ontent-length: "


class Connection:
    """One kept connection, and how much of the answer under way is still to come."""

    __slots__ = ("left", "meant", "socket")

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.left = 0
        self.meant = 0.0

    def take(self, buffer: memoryview) -> tuple[int, int] | None:
        """Reads what is there: the octets, and the status once the answer is whole (0 before). None: cut."""
        count = self.socket.recv_into(buffer)
        if not count:
            return None
        if self.left:
            self.left -= count
            return count, -1 if self.left == 0 else 0
        head = bytes(buffer[: min(count, _LONGEST_HEAD)])
        end = head.find(b"\r\n\r\n")
        if end < 0:
            raise ValueError(f"an answer whose head did not come in one piece: {head[:200]!r}")
        fields = head[:end].lower()
        at = fields.find(_LENGTH)
        length = int(fields[at + len(_LENGTH) :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        status = int(head[9:12])
        self.left = end + 4 + length - count
        if self.left == 0:
            return count, status
        self.meant_status = status
        return count, 0
