"""Deliveries with faults: none is lost, and none is for something that did not happen.

`EVENTS=200` sets the number of events (12); each is delivered to 50 webhooks.
"""

import json
import os
import random
import secrets
import signal
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from daybreak.credentials import keyring, webhook_secret
from daybreak.domain.events import DeliveryState, EventType, Webhook, new_event
from daybreak.domain.identity import Account, Grant, Seat
from daybreak.state.database import Database, open_state
from daybreak.state.deliveries import DeliveryFilter
from daybreak.state.migrate import migrate
from daybreak.state.stores import Stores
from tests.parts.processes import Running, running
from tests.parts.scripted_service import Request
from tests.parts.waiting import wait_until
from tests.parts.webhook_receiver import Answer, Receiver

ENDPOINTS, EVENTS = 50, int(os.environ.get("EVENTS", "12"))
KILLS = 5
PATIENCE_SECONDS = 900


class RolledBackError(Exception):
    """Ends a transaction without a commit."""


def _account(number: int) -> str:
    return f"10000000-0000-4000-8000-{number:012d}"


def _prepare(folder: Path, state: Database, receiver: Receiver) -> None:
    """Add an account with a webhook for each endpoint."""
    ring = keyring.create(folder / "keyring.json", datetime.now(UTC), secrets.token_bytes)
    created_at = datetime.now(UTC) - timedelta(hours=1)

    def write(stores: Stores) -> None:
        stores.directory.put_seats(Seat("seat", "rosa@example.org"))
        for number in range(ENDPOINTS):
            client_id = _account(number)
            stores.directory.put_accounts(Account(client_id, f"Account {number}", "", "+15550100", "long_code"))
            stores.directory.put_grants(Grant("seat", client_id, ("owner",), data_export=True))
            sealed = webhook_secret.encrypt(
                webhook_secret.generate(secrets.token_bytes),
                endpoint_id=client_id,
                keyring=ring,
                random=secrets.token_bytes,
            )
            url = receiver.url(f"/{number}")
            stores.webhooks.add(Webhook(client_id, client_id, url, sealed, created_at, "seat", "rosa@example.org"))

    state.write(write)


def _emit(state: Database, name: str, *, commit: bool) -> None:
    """Add an event, and roll the transaction back unless it is to be committed."""
    event = new_event(EventType.SNAPSHOT_LATE, name, datetime.now(UTC), {"day": name})

    def write(stores: Stores) -> None:
        stores.outbox.add(event)
        if not commit:
            raise RolledBackError

    if commit:
        state.write(write)
        return
    with pytest.raises(RolledBackError):
        state.write(write)


def _faulty(_request: Request, _number: int) -> Answer:
    """Fail a tenth of the requests: resets, errors, redirects, and answers that never come."""
    chance = random.random()
    if chance < 0.004:
        return Answer(hang=True)
    if chance < 0.03:
        return Answer(reset=True)
    if chance < 0.08:
        return Answer(random.choice((500, 502, 503, 429)))
    return Answer(302, (("Location", "/elsewhere"),)) if chance < 0.1 else Answer(204, body=b"")


@pytest.mark.release
@pytest.mark.timeout(1800)
def test_no_delivery_is_lost_or_invented(tmp_path: Path, project_folder: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    migrate(url)
    state = open_state(url, wait_seconds=60)
    command = [sys.executable, "-m", "tests.faults.deliverer_process", str(tmp_path)]
    environment = {"PYTHONPATH": f"{project_folder}/src:{project_folder}"}
    committed = [f"event {number}" for number in range(EVENTS)]
    with Receiver(script=_faulty).running() as receiver:
        _prepare(tmp_path, state, receiver)
        for number, name in enumerate(committed):
            _emit(state, name, commit=True)
            _emit(state, f"never {number}", commit=False)
        for kill in range(KILLS):
            with running(command, folder=project_folder, environment=environment) as program:
                _wait_for_requests(receiver, program, (kill + 1) * ENDPOINTS * EVENTS // (KILLS + 3))
                program.process.send_signal(signal.SIGKILL)
                program.process.wait()
        with running(command, folder=project_folder, environment=environment):
            wait_until(lambda: _delivered(state) == ENDPOINTS * EVENTS, PATIENCE_SECONDS)
    state.close()
    _check(receiver, committed)


def _wait_for_requests(receiver: Receiver, program: Running, count: int) -> None:
    wait_until(lambda: len(receiver.received) >= count, PATIENCE_SECONDS)
    assert program.process.poll() is None, program.log()


def _delivered(state: Database) -> int:
    done = DeliveryFilter(state=DeliveryState.DELIVERED)
    return len(state.read(lambda stores: stores.deliveries.list_recent(done, 2 * ENDPOINTS * EVENTS)))


def _check(receiver: Receiver, committed: list[str]) -> None:
    """Check that each account received each committed event, under one id, and nothing else."""
    arrived: dict[tuple[str, str], set[str]] = {}
    attempts: Counter[tuple[str, str]] = Counter()
    for request in receiver.received:
        data = json.loads(request.body)["data"]
        assert data["client_id"] == _account(int(request.path.removeprefix("/")))
        key = (data["client_id"], data["day"])
        attempts[key] += 1
        arrived.setdefault(key, set()).add(request.headers["webhook-id"])
    assert set(arrived) == {(_account(number), name) for number in range(ENDPOINTS) for name in committed}
    assert {len(ids) for ids in arrived.values()} == {1}
    assert len({next(iter(ids)) for ids in arrived.values()}) == ENDPOINTS * EVENTS
    repeated = sum(count > 1 for count in attempts.values())
    print(f"{len(receiver.received):,} requests for {len(arrived):,} deliveries, {repeated:,} repeated")
