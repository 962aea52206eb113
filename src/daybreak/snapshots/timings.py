"""Intervals of the builder that are not settings. Tests shorten them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunTimings:
    """How long a lease on a run lasts, and when a failed run is retried.

    A builder renews its lease of `lease_seconds` every `heartbeat_seconds`. A run that fails with a transient error is
    tried up to `attempts` times, first after `retry_seconds`, then after twice as long each time. A day whose run
    failed is tried again after `day_retry_seconds`, doubling up to an hour.
    """

    lease_seconds: int = 120
    heartbeat_seconds: float = 10.0
    attempts: int = 3
    retry_seconds: float = 5.0
    day_retry_seconds: float = 300.0
