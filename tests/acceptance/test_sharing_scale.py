"""Delta Sharing with many accounts: each token sees its own share only, and metadata stays fast.

`make test-release` stores 20,000 accounts and draws those that send requests; `SHARING_ACCOUNTS=100000` sets their
number. `pytest -s -m release` with this file prints the time of metadata requests.
"""

import http.client
import json
import os
import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest

from daybreak.access import api_tokens
from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.domain.identity import Account, ApiToken, Grant, Seat
from daybreak.domain.run_report import RunReport
from daybreak.domain.snapshot import FileStatistics, ManifestEntry, Snapshot, SnapshotState, StoredFormat
from daybreak.state.stores import Stores
from tests.acceptance.conftest import new_installation
from tests.acceptance.service import PATIENCE_SECONDS, Service, serving
from tests.acceptance.test_sharing import SETTINGS
from tests.parts.variants import one_of

T = TypeVar("T")
SHORT, LONG = 300, int(os.environ.get("SHARING_ACCOUNTS", "20000"))
# Accounts that send requests.
REQUESTS = 3_000
CONNECTIONS = 4
_PER_TRANSACTION = 2_000
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True)
class ManyAccounts:
    """A service, and the accounts that send requests, with the secret of a token each."""

    service: Service
    secrets: dict[str, str]

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=PATIENCE_SECONDS)


@pytest.fixture(scope="module", params=one_of(SHORT, LONG))
def many(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManyAccounts]:
    installation = new_installation(tmp_path_factory.mktemp("scale"))
    draw = random.Random(1)
    secrets = {str(uuid.UUID(int=draw.getrandbits(128), version=4)): api_tokens.generate(draw.randbytes)
               for _ in range(request.param)}  # fmt: skip
    with closing(installation.state()) as state:
        for batch in _batches(list(secrets.items())):
            state.write(lambda stores, batch=batch: _add_accounts(stores, batch))  # type: ignore[misc]
        _publish(state.write, list(secrets))
    with serving(installation, workers=1, settings=SETTINGS) as service:
        drawn = draw.sample(sorted(secrets), min(REQUESTS, len(secrets)))
        yield ManyAccounts(service, {client_id: secrets[client_id] for client_id in drawn})


def _batches(items: list[T]) -> Iterator[list[T]]:
    for start in range(0, len(items), _PER_TRANSACTION):
        yield items[start : start + _PER_TRANSACTION]


def _add_accounts(stores: Stores, accounts: Sequence[tuple[str, str]]) -> None:
    """Add accounts, each with a seat that has a token."""
    now = datetime.now(UTC)
    ids = [client_id for client_id, _ in accounts]
    stores.directory.put_accounts(
        *(Account(each, "Account", each[:8], "+12125550100", "long_code", api_tokens_enabled=True) for each in ids)
    )
    stores.directory.put_seats(*(Seat(_other_id(each), f"{each}@example.org") for each in ids))
    stores.directory.put_grants(
        *(Grant(_other_id(each), each, ("owner",), data_export=True, async_rest_api=True) for each in ids)
    )
    for client_id, secret in accounts:
        token_id = str(uuid.uuid5(uuid.NAMESPACE_URL, secret))
        token = ApiToken(
            token_id, api_tokens.digest(secret), _other_id(client_id), client_id, "scale", secret[-4:], now
        )
        stores.api_tokens.add(token)


