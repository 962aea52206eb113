"""Program that runs concurrent processes on one state database, for test_many_processes.

Arguments: an action (`compete`, `take_over` or `migrate`), the URL of the state database, the number of processes. It
imports everything, forks, and prints the results of the processes as one JSON array.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import alembic.command
import psycopg

from daybreak.domain.errors import Unavailable
from daybreak.state.database import Database, open_state
from daybreak.state.migrate import migrate
from daybreak.state.stores import Stores
from daybreak.state.throttle import ThrottleRule
from tests.integration.state.values import DAY, LEASE_SECONDS, NOW, SEAT, run

T = TypeVar("T")

DAYS = 10
ATTEMPTS = 8
LIMIT = 25
STEPS = range(100, 108)

# Imported before the fork, so that the processes do not import them again.
IMPORTED = (alembic.command, psycopg)


def write_with_retry(state: Database, work: Callable[[Stores], T]) -> T:
    """Write, and retry while the database is unavailable."""
    deadline = time.monotonic() + 150
    while True:
        try:
            return state.write(work)
        except Unavailable:
            if time.monotonic() > deadline:
                raise


def compete(url: str, worker: int) -> dict[str, object]:
    """Compete with other processes and return what this process obtained.

    `won` has the claimed days ({day: fence}), `allowed` the number of allowed attempts, and `used` the accepted TOTP
    steps.
    """
    state = open_state(url, wait_seconds=30)
    won: dict[str, int] = {}
    for number in range(DAYS):
        mine = run(1000 * worker + number, day=DAY + timedelta(days=number))
        claimed = write_with_retry(state, lambda stores, it=mine: stores.snapshots.claim_day(it, NOW, LEASE_SECONDS))  # type: ignore[misc]
        if claimed is not None:
            won[str(mine.day)] = claimed.fence
    rules = [ThrottleRule(f"worker {worker}", 1000, 300), ThrottleRule("all", LIMIT, 300)]
    allowed = sum(
        write_with_retry(state, lambda stores: stores.throttle.count(rules, NOW)) is None for _ in range(ATTEMPTS)
    )
    used = [
        step
        for step in STEPS
        if write_with_retry(state, lambda stores, it=step: stores.seats.use_step(SEAT.seat_id, it))  # type: ignore[misc]
    ]
    state.close()
    return {"won": won, "allowed": allowed, "used": used}


def take_over(url: str, worker: int) -> int | None:
    """Compete for the expired run of a day, an hour later. Return the fence of this process, if it has the day."""
    state = open_state(url, wait_seconds=30)
    late = run(1000 * worker + 99)
    claimed = write_with_retry(
        state, lambda stores: stores.snapshots.claim_day(late, NOW + timedelta(hours=1), LEASE_SECONDS)
    )
    state.close()
    return None if claimed is None else claimed.fence


def in_processes(processes: int, work: Callable[[int], object]) -> list[object]:
    """Run `work(number)` in each process, all started together, and return the results."""
    gate_out, gate_in = os.pipe()
    ends = []
    for number in range(processes):
        answer_out, answer_in = os.pipe()
        if os.fork() == 0:
            os.close(gate_in)
            os.read(gate_out, 1)
            try:
                answer: object = work(number)
            except Exception as error:  # noqa: BLE001 - reported to the test, which fails
                answer = repr(error)
            os.write(answer_in, json.dumps(answer).encode())
            os._exit(0)
        os.close(answer_in)
        ends.append(answer_out)
    os.close(gate_in)
    answers = []
    for end in ends:
        with os.fdopen(end, "rb") as pipe:
            answers.append(json.loads(pipe.read()))
        os.wait()
    return answers


if __name__ == "__main__":
    action, state_url, count = sys.argv[1:]
    actions: dict[str, Callable[[int], object]] = {
        "compete": lambda number: compete(state_url, number),
        "take_over": lambda number: take_over(state_url, number),
        "migrate": lambda _number: migrate(state_url),
    }
    print(json.dumps(in_processes(int(count), actions[action])))
