"""Accounts, seats and files of the acceptance tests."""

import csv
import functools
import gzip
import hashlib
import io
import json
import os
import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet
import sqlalchemy as sa

from daybreak.access import api_tokens
from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.formats import delta_format
from daybreak.catalogue.resources import RESOURCES, Resource, resource_named
from daybreak.credentials import keyring, passwords, totp
from daybreak.credentials.signing_folder import create_keys
from daybreak.domain.audit import AuditEvent, AuditQuery
from daybreak.domain.delta import LeaderDelta, ResourceDelta
from daybreak.domain.identity import Account, ApiToken, BillingState, Grant, Seat
from daybreak.domain.run_report import RunReport
from daybreak.domain.snapshot import FileStatistics, ManifestEntry, Snapshot, SnapshotState, StoredFormat
from daybreak.export.delta.delta_lines import delta_header
from daybreak.export.parquet_parts import add_parts
from daybreak.filestore.file_store import FileSink, FileStore
from daybreak.filestore.local_disk import LocalDisk
from daybreak.snapshots.signing import sign_for_publication
from daybreak.state.database import open_state, sqlite_path
from daybreak.state.schema import sessions
from daybreak.state.stores import State, Stores
from tests.configured import configured
from tests.parts.csv_content import csv_bytes
from tests.parts.migrated import create_migrated

Result = TypeVar("Result")

PASSWORD = "nine green bicycles uphill"
SEED = b"twenty octets of it!"


def _id(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"acceptance:{name}"))


NORTH, SOUTH, CLOSED, VAULT, FOREIGN, NOT_EXPORTED, UNKNOWN = (
    _id(name) for name in ("north", "south", "closed", "vault", "foreign", "not exported", "unknown")
)
ACCOUNTS = {
    NORTH: Account(
        NORTH, "North", "Light", "+12125550100", "toll_free", api_tokens_enabled=True,
        campaign_messages_monthly_threshold=1000, campaign_messages_monthly_used=25,
        billing=BillingState(billing_provided=True, billing_required=True, trial_length_days=14, trial_started=True),
    ),
    SOUTH: Account(SOUTH, "South", "Wind", "+12125550101", "long_code", api_tokens_enabled=True),
    CLOSED: Account(CLOSED, "Closed", "House", "+12125550102", "long_code", active=False, api_tokens_enabled=True),
    VAULT: Account(VAULT, "Vault", "", "+12125550103", "short_code", second_factor_required=True),
    FOREIGN: Account(FOREIGN, "Foreign", "Land", "+12125550104", "long_code", api_tokens_enabled=True),
    NOT_EXPORTED: Account(NOT_EXPORTED, "Not", "Exported", "+12125550105", "long_code"),
}  # fmt: skip
# Accounts in the snapshot. The others have no files.
LEADERS = (NORTH, SOUTH, CLOSED, VAULT, FOREIGN)

MAYA = "maya@example.org"  # all permissions on two active accounts and a closed one
VIC = "vic@example.org"  # a grant without Data Export
CARL = "carl@example.org"  # a second factor, which one of the accounts requires
TWIN = "twin@example.org"  # a second factor; each step works once, so tests do not share a seat
GUESS = "guess@example.org"  # a second factor, for tests that guess codes
TRACE = "trace@example.org"  # a second factor, for tests of the audit trail
NEWT = "newt@example.org"  # must set up a second factor
IVAN = "ivan@example.org"  # a grant on a closed account only
FREYA = "freya@example.org"  # a grant on the foreign account
DREW = "drew@example.org"  # for tests that revoke permissions
SEATS = (MAYA, VIC, CARL, TWIN, GUESS, TRACE, NEWT, IVAN, FREYA, DREW)
_GRANTS = (
    (MAYA, NORTH, True), (MAYA, SOUTH, True), (MAYA, CLOSED, True), (MAYA, NOT_EXPORTED, True),
    (VIC, NORTH, False),
    (CARL, VAULT, True), (CARL, NORTH, True),
    (TWIN, NORTH, True),
    (GUESS, NORTH, True),
    (TRACE, NORTH, True), (TRACE, SOUTH, True),
    (NEWT, VAULT, True),
    (IVAN, CLOSED, True),
    (FREYA, FOREIGN, True),
    (DREW, NORTH, True), (DREW, SOUTH, True),
)  # fmt: skip
LARGE_ROWS = 4_000
_ROW_GROUP_ROWS = 500


