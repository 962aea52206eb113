"""The load generator: a separate process on plain sockets, the same for every server.

`python -m benchmarks.serving.load` reads a plan as JSON (`Plan`) and prints the result as JSON (`ClientResult`).

Closed loop: each connection sends its next request after it has received the response. Open loop: requests are sent at
a fixed rate. The time of a request starts at its scheduled time, so it includes delays of the server and of the client.
"""

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
    """Requests to send.

    Attributes:
        port: Port on 127.0.0.1.
        requests: Complete requests, sent in turn.
        seconds: Duration.
        connections: Number of connections.
        per_second: Rate of an open loop; None for a closed loop.
        core: Processor core to run on.
        real_time: Whether to run with real-time priority. A client on another machine would not compete with the server
            either.
    """

    port: int
    requests: tuple[str, ...]
    seconds: float
    connections: int = 1
    per_second: float | None = None
    core: int | None = None
    real_time: bool = False


class ClientResult(msgspec.Struct):
    """Result of a plan. An open loop also has the time and the delay before sending of each request."""

    seconds: float = 0.0
    octets: int = 0
    statuses: dict[int, int] = {}
    cpu_seconds: float = 0.0
    milliseconds: list[float] = []
    delay_milliseconds: list[float] = []

    @property
    def responses(self) -> int:
        return sum(self.statuses.values())


class _Connection:
    """A persistent connection and the response that is being received."""

    __slots__ = ("bytes_left", "is_head", "scheduled_at", "socket", "status")

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.bytes_left = self.status = 0
        self.is_head = False
        self.scheduled_at = 0.0

    def send(self, request: bytes) -> None:
        """Send a request. The response to HEAD has a length and no body."""
        self.is_head = request.startswith(b"HEAD ")
        self.socket.sendall(request)

    def receive(self, buffer: memoryview) -> int:
        """Receive available bytes and return their number. `bytes_left` is 0 after the whole response.

        Raises ConnectionError if the server closes the connection.
        """
        count = self.socket.recv_into(buffer)
        if not count:
            raise ConnectionError("the server closed a connection")
        if self.bytes_left:
            self.bytes_left -= count
            return count
        head, found, _ = bytes(buffer[: min(count, 8192)]).partition(b"\r\n\r\n")
        if not found:
            raise ConnectionError(f"unsupported response: {head[:80]!r}")
        self.status = int(head[9:12])
        at = head.lower().find(_LENGTH)
        has_body = at >= 0 and not self.is_head
        length = int(head[at + len(_LENGTH) :].split(b"\r\n", 1)[0]) if has_body else 0
        self.bytes_left = len(head) + 4 + length - count
        return count


def run(plan: Plan) -> ClientResult:
    """Run a plan in this process."""
    if plan.core is not None:
        os.sched_setaffinity(0, {plan.core})
    if plan.real_time:
        with suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    cpu = time.process_time()
    result = _closed_loop(plan) if plan.per_second is None else _open_loop(plan, plan.per_second)
    result.cpu_seconds = time.process_time() - cpu
    return result


def _closed_loop(plan: Plan) -> ClientResult:
    requests = itertools.cycle([each.encode("latin-1") for each in plan.requests])
    buffer = memoryview(bytearray(_BUFFER_BYTES))
    result = ClientResult(statuses={})
    open_ = {one.socket.fileno(): one for one in (_Connection(plan.port) for _ in range(plan.connections))}
    poll = select.epoll()
    for number, one in open_.items():
        poll.register(number, select.EPOLLIN)
        one.send(next(requests))
    started = time.perf_counter()
    until = started + plan.seconds
    while open_:
        for number, _ in poll.poll():
            one = open_[number]
            result.octets += one.receive(buffer)
            if one.bytes_left:
                continue
            result.statuses[one.status] = result.statuses.get(one.status, 0) + 1
            if time.perf_counter() < until:
                one.send(next(requests))
            else:
                poll.unregister(number)
                open_.pop(number).socket.close()
    result.seconds = time.perf_counter() - started
    poll.close()
    return result


def _open_loop(plan: Plan, per_second: float) -> ClientResult:
    requests = itertools.cycle([each.encode("latin-1") for each in plan.requests])
    buffer = memoryview(bytearray(_BUFFER_BYTES))
    result = ClientResult(statuses={})
    free = deque(_Connection(plan.port) for _ in range(plan.connections))
    busy: dict[int, _Connection] = {}
    started = time.perf_counter()
    schedule = (started + number / per_second for number in range(int(plan.seconds * per_second)))
    due = next(schedule, None)
    while busy or due is not None:
        now = time.perf_counter()
        while due is not None and due <= now and free:
            one = free.popleft()
            one.scheduled_at = due
            one.send(next(requests))
            busy[one.socket.fileno()] = one
            result.delay_milliseconds.append((time.perf_counter() - due) * 1000)
            due = next(schedule, None)
        # The timeout of select is in microseconds, that of epoll in milliseconds.
        wait = None if due is None or not free else max(0.0, due - time.perf_counter())
        for number in select.select(busy, (), (), wait)[0]:
            one = busy[number]
            result.octets += one.receive(buffer)
            if one.bytes_left:
                continue
            result.milliseconds.append((time.perf_counter() - one.scheduled_at) * 1000)
            result.statuses[one.status] = result.statuses.get(one.status, 0) + 1
            free.append(busy.pop(number))
    result.seconds = time.perf_counter() - started
    for one in free:
        one.socket.close()
    return result


if __name__ == "__main__":
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=Plan)
    sys.stdout.buffer.write(msgspec.json.encode(run(plan)))
