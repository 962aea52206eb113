"""Intervals of the builder that are not settings. Tests shorten them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunTimings:
    """Duration of a lease on a run, and times of retries.

    A builder renews its lease of `lease_seconds` every `heartbeat_seconds`. A run that fails with a transient error is
    attempted up to `attempts` times. The first retry is after `retry_seconds`, and the delay doubles each time. A day
    whose run failed is retried after `day_retry_seconds`, a delay that doubles up to an hour.
    """

    lease_seconds: int = 120
    heartbeat_seconds: float = 10.0
    attempts: int = 3
    retry_seconds: float = 5.0
    day_retry_seconds: float = 300.0