def seat_id(email: str) -> str:
    """Return the seat_id of an email."""
    return _id(email)


@dataclass(frozen=True)
class Installation:
    """A folder with a keyring and files, and a state database at `state_url`. The files may be in a bucket.

    `large_rows` is the number of rows of North's members; all other files are small. With `parquet`, snapshots have
    Parquet files too.
    """

    folder: Path
    state_url: str
    bucket: FileStore | None = None
    large_rows: int = LARGE_ROWS
    parquet: bool = False

    @property
    def keyring_file(self) -> Path:
        return self.folder / "keyring.json"

    @property
    def files_folder(self) -> Path:
        return self.folder / "files"

    def state(self) -> State:
        """Open the state database. The caller closes it."""
        return open_state(self.state_url)

    def create(self) -> None:
        """Create the folder, the state database and a published snapshot."""
        self.folder.mkdir(parents=True, exist_ok=True)
        now = datetime.now(UTC)
        ring = keyring.create(self.keyring_file, now, os.urandom)
        create_migrated(self.state_url)
        self._add_directory(ring, now)
        self.publish_snapshot(seed=1)

    def create_token(self, email: str, client_id: str, *, expires_at: datetime | None = None) -> tuple[str, str]:
        """Create an API token; return its secret and its id."""
        secret = api_tokens.generate(os.urandom)
        token = ApiToken(
            token_id=str(uuid.uuid4()), digest=api_tokens.digest(secret), seat_id=seat_id(email), client_id=client_id,
            name="test", last_four=secret[-4:], created_at=datetime.now(UTC), expires_at=expires_at,
        )  # fmt: skip
        self.change(lambda stores: stores.api_tokens.add(token))
        return secret, token.token_id

    def change(self, work: Callable[[Stores], object]) -> None:
        """Change the state database, as another process does while the service runs."""
        with closing(self.state()) as state:
            state.write(work)

    def read(self, work: Callable[[Stores], Result]) -> Result:
        """Read the state database."""
        with closing(self.state()) as state:
            return state.read(work)

    def events(self, **query: Any) -> list[AuditEvent]:
        """Return the audit events that match the fields of an `AuditQuery`."""
        return self.read(lambda stores: stores.audit.read(AuditQuery(**query)))

    def reset_attempts(self, *emails: str) -> None:
        """Reset the rate limits, and the used codes of these seats, so that a test can use them up."""
        now, ring = datetime.now(UTC), keyring.load(self.keyring_file)

        def work(stores: Stores) -> None:
            stores.throttle.delete_expired(now + timedelta(days=3))
            for email in emails:
                stores.seats.reset_second_factor(seat_id(email))
                _enrol(stores, email, ring, now)

        self.change(work)

    def expire_sessions(self, email: str) -> None:
        """Set the expiry of all sessions of a seat to the current time."""
        self._change_sessions(email, expires_at=datetime.now(UTC))

    def add_second_factor_to_sessions(self, email: str) -> None:
        """Change all sessions of a seat as if they had been started with a code."""
        self._change_sessions(email, amr=("pwd", "otp"))

    def _change_sessions(self, email: str, **values: object) -> None:
        path = sqlite_path(self.state_url)
        driver = (
            "postgresql+psycopg" + self.state_url.removeprefix("postgresql") if path is None else f"sqlite:///{path}"
        )
        engine = sa.create_engine(driver)
        with engine.begin() as connection:
            connection.execute(sa.update(sessions).where(sessions.c.seat_id == seat_id(email)).values(**values))
        engine.dispose()

    def publish_snapshot(self, *, seed: int, with_delta: bool = False, with_statements: bool = False) -> str:
        """Publish files for every Leader and return the snapshot_id. Another seed creates other rows.

        `with_delta` adds a delta of North's communities to the published snapshot. `with_statements` signs it.
        """
        now = datetime.now(UTC)
        snapshot_id = str(uuid.uuid4())
        store = self.bucket or LocalDisk(self.files_folder)
        sink = store.stage(snapshot_id)
        entries = []
        for client_id in LEADERS:
            for resource in RESOURCES:
                count, fingerprint, contents = _contents(resource, client_id, seed, self.large_rows)
                formats = {}
                for name, (content, digest, compressed) in contents.items():
                    written = sink.write(client_id, resource.name, name, [compressed])
                    formats[name] = StoredFormat(written.bytes, written.sha256, content, digest, written.key)
                if self.parquet:
                    formats["parquet"] = _write_parquet(sink, resource, client_id, seed, self.large_rows)
                entries.append(ManifestEntry(client_id, resource.name, count, fingerprint, formats))
        deltas = [_write_delta(sink)] if with_delta else []
        sink.commit()

        def work(stores: Stores) -> None:
            current = stores.snapshots.current()
            begun = stores.snapshots.begin_manual(Snapshot(snapshot_id, SnapshotState.BUILDING, now, now), now, 600)
            base_id = current.snapshot_id if current is not None and deltas else None
            stores.deltas.begin(snapshot_id, begun.fence, base_id)
            stores.deltas.add(snapshot_id, begun.fence, deltas)
            stores.snapshots.add_leaders(snapshot_id, begun.fence, LEADERS)
            stores.snapshots.add_entries(snapshot_id, begun.fence, entries)
            stores.snapshots.finish(snapshot_id, begun.fence, SnapshotState.COMPLETE, now, report=RunReport())

        with closing(self.state()) as state:
            state.write(work)
            if with_statements:
                signing = self.folder / "signing"
                create_keys(signing)
                settings = configured(base_url="https://export.example.org", signing={"folder": signing})
                sign_for_publication(state, store, settings, snapshot_id, now)
            state.write(lambda stores: stores.snapshots.publish(snapshot_id, None, now))
        return snapshot_id

    def _add_directory(self, ring: keyring.Keyring, now: datetime) -> None:
        hashed = _password_hash()

        def work(stores: Stores) -> None:
            for account in ACCOUNTS.values():
                stores.directory.put_accounts(account)
            for email in SEATS:
                stores.directory.put_seats(Seat(seat_id(email), email, hashed))
            for email, client_id, data_export in _GRANTS:
                stores.directory.put_grants(
                    Grant(seat_id(email), client_id, ("owner",), data_export=data_export, async_rest_api=True)
                )
            for email in (CARL, TWIN, GUESS, TRACE):
                _enrol(stores, email, ring, now)

        self.change(work)


