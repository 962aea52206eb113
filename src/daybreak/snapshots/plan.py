"""What an operator has settled about runs: one frozen value, made from the settings by `bootstrap`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import time, timedelta
from typing import Literal


@dataclass(frozen=True, slots=True)
class GuardRules:
    """When a complete snapshot is held back until an operator decides. Shares are between 0 and 1.

    `drop_share`: a resource may lose that share of its rows against the served snapshot; resources under
    `drop_least_rows` rows are left out. `leader_drop_share`: the same for one Leader that had at least
    `leader_least_rows` rows. `null_share`: the share of NULLs in a column may grow by so much.
    `referential`: rows that point at nothing, and counts that do not add up, hold it back.
    """

    enabled: bool = True
    drop_share: float = 0.3
    drop_least_rows: int = 100
    leader_drop_share: float = 0.7
    leader_least_rows: int = 10_000
    null_share: float = 0.2
    referential: bool = True


@dataclass(frozen=True, slots=True)
class RunPlan:
    """How runs are made, published and kept.

    `publish_at` is a time of day in UTC. `keep` published snapshots keep their files, the served one included.
    `link_lifetime` and `link_margin` say how long a retired snapshot may still be asked for. A builder renews its claim
    every `heartbeat_seconds` for `lease_seconds`. A run that fails for a passing reason is tried `attempts` times at
    once, `retry_seconds` apart and doubling; a failed day is tried again after `day_retry_seconds`, doubling up to an
    hour. `verify` reads back all new files, or one in `SAMPLE` of them. `margin` and `lead_least` say how much earlier
    than history asks a run starts, `lead_first` how early without any.
    """

    formats: tuple[str, ...] = ("csv", "json")
    compression: str = "igzip-2"
    threads: int = 2
    memory_limit_bytes: int = 1 << 30
    publish_at: time = time(4)
    keep: int = 7
    link_lifetime: timedelta = timedelta(minutes=15)
    link_margin: timedelta = timedelta(minutes=10)
    lease_seconds: int = 120
    heartbeat_seconds: float = 10.0
    attempts: int = 3
    retry_seconds: float = 5.0
    day_retry_seconds: float = 300.0
    verify: Literal["full", "sample"] = "full"
    margin: float = 1.5
    lead_least: timedelta = timedelta(minutes=10)
    lead_first: timedelta = timedelta(hours=1)
    guard: GuardRules = field(default_factory=GuardRules)
