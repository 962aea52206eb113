"""Simulates many days, and compares deltas with plain dictionaries: `python -m tools.delta_days --days 365`.

The test `tests/integration/snapshots/test_delta_days.py` does the same for a few days.
"""

import argparse
import tempfile
import time
from contextlib import closing
from pathlib import Path

from daybreak.state.migrate import migrate
from tests.parts.daily_runs import DailyRuns
from tests.reference.days import ChangingPlatform
from tests.small_platform import state_url


def main() -> None:
    """Run the days, check each one and random pairs, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--members", type=int, default=120)
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        migrate(state_url(Path(folder)))
        with closing(DailyRuns(Path(folder), ChangingPlatform(options.seed, members=options.members))) as days:
            for day in range(options.days):
                if day:
                    days.platform.next_day()
                done = days.run()
                if day:
                    days.check_day(done.version or 0)
            applied = days.check_pairs(options.pairs, options.seed)
            print(f"{options.days} days, {len(days.fulls):,} files, {dict(days.states)}")
            print(f"{options.pairs:,} pairs, {applied:,} deltas applied, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
