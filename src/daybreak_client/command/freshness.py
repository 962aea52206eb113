"""Age of the published files as text, and the wait for the files of the day."""

import re
import time
from collections.abc import Callable

from daybreak_client.command.output import print_note
from daybreak_client.errors import Late, NotPublished, Unreachable, WrongUse
from daybreak_client.published import PublishedSnapshot
from daybreak_client.service import AccountFiles

_POLL_SECONDS = 60.0
_SECONDS = {"s": 1, "m": 60, "h": 3600}


def freshness(published: PublishedSnapshot) -> str:
    """Return what the files describe, and when the next ones are expected."""
    as_of = f"Data as of {published.as_of:%Y-%m-%d %H:%M} UTC"
    if published.late:
        return f"{as_of}. New files are late. {published.reason or ''}".strip()
    return f"{as_of}, next files expected at {published.next_expected_at:%Y-%m-%d %H:%M} UTC."


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as `30m`. Raises WrongUse."""
    found = re.fullmatch(r"([0-9]+)([smh])", text)
    if found is None:
        raise WrongUse(f"--wait: {text!r} is not a duration. Use one such as 90s, 30m or 2h.")
    return int(found[1]) * _SECONDS[found[2]]


def wait_for_files(account_files: AccountFiles, deadline: float, announce: Callable[[str], None] = print_note) -> None:
    """Wait until the files of the day are published.

    Raises Late or Unreachable when `time.monotonic()` passes `deadline`.
    """
    announced = False
    while True:
        try:
            published = account_files.published()
            if not published.late:
                return
            poll_seconds = _POLL_SECONDS
            problem: Late | Unreachable = _late(published.reason or "")
        except NotPublished as error:
            problem, poll_seconds = _late(error.message), error.retry_after_seconds
        except Unreachable as error:
            problem, poll_seconds = error, _POLL_SECONDS
        left = deadline - time.monotonic()
        if left <= 0:
            raise problem
        if not announced:
            announce(f"Waiting for today's files. {problem.message}")
            announced = True
        time.sleep(min(left, poll_seconds, _POLL_SECONDS))


def _late(reason: str) -> Late:
    return Late(f"Today's files are not published yet. {reason}".strip())