@functools.cache
def _password_hash() -> str:
    return passwords.hash_password(PASSWORD)


def _enrol(stores: Stores, email: str, ring: keyring.Keyring, now: datetime) -> None:
    """Enrol the seat with SEED. The step that confirmed it is long past."""
    encrypted = totp.encrypt_seed(SEED, seat_id=seat_id(email), keyring=ring, random=os.urandom)
    stores.seats.begin_second_factor(seat_id(email), encrypted, now)
    stores.seats.confirm_second_factor(seat_id(email), 1, [], now)


def totp_code(*, ahead: int = 0, at: datetime | None = None) -> str:
    """Return the code of an instant, by default now, or of `ahead` steps later."""
    seconds = int((at or datetime.now(UTC)).timestamp())
    return totp.code_at(SEED, seconds // totp.STEP_SECONDS + ahead)


@functools.cache
def _contents(
    resource: Resource, client_id: str, seed: int, large_rows: int
) -> tuple[int, str, dict[str, tuple[int, str, bytes]]]:
    """Return the number of rows, their fingerprint, and by format: size and digest of the content, and the file."""
    rows = list(_rows(resource, client_id, seed, large_rows))
    files = {
        name: (len(content), hashlib.sha256(content).hexdigest(), gzip.compress(content, 1, mtime=0))
        for name, content in (("csv", csv_bytes(resource, rows)), ("json", _json(resource, rows)))
    }
    return len(rows), hashlib.sha256(repr(rows).encode()).hexdigest(), files


def _rows(resource: Resource, client_id: str, seed: int, large_rows: int) -> Iterator[list[object]]:
    rng = random.Random(f"{resource.name} {client_id} {seed}")
    if client_id == SOUTH and resource.name == "campaigns":
        return
    large = client_id == NORTH and resource.name == "members"
    count = large_rows if large else 3
    start = datetime(2026, 11, 1, tzinfo=UTC)
    for number in range(count):
        row: list[object] = []
        for column in resource.columns:
            if column.name == "LEADER_ID":
                row.append(client_id)
            elif column.nullable and number % 3 == 1:
                row.append(None)
            elif column.type is ColumnType.UUID:
                row.append(str(uuid.UUID(int=rng.getrandbits(128), version=4)))
            elif column.type is ColumnType.BIGINT:
                row.append(rng.randrange(10**6))
            elif column.type is ColumnType.BOOLEAN:
                row.append(rng.random() < 0.5)
            elif column.type is ColumnType.DATE:
                row.append(f"{start + timedelta(days=number % 20):%Y-%m-%d}")
            elif column.type is ColumnType.TIMESTAMP:
                row.append(f"{start + timedelta(seconds=number):%Y-%m-%dT%H:%M:%S.%fZ}")
            elif column.allowed:
                row.append(column.allowed[0])
            else:
                row.append(f'{rng.randbytes(60 if large else 6).hex()} says "hé, 🌅"\nand goes')
        yield row


def _write_parquet(sink: FileSink, resource: Resource, client_id: str, seed: int, large_rows: int) -> StoredFormat:
    rows = list(_rows(resource, client_id, seed, large_rows))
    content, null_counts = _parquet(resource, rows)
    parts = add_parts(content)
    written = sink.write(client_id, resource.name, "parquet", [content.getbuffer()])
    statistics = FileStatistics(len(rows), null_counts)
    return StoredFormat(
        written.bytes, written.sha256, written.bytes, written.sha256, written.key, statistics, parts=parts
    )


def _parquet(resource: Resource, rows: list[list[object]]) -> tuple[io.BytesIO, tuple[int, ...]]:
    """Return a Parquet file and the number of NULLs in each column."""
    types = {
        ColumnType.UUID: pa.string(), ColumnType.TEXT: pa.string(), ColumnType.BIGINT: pa.int64(),
        ColumnType.BOOLEAN: pa.bool_(), ColumnType.DATE: pa.date32(), ColumnType.TIMESTAMP: pa.timestamp("us", "UTC"),
    }  # fmt: skip
    arrays = []
    for position, column in enumerate(resource.columns):
        values = [row[position] for row in rows]
        if column.type in {ColumnType.DATE, ColumnType.TIMESTAMP}:
            parse = date.fromisoformat if column.type is ColumnType.DATE else datetime.fromisoformat
            values = [None if value is None else parse(str(value)) for value in values]
        arrays.append(pa.array(values, types[column.type]))
    out = io.BytesIO()
    table = pa.table(arrays, names=list(resource.column_names))
    pyarrow.parquet.write_table(table, out, row_group_size=_ROW_GROUP_ROWS)
    return out, tuple(array.null_count for array in arrays)


def _json(resource: Resource, rows: list[list[object]]) -> bytes:
    compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
    records = [compact.encode(dict(zip(resource.column_names, row, strict=True))) for row in rows]
    return ("[" + ",\n".join(records) + "]").encode()


def _write_delta(sink: FileSink) -> LeaderDelta:
    """Write a delta of one deleted community of North."""
    resource = resource_named("communities")
    community_id = _id("community")
    csv_line = f'"D","{community_id}"' + "," * (len(resource.columns) - 1)
    record = {"_OP": "D", **dict.fromkeys(resource.column_names), "COMMUNITY_ID": community_id}
    contents = {"csv": delta_header(resource) + csv_line.encode() + b"\n", "json": f"[{json.dumps(record)}]".encode()}
    formats = {}
    for name, content in contents.items():
        written = sink.write(NORTH, resource.name, delta_format(name).name, [gzip.compress(content, 1, mtime=0)])
        digest = hashlib.sha256(content).hexdigest()
        formats[name] = StoredFormat(written.bytes, written.sha256, len(content), digest, written.key)
    change = ResourceDelta(4, 3, deleted=1, lines=1, content_sha256_before="a" * 64, content_sha256_after="b" * 64,
                           formats=formats)  # fmt: skip
    return LeaderDelta(NORTH, resource.name, change)


def rows_of_csv(content: bytes) -> list[list[str]]:
    """Return the records of a CSV file, header first."""
    return list(csv.reader(io.StringIO(content.decode(), newline="")))