def _other_id(client_id: str) -> str:
    """Return the id of the seat of an account."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, client_id))


def _publish(write: Callable[[Callable[[Stores], object]], object], client_ids: list[str]) -> None:
    """Publish a snapshot in which every account has members, and no other rows. Its files do not exist."""
    snapshot_id, now = str(uuid.uuid4()), datetime.now(UTC)

    def entry(client_id: str, resource: str) -> ManifestEntry:
        rows = 10 if client_id else 0
        key = f"snapshots/{snapshot_id}/{client_id or 'empty'}.{resource}"
        stored = StoredFormat(7, "ab" * 32, 9, "cd" * 32, key, FileStatistics(rows, (0,) * 20))
        return ManifestEntry(client_id, resource, rows, "ff" * 16, {"parquet": stored})

    def begin(stores: Stores) -> Snapshot:
        return stores.snapshots.begin_manual(Snapshot(snapshot_id, SnapshotState.BUILDING, now, now), now, 3600)

    fence: Any = write(begin)
    key = (snapshot_id, fence.fence)
    write(lambda stores: stores.snapshots.add_entries(*key, [entry("", resource) for resource in RESOURCE_NAMES]))
    for batch in _batches(client_ids):
        write(lambda stores, batch=batch: stores.snapshots.add_leaders(*key, batch))  # type: ignore[misc]
        entries = [entry(client_id, "members") for client_id in batch]
        write(lambda stores, entries=entries: stores.snapshots.add_entries(*key, entries))  # type: ignore[misc]
    write(lambda stores: stores.snapshots.finish(*key, SnapshotState.COMPLETE, now, report=RunReport()))
    write(lambda stores: stores.snapshots.publish(*key, now))


def send(
    connection: http.client.HTTPConnection, secret: str, path: str, method: str = "GET"
) -> tuple[int, http.client.HTTPMessage, bytes]:
    body = b"{}" if method == "POST" else None
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
    try:
        connection.request(method, f"/sharing/v1{path}", body, headers)
        found = connection.getresponse()
    except (ConnectionError, http.client.RemoteDisconnected):
        # After a refusal without reading the body, the server closes the connection.
        connection.close()
        connection.request(method, f"/sharing/v1{path}", body, headers)
        found = connection.getresponse()
    return found.status, found.headers, found.read()


@pytest.mark.release
@pytest.mark.parametrize("many", [LONG], indirect=True)
@pytest.mark.timeout(3600)
def test_every_token_reads_its_own_metadata(many: ManyAccounts) -> None:
    seconds = []
    # One connection: more of them would measure the queue of the worker.
    with closing(many.connection()) as connection:
        for client_id, secret in many.secrets.items():
            started = time.perf_counter()
            path = f"/shares/{client_id}/schemas/daybreak/tables/members/metadata"
            status, headers, body = send(connection, secret, path)
            seconds.append(time.perf_counter() - started)
            metadata = json.loads(body.splitlines()[1])["metaData"]
            assert (status, headers["Delta-Table-Version"], metadata["size"]) == (200, "2", 7)
            assert metadata["id"] == str(uuid.uuid5(uuid.UUID(client_id), "members"))
    seconds.sort()
    assert len(seconds) == len(many.secrets)
    median, high, maximum = (seconds[int(share * (len(seconds) - 1))] * 1000 for share in (0.5, 0.99, 1))
    print(f"\n{len(seconds):,} requests: metadata in {median:.1f} ms, p99 {high:.1f} ms, maximum {maximum:.1f} ms")


PATHS = (
    ("GET", "/shares/{share}"),
    ("GET", "/shares/{share}/schemas"),
    ("GET", "/shares/{share}/schemas/daybreak/tables"),
    ("GET", "/shares/{share}/all-tables"),
    ("HEAD", "/shares/{share}/schemas/daybreak/tables/members"),
    ("GET", "/shares/{share}/schemas/daybreak/tables/members/version"),
    ("GET", "/shares/{share}/schemas/daybreak/tables/members/metadata"),
    ("POST", "/shares/{share}/schemas/daybreak/tables/members/query"),
    ("GET", "/shares/{share}/schemas/daybreak/tables/members/changes?startingVersion=1"),
)
NAMES: tuple[Callable[[str, str], str], ...] = (
    lambda _own, other: other,
    lambda _own, other: other.upper(),
    lambda own, other: f"{own}%2f..%2f{other}",
    lambda own, other: f"{own}/../{other}",
    lambda own, other: f"{own}/%2e%2e/{other}",
    lambda own, other: f"./{own}//{other}",
    lambda own, other: f"{other}%00{own}",
    lambda own, _other: f"{own}%00",
    lambda own, other: f"{own},{other}",
    lambda own, _other: f"{own}%20",
    lambda _own, other: f"%e2%80%8b{other}",
    lambda own, _other: own[:-1],
    lambda _own, other: f"{other}%27%20OR%20%271%27=%271",
    lambda _own, other: "%25" + other[1:],
    lambda _own, _other: "%",
    lambda _own, _other: "",
    lambda _own, other: str(uuid.uuid5(uuid.NAMESPACE_URL, other)),
)


def invalid_secret(draw: random.Random, secret: str) -> str:
    """Return a credential that resembles a token of an account."""
    place = draw.randrange(len("service_api_"), len(secret))
    return draw.choice(
        [
            secret[:place] + draw.choice(_ALPHABET.replace(secret[place], "")) + secret[place + 1 :],
            secret[:place],
            secret + draw.choice(_ALPHABET),
            secret.upper(),
            secret.removeprefix("service_api_"),
            api_tokens.generate(draw.randbytes),
            "eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl",
        ]
    )


@pytest.mark.timeout(7200)
def test_no_attack_reaches_another_share(many: ManyAccounts) -> None:
    """A valid token with names that are not its share's gets 404, an invalid token with any name gets 401."""
    accounts = list(many.secrets.items())

    def attack(part: int) -> set[tuple[int, str, bytes]]:
        draw = random.Random(f"attack {part}")
        found: set[tuple[int, str, bytes]] = set()
        with closing(many.connection()) as connection:
            for number in range(part, len(accounts), CONNECTIONS):
                (own, secret), (other, _) = accounts[number], draw.choice(accounts)
                method, path = draw.choice(PATHS)
                if own == other or draw.random() < 0.3:
                    expected, secret, name = 401, invalid_secret(draw, secret), draw.choice((own, other))
                else:
                    expected, name = 404, draw.choice(NAMES)(own, other)
                status, headers, body = send(connection, secret, path.format(share=name), method)
                assert status == expected, (method, path, name, status, body)
                assert other.encode() not in body
                if method != "HEAD":
                    found.add((status, headers["Content-Type"], body))
        return found

    with ThreadPoolExecutor(CONNECTIONS) as executor:
        answers = set().union(*executor.map(attack, range(CONNECTIONS)))
    # The text is the same for all shares. It differs for URLs that have no share, and for other kinds of credentials.
    assert {content_type for _, content_type, _ in answers} == {"application/json"}
    texts = sorted((status, json.loads(body)["errorCode"], json.loads(body)["message"]) for status, _, body in answers)
    assert [(status, code) for status, code, _ in texts] == [(401, "invalid_token")] * 2 + [(404, "not_found")] * 3
    print(f"\n{len(accounts):,} attacks: {len(texts)} different answers, all 401 or 404")
