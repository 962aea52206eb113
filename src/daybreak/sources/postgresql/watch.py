"""Ends the waits for a PostgreSQL server that stopped answering.

Both drivers wait for the server without a limit, and their waits cannot be interrupted. A server or proxy whose process
is stopped keeps its connections open, and its kernel acknowledges keepalives. The server itself enforces
`statement_timeout`. A thread therefore shuts down the sockets, which ends every wait with an error of the driver.
"""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from math import inf
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any

import psycopg
from psycopg import ConnectionInfo

from daybreak.domain.errors import SourceUnavailable
from daybreak.settings.text_forms import duration_in_words

_CHECK_SECONDS = 1.0
_PING_SECONDS = 30.0
_MAX_UNANSWERED = 3
_MARGIN_SECONDS = 60.0
"""Time after `statement_timeout` in which the server reports that it ended a statement."""


class ServerWatch:
    """Watches one server through the connection that `fileno` belongs to.

    The server no longer answers if it accepts no new connection three times in a row, or if a wait exceeds
    `timeout_seconds` by a minute; 0 means no limit. All sockets of this process to the server are then shut down,
    repeatedly, because the drivers may open more.
    """

    def __init__(self, parameters: Mapping[str, Any], info: ConnectionInfo, fileno: int, timeout_seconds: int) -> None:
        self._timeout_seconds = timeout_seconds
        # The same server if the address has several. A check of its role would need a connection of a pooler.
        server = {"host": info.host, "hostaddr": info.hostaddr, "port": info.port, "target_session_attrs": "any"}
        self._parameters = {**parameters, **server}
        with socket.socket(fileno=os.dup(fileno)) as connection:
            self._family, self._peer = connection.family, connection.getpeername()
        self._ends: dict[object, float] = {}
        self._unanswered = 0
        self._reason: str | None = None
        self._stop = Event()
        self._thread = Thread(target=self._watch, name="source-watch", daemon=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch the server. Raises SourceUnavailable with the reason for an error that the watch caused."""
        self._thread.start()
        try:
            yield
        except SourceUnavailable as error:
            if self._reason is None:
                raise
            raise SourceUnavailable(self._reason) from error
        finally:
            self._stop.set()
            self._thread.join()

    @contextmanager
    def limit(self) -> Iterator[None]:
        """Limit a wait for the server, in any thread."""
        wait = object()
        self._ends[wait] = monotonic() + (self._timeout_seconds + _MARGIN_SECONDS if self._timeout_seconds else inf)
        try:
            yield
        finally:
            del self._ends[wait]

    def _watch(self) -> None:
        next_ping = monotonic() + _PING_SECONDS
        while not self._stop.wait(_CHECK_SECONDS):
            if self._reason is None and monotonic() >= next_ping:
                self._unanswered = 0 if self._accepts_connections() else self._unanswered + 1
                next_ping = monotonic() + _PING_SECONDS
            self._reason = self._reason or self._find_reason()
            if self._reason is not None:
                self._disconnect()

    def _accepts_connections(self) -> bool:
        """Return whether the server answers a new connection. An error is an answer too."""
        try:
            psycopg.connect(**self._parameters).close()
        except psycopg.Error as error:
            return not isinstance(error, psycopg.errors.ConnectionTimeout)
        return True

    def _find_reason(self) -> str | None:
        if self._unanswered >= _MAX_UNANSWERED:
            return (
                "The source (PostgreSQL) does not answer: it accepted no new connection "
                f"{self._unanswered} times in a row. Check the server of source.location, and any proxy before it."
            )
        if min([*self._ends.values()], default=inf) <= monotonic():
            limit = duration_in_words(timedelta(seconds=self._timeout_seconds))
            return (
                f"The source (PostgreSQL) did not end a statement after source.statement_timeout ({limit}). Check the "
                "server of source.location, and any proxy before it. Lower the setting to notice this earlier."
            )
        return None

    def _disconnect(self) -> None:
        # Neither the driver of the streams nor libpq's cancel requests name their sockets.
        sockets = [int(entry.name) for entry in Path("/dev/fd").iterdir() if entry.is_socket()]
        for number in sockets:
            # A duplicate, so that the number is not reused for another file in the meantime.
            with suppress(OSError), socket.fromfd(number, self._family, socket.SOCK_STREAM) as connection:
                if connection.getpeername() == self._peer:
                    connection.shutdown(socket.SHUT_RDWR)
