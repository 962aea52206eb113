"""Age of the published files as text, and the wait for the service and for the files of the day."""

import time
from collections.abc import Callable
from typing import TypeVar

from daybreak_client.command.output import print_note
from daybreak_client.errors import ClientError, Expired, Late, NotPublished, Unreachable
from daybreak_client.published import PublishedSnapshot
from daybreak_client.service import AccountFiles

T = TypeVar("T")

_POLL_SECONDS = 60.0


def freshness(published: PublishedSnapshot) -> str:
    """Return what the files describe, and when the next ones are expected."""
    as_of = f"Data as of {published.as_of:%Y-%m-%d %H:%M} UTC"
    if published.late:
        return f"{as_of}. New files are late. {published.reason or ''}".strip()
    return f"{as_of}, next files expected at {published.next_expected_at:%Y-%m-%d %H:%M} UTC."


class Wait:
    """Waits for an unavailable service and for late files until `seconds` have passed. Announces each of them once."""

    def __init__(self, seconds: float = 0.0, announce: Callable[[str], None] = print_note) -> None:
        self._deadline = time.monotonic() + seconds
        self._announce = announce
        self._announced: set[type[ClientError]] = set()

    def for_service(self, request: Callable[[], T]) -> T:
        """Return the result of a request, which is repeated while the service is unavailable. Raises Unreachable."""
        while True:
            try:
                return request()
            except Unreachable as error:
                self._pause(error, f"Waiting for the service. {error.message}", _POLL_SECONDS)

    def for_files(self, account_files: AccountFiles) -> None:
        """Return when the files of the day are published. Raises Late, Unreachable."""
        while True:
            try:
                published = self.for_service(account_files.published)
                if not published.late:
                    return
                reason, poll_seconds = published.reason or "", _POLL_SECONDS
            except NotPublished as error:
                reason, poll_seconds = error.message, error.retry_after_seconds
            except Expired as error:
                reason, poll_seconds = error.message, _POLL_SECONDS
            late = Late(f"Today's files are not published yet. {reason}".strip())
            self._pause(late, f"Waiting for today's files. {reason}".strip(), poll_seconds)

    def _pause(self, problem: ClientError, announcement: str, poll_seconds: float) -> None:
        """Sleep until the next attempt. Raises the problem after the deadline."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise problem
        if type(problem) not in self._announced:
            self._announced.add(type(problem))
            self._announce(announcement)
        time.sleep(min(left, poll_seconds, _POLL_SECONDS))
