"""The data of the serving benchmark: a service folder with accounts, seats and files of known sizes."""

import hashlib
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from daybreak.access import api_tokens
from daybreak.credentials import keyring, passwords
from daybreak.credentials.s3_keys import AccessKey, static_key
from daybreak.domain.identity import Account, ApiToken, Grant, Seat
from daybreak.domain.run_report import RunReport
from daybreak.domain.snapshot import ManifestEntry, Snapshot, SnapshotState, StoredFormat
from daybreak.filestore.local_disk import LocalDisk
from daybreak.filestore.packs import NO_PACKS, Packing
from daybreak.state.database import open_state
from daybreak.state.migrate import migrate
from daybreak.state.stores import Stores

PASSWORD = "eleven paper boats at noon"
SMALL_BYTES = 20_000
LARGE_BYTES = 200_000_000
EMAILS = tuple(f"seat{number}@example.org" for number in range(50))
"""Emails of the seats. The first one has Data Export on every account."""


@dataclass(frozen=True, slots=True)
class Home:
    """A service folder. Every Leader has a small `campaigns` file, and the first one also a large `members` file."""

    folder: Path
    leaders: tuple[str, ...]
    small: tuple[Path, ...]
    large: Path
    api_token: str
    s3_key: AccessKey


def _seat_id(email: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, email))


def make_home(folder: Path, leaders: Sequence[str], packing: Packing = NO_PACKS) -> Home:
    """Create accounts, seats, an API token of the first account, and a published snapshot of random bytes."""
    folder.mkdir(parents=True)
    now = datetime.now(UTC)
    keyring.create(folder / "keyring.json", now, os.urandom)
    state_url = f"sqlite:///{folder / 'state.db'}"
    migrate(state_url)
    snapshot_id = str(uuid.uuid4())
    sink = LocalDisk(folder / "files", packing).stage(snapshot_id)

    def entry(client_id: str, resource: str, octets: bytes) -> ManifestEntry:
        digest = hashlib.sha256(octets).hexdigest()
        formats = {}
        for name in ("csv", "json"):
            written = sink.write(client_id, resource, name, [octets])
            formats[name] = StoredFormat(written.bytes, written.sha256, written.bytes, digest, written.key)
        return ManifestEntry(client_id, resource, 1, digest, formats)

    entries = [entry(client_id, "campaigns", os.urandom(SMALL_BYTES)) for client_id in leaders]
    large = entry(leaders[0], "members", os.urandom(LARGE_BYTES))
    sink.commit()
    secret = api_tokens.generate(os.urandom)
    token = ApiToken(
        str(uuid.uuid4()), api_tokens.digest(secret), _seat_id(EMAILS[0]), leaders[0], "benchmark", secret[-4:], now
    )
    hashed = passwords.hash_password(PASSWORD)

    def work(stores: Stores) -> None:
        _add_directory(stores, leaders, hashed)
        stores.api_tokens.add(token)
        begun = stores.snapshots.begin_manual(Snapshot(snapshot_id, SnapshotState.BUILDING, now, now), now, 600)
        stores.snapshots.add_leaders(snapshot_id, begun.fence, leaders)
        stores.snapshots.add_entries(snapshot_id, begun.fence, [*entries, large])
        stores.snapshots.finish(snapshot_id, begun.fence, SnapshotState.COMPLETE, now, report=RunReport())
        stores.snapshots.publish(snapshot_id, begun.fence, now)

    state = open_state(state_url)
    try:
        state.write(work)
    finally:
        state.close()
    files = folder / "files"
    small = tuple(files / each.formats["csv"].key for each in entries)
    key = static_key(token.token_id, keyring=keyring.load(folder / "keyring.json"))
    return Home(folder, tuple(leaders), small, files / large.formats["csv"].key, secret, key)


def _add_directory(stores: Stores, leaders: Sequence[str], password_hash: str) -> None:
    for client_id in leaders:
        account = Account(client_id, "Account", client_id, "+12125550100", "toll_free", api_tokens_enabled=True)
        stores.directory.put_accounts(account)
    for email in EMAILS:
        seat_id = _seat_id(email)
        stores.directory.put_seats(Seat(seat_id, email, password_hash))
        for client_id in leaders if email == EMAILS[0] else leaders[:1]:
            stores.directory.put_grants(Grant(seat_id, client_id, ("owner",), data_export=True, async_rest_api=True))
