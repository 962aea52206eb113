"""The load generator: a separate process on plain sockets, the same for every server.

`python -m benchmarks.serving.load` reads a plan as JSON (`Plan`) and prints the result as JSON (`Seen`).

Closed loop: each connection sends its next request when it has the response. Open loop: requests are sent at a fixed
rate. The time of each counts from its scheduled time, including delays of the server and of the client.
"""

from __future__ import annotations

import itertools
import os
import select
import socket
import sys
import time
from collections import deque
from contextlib import suppress

import msgspec

_BUFFER_BYTES = 1 << 20
_LENGTH = b"content-length: "


class Plan(msgspec.Struct, frozen=True):
    """What to send.

    Attributes:
        port: Port on 127.0.0.1.
        requests: Complete requests, sent in turn.
        seconds: Duration.
        connections: Number of connections.
        per_second: Rate of an open loop; None for a closed loop.
        core: Processor core to run on.
        first: Whether to run with real-time priority, because a client on another machine would not compete with the
            server.
    """

    port: int
    requests: tuple[str, ...]
    seconds: float
    connections: int = 1
    per_second: float | None = None
    core: int | None = None
    first: bool = False


class Seen(msgspec.Struct):
    """Result of a plan. An open loop also has the time and the delay before sending of each request."""

    seconds: float = 0.0
    octets: int = 0
    statuses: dict[int, int] = {}
    cpu_seconds: float = 0.0
    milliseconds: list[float] = []
    late_milliseconds: list[float] = []

    @property
    def answers(self) -> int:
        return sum(self.statuses.values())


class _Connection:
    """A persistent connection and the response that is being received."""

    __slots__ = ("left", "meant", "socket", "status")

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.left = self.status = 0
        self.meant = 0.0

    def take(self, buffer: memoryview) -> int:
        """Receive available bytes and return their number. `left` is 0 after the whole response.

        Raises ConnectionError when the server closed the connection.
        """
        count = self.socket.recv_into(buffer)
        if not count:
            raise ConnectionError("the server closed a connection")
        if self.left:
            self.left -= count
            return count
        head, found, _ = bytes(buffer[: min(count, 8192)]).partition(b"\r\n\r\n")
        if not found:
            raise ConnectionError(f"the response is not one that this client reads: {head[:80]!r}")
        self.status = int(head[9:12])
        at = head.lower().find(_LENGTH)
        length = int(head[at + len(_LENGTH) :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        self.left = len(head) + 4 + length - count
        return count


def run(plan: Plan) -> Seen:
    """Run a plan in this process."""
    if plan.core is not None:
        os.sched_setaffinity(0, {plan.core})
    if plan.first:
        with suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    cpu = time.process_time()
    seen = _closed(plan) if plan.per_second is None else _paced(plan, plan.per_second)
    seen.cpu_seconds = time.process_time() - cpu
    return seen


def _closed(plan: Plan) -> Seen:
    requests = itertools.cycle([each.encode("latin-1") for each in plan.requests])
    buffer = memoryview(bytearray(_BUFFER_BYTES))
    seen = Seen(statuses={})
    open_ = {one.socket.fileno(): one for one in (_Connection(plan.port) for _ in range(plan.connections))}
    poll = select.epoll()
    for number, one in open_.items():
        poll.register(number, select.EPOLLIN)
        one.socket.sendall(next(requests))
    started = time.perf_counter()
    until = started + plan.seconds
    while open_:
        for number, _ in poll.poll():
            one = open_[number]
            seen.octets += one.take(buffer)
            if one.left:
                continue
            seen.statuses[one.status] = seen.statuses.get(one.status, 0) + 1
            if time.perf_counter() < until:
                one.socket.send(next(requests))
            else:
                poll.unregister(number)
                open_.pop(number).socket.close()
    seen.seconds = time.perf_counter() - started
    poll.close()
    return seen


def _paced(plan: Plan, per_second: float) -> Seen:
    requests = itertools.cycle([each.encode("latin-1") for each in plan.requests])
    buffer = memoryview(bytearray(_BUFFER_BYTES))
    seen = Seen(statuses={})
    free = deque(_Connection(plan.port) for _ in range(plan.connections))
    busy: dict[int, _Connection] = {}
    started = time.perf_counter()
    meant = (started + number / per_second for number in range(int(plan.seconds * per_second)))
    due = next(meant, None)
    while busy or due is not None:
        now = time.perf_counter()
        while due is not None and due <= now and free:
            one = free.popleft()
            one.meant = due
            one.socket.send(next(requests))
            busy[one.socket.fileno()] = one
            seen.late_milliseconds.append((time.perf_counter() - due) * 1000)
            due = next(meant, None)
        # select waits in microseconds, where epoll counts in milliseconds.
        wait = None if due is None or not free else max(0.0, due - time.perf_counter())
        for number in select.select(busy, (), (), wait)[0]:
            one = busy[number]
            seen.octets += one.take(buffer)
            if one.left:
                continue
            seen.milliseconds.append((time.perf_counter() - one.meant) * 1000)
            seen.statuses[one.status] = seen.statuses.get(one.status, 0) + 1
            free.append(busy.pop(number))
    seen.seconds = time.perf_counter() - started
    for one in free:
        one.socket.close()
    return seen


if __name__ == "__main__":
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=Plan)
    sys.stdout.buffer.write(msgspec.json.encode(run(plan)))
