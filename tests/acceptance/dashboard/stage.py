"""The stage of the dashboard's tests and pictures: a whole service with a believable small directory and a week of
snapshots, made through the same stores and file store that the service uses, and served by its own web worker.

    python -m tests.acceptance.dashboard.stage FOLDER PORT [HOUR MEMBERS DAYS]

HOUR is the UTC hour of publication: tests take one that is hours away, so that none runs across it.
"""

import asyncio
import base64
import gzip
import io
import json
import os
import random
import socket
import sys
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day
from pathlib import Path
from typing import Any

from daybreak import downloads
from daybreak.access import throttle
from daybreak.access.hashing import PasswordHashing
from daybreak.access.services import AccessServices, AccessSettings
from daybreak.access.trail import TrailBuffer
from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import RESOURCES, Resource
from daybreak.credentials import keyring, passwords, totp
from daybreak.domain.audit import AuditEvent
from daybreak.domain.identity import Account, Grant, Seat
from daybreak.domain.snapshot import ManifestEntry, Snapshot, SnapshotState, StoredFormat
from daybreak.filestore.local_disk import LocalDisk
from daybreak.ports.state import Node, State, Stores
from daybreak.snapshots.schedule import last_due, publication_of
from daybreak.state.migrate import migrate
from daybreak.state.sqlite_state import SqliteState
from daybreak.web.services import Services, WebSettings
from tests.parts.hashing import hashing_processes

PASSWORD = "seven lanterns over the harbour"
SEED = bytes(range(1, 21))
RECOVERY_CODE = "aaaa-bbbb-cccc"
HOSTILE = "<img src=x onerror=alert(1)>\"'&amp;{{7*7}}</script>\u202etxet"


def _id(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"stage:{name}"))


NORTHLIGHT, KITA, ODD, CLOSED, VAULT, VIEWER, UNKNOWN, LONG = (
    _id(name) for name in ("northlight", "kita", "odd", "closed", "vault", "viewer", "unknown", "long")
)


def seat_id(email: str) -> str:
    """The id of a seat on the stage."""
    return _id(email)


NAMES = (
    "maya", "analyst", "careful", "newcomer", "operator", "agency", "changer", "enroller",
    "a.long.name." * 5 + "given.by.a.machine",
)  # fmt: skip
OWNER, ANALYST, CAREFUL, NEWCOMER, OPERATOR, AGENCY, CHANGER, ENROLLER, WORDY = (
    f"{name}@example.org" for name in NAMES
)
AGENCY_ACCOUNTS = 120
_WORDS = (
    "Opening night", "Rehearsal call", "Two for one", "Season tickets", "Tonight only", "Thank you, volunteers",
    "Doors at seven", "Matinée, 15 % off", "Behind the curtain 🎭", "早鳥チケット", "Último día", "Encore!",
)  # fmt: skip
_STATES = ("New York", "California", "Texas", "Illinois", "Massachusetts", "Washington", "Ontario", "Québec", "Oregon")
_FIRST = ("Ada", "José", "Mei", "Noor", "Luca", "Fatima", "Olga", "Kwame", "Zoë", "Yuki", "Ana", "Piotr")
_LAST = ("Okafor", "García", "Chen", "Haddad", "Rossi", "O'Neil", "Ivanova", "Mensah", "Müller", "Tanaka", "Silva")


def account(client_id: str, name: str, *, number: int = 0, **more: Any) -> Account:
    """An account with a name in one or two words."""
    first, _, last = name.partition(" ")
    return Account(client_id, first, last, f"+1212555{number:04d}", "toll_free", api_tokens_enabled=True, **more)


def make_stage(folder: Path, now: datetime, *, publish_at: time_of_day, members: int, days: int) -> None:
    """Writes state database, keyring and files below the folder; `members` of the largest account."""
    folder.mkdir(parents=True, exist_ok=True)
    ring = keyring.create(folder / "keyring.json", now, os.urandom)
    migrate(f"sqlite:///{folder / 'state.db'}")
    state = SqliteState(folder / "state.db")
    try:
        _people(state, ring, now)
        due = publication_of(last_due(now, publish_at), publish_at)
        _snapshots(state, LocalDisk(folder / "files"), due, members, days)
    finally:
        state.close()


def _people(state: State, ring: keyring.Keyring, now: datetime) -> None:
    password_hash = passwords.hash_password(PASSWORD)
    accounts = [
        account(NORTHLIGHT, "Northlight Theatre", number=100),
        account(KITA, "Kita Café 北カフェ", number=101),
        account(ODD, f"Odd {HOSTILE}", number=102),
        account(CLOSED, "Old Harbour Cinema", number=103, active=False),
        account(VAULT, "Vault Credit Union", number=104, second_factor_required=True),
        account(VIEWER, "Riverside Museum", number=105),
        account(UNKNOWN, "Brand New Bakery", number=106),
        account(LONG, f"Mr. {'Extraordinarily' * 9}", number=107),
    ]
    agency = [
        account(_id(f"agency {number}"), f"Agency Client {number:03d}", number=1000 + number)
        for number in range(AGENCY_ACCOUNTS)
    ]
    seats = {email: Seat(_id(email), email, password_hash) for email in (f"{name}@example.org" for name in NAMES)}

    def grant(email: str, client_id: str, *, export: bool = True, api: bool = True, role: str = "owner") -> Grant:
        return Grant(seats[email].seat_id, client_id, (role,), export, api)

    grants = [
        *(grant(OWNER, client_id) for client_id in (NORTHLIGHT, KITA, ODD, CLOSED, UNKNOWN)),
        grant(OWNER, VIEWER, export=False, api=False, role="analyst"),
        grant(ANALYST, NORTHLIGHT, api=False, role="analyst"),
        grant(CAREFUL, VAULT),
        grant(CAREFUL, NORTHLIGHT, role="admin"),
        grant(NEWCOMER, VAULT, role="analyst"),
        grant(OPERATOR, NORTHLIGHT, role="admin"),
        grant(CHANGER, KITA),
        grant(ENROLLER, KITA),
        grant(WORDY, LONG),
        *(grant(AGENCY, entry.client_id, role="admin") for entry in agency),
    ]

    def write(stores: Stores) -> None:
        for entry in [*accounts, *agency]:
            stores.directory.put_accounts(entry)
        for seat in seats.values():
            stores.directory.put_seats(seat)
        for given in grants:
            stores.directory.put_grants(given)
        stores.seats.set_operator(seats[OPERATOR].seat_id, True)
        _enrol(stores, ring, seats[CAREFUL].seat_id, now)
        for place, (host, roles) in enumerate((("north-1", ("web", "builder")), ("north-2", ("web",)))):
            stores.nodes.beat(Node(_id(host), host, "1.0.0", now - timedelta(days=3, hours=place), now, roles))
        for event in _past_events(seats[OWNER], now):
            stores.audit.append(event)

    state.write(write)


def _past_events(seat: Seat, now: datetime) -> Iterator[AuditEvent]:
    agent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36"
    for number in range(130):
        action = ("login", "link.issued", "file.fetched", "context.switched")[number % 4]
        yield AuditEvent(
            at=now - timedelta(hours=3 * (130 - number)),
            action=action,
            result="invalid_credentials" if number % 24 == 8 else "ok",
            actor=seat.email,
            seat_id=seat.seat_id,
            client_id=NORTHLIGHT,
            subject="token:nightly" if number % 3 else "session:browser",
            address="203.0.113.7" if number % 5 else "198.51.100.23",
            user_agent=agent if number % 3 else "curl/8.14.1",
            details={"file": "members.csv.gz"} if action in ("link.issued", "file.fetched") else {},
        )


def as_new(state: State, ring: keyring.Keyring, email: str, now: datetime) -> None:
    """Puts a seat back to how it stood at the start, so that a test of it may run again."""
    password_hash = passwords.hash_password(PASSWORD)
    seat = seat_id(email)

    def write(stores: Stores) -> None:
        stores.sessions.end_all(seat, now, "the test")
        # Enrolled anew, as a code of this half minute may have been used; a reset alone remembers that.
        _enrol(stores, ring, seat, now)
        if email != CAREFUL:
            stores.seats.reset_second_factor(seat)
        for rule in throttle.second_factor_rules(throttle.Limits(), seat_id=seat):
            stores.throttle.clear(rule.key)
        stores.seats.set_password_hash(seat, password_hash, now)

    state.write(write)


def _enrol(stores: Stores, ring: keyring.Keyring, seat: str, now: datetime) -> None:
    """Gives a seat the second factor of SEED, of which no code was used yet, and one recovery code."""
    stores.seats.begin_second_factor(seat, totp.seal(SEED, seat_id=seat, keyring=ring, random=os.urandom), now)
    stores.seats.confirm_second_factor(seat, 1, [totp.recovery_digest(RECOVERY_CODE, seat_id=seat)], now)


def seed_of(manual_key: str) -> bytes:
    """The seed of a key as the enrolment page shows it."""
    text = manual_key.replace(" ", "").upper()
    return base64.b32decode(text + "=" * (-len(text) % 8))


# --- Snapshots ------------------------------------------------------------------------------------


def _snapshots(state: State, store: LocalDisk, due: datetime, members: int, days: int) -> None:
    rows = {NORTHLIGHT: _rows(NORTHLIGHT, members, due), KITA: _rows(KITA, 60, due), ODD: _rows(ODD, 12, due)}
    rows[VAULT] = _rows(VAULT, 40, due)
    rows.update({_id(f"agency {number}"): _rows(f"agency {number}", 3, due) for number in range(3)})
    for back in range(days - 1, -1, -1):
        published = due - timedelta(days=back)
        if back == 1:
            _failed(state, published - timedelta(hours=5))
        _one_snapshot(
            state, store, published, rows, share=1 - 0.022 * back - (0.05 if back == 3 else 0), last=back == 0
        )


def _one_snapshot(
    state: State,
    store: LocalDisk,
    published: datetime,
    rows: dict[str, dict[str, list[list[Any]]]],
    *,
    share: float,
    last: bool,
) -> None:
    as_of = published - timedelta(minutes=48)
    snapshot_id = str(uuid.uuid4())
    begun = Snapshot(
        snapshot_id, SnapshotState.BUILDING, as_of, started_at=as_of, day=published.date(), builder="north-1"
    )
    sink = store.stage(snapshot_id)
    entries = []
    report: dict[str, Any] = {"seconds": 1874.2, "resources": {}}
    for number, resource in enumerate(RESOURCES):
        total = 0
        for client_id, by_resource in rows.items():
            wanted = by_resource[resource.name]
            part = wanted[: max(1, round(len(wanted) * share))]
            if resource.name in ("communities", "outbound_message_type_usage"):
                part = wanted
            total += len(part)
            entries.append(_entry(sink, client_id, resource, part))
        entries.append(_entry(sink, "", resource, []))
        seconds = round(40 + 1200 * total / 30000 + 31 * number, 1)
        report["resources"][resource.name] = {"rows": total * 1000, "seconds": seconds, "nulls": {}}
    sink.seal()
    leaders = [*rows, *(_id(f"agency {number}") for number in range(AGENCY_ACCOUNTS)), VIEWER]

    def write(stores: Stores) -> None:
        claimed = stores.snapshots.claim_day(begun, as_of, 60)
        assert claimed is not None
        stores.snapshots.add_leaders(claimed.snapshot_id, claimed.fence, sorted(set(leaders)))
        stores.snapshots.add_entries(claimed.snapshot_id, claimed.fence, entries)
        done = as_of + timedelta(minutes=31, seconds=14)
        stores.snapshots.finish(claimed.snapshot_id, claimed.fence, SnapshotState.COMPLETE, done, report=report)
        stores.snapshots.publish(claimed.snapshot_id, claimed.fence, published)

    state.write(write)


def _failed(state: State, at: datetime) -> None:
    def write(stores: Stores) -> None:
        begun = Snapshot(str(uuid.uuid4()), SnapshotState.BUILDING, at, started_at=at, builder="north-2")
        run = stores.snapshots.begin_manual(begun, at, 60)
        stores.snapshots.finish(
            run.snapshot_id, run.fence, SnapshotState.FAILED, at + timedelta(minutes=3), report={},
            failure="The platform's database ended the reading: connection reset.",
        )  # fmt: skip

    state.write(write)


def add_held(state: State, now: datetime) -> str:
    """A run by hand that the guard holds back; its id."""
    snapshot_id = str(uuid.uuid4())
    detail = "members has 1240 rows where it had 2600: 52% fewer (limit 30%)."
    odd = {"unknown_leader_rows": 37}
    report = {
        "seconds": 1803.0,
        "resources": {
            resource.name: {"rows": 1240, "seconds": 120.5, **(odd if resource.name == "members" else {})}
            for resource in RESOURCES
        },
        "findings": [{"kind": "rows", "resource": "members", "detail": detail, "before": 2600, "now": 1240}],
    }

    def write(stores: Stores) -> None:
        begun = Snapshot(
            snapshot_id, SnapshotState.BUILDING, now, started_at=now - timedelta(minutes=31), builder="north-1"
        )
        run = stores.snapshots.begin_manual(begun, now, 60)
        stores.snapshots.finish(snapshot_id, run.fence, SnapshotState.HELD, now, report=report)

    state.write(write)
    return snapshot_id


def add_building(state: State, now: datetime) -> tuple[str, int]:
    """A run that is under way; its id and fence."""
    snapshot_id = str(uuid.uuid4())
    begun = Snapshot(
        snapshot_id, SnapshotState.BUILDING, now, started_at=now - timedelta(minutes=12), builder="north-2"
    )
    run = state.write(lambda stores: stores.snapshots.begin_manual(begun, now, 86400))
    tell_progress(state, snapshot_id, run.fence, now, share=0.4)
    return snapshot_id, run.fence


def tell_progress(state: State, snapshot_id: str, fence: int, now: datetime, *, share: float) -> None:
    """What a builder tells while it runs."""
    progress = {
        "phase": "writing", "resource": "members", "resource_number": 4, "resources": 9, "rows": int(8_400_000 * share),
        "bytes": int(1.3e9 * share), "files": 2100, "seconds": 720.0, "rows_per_second": 11_600, "share": share,
        "expected_end": (now + timedelta(minutes=18)).isoformat(),
    }  # fmt: skip
    state.write(lambda stores: stores.snapshots.renew(snapshot_id, fence, now, 86400, progress))


def _entry(sink: Any, client_id: str, resource: Resource, rows: list[list[Any]]) -> ManifestEntry:
    formats = {}
    for name, content in (("csv", _csv(resource, rows)), ("json", _json(resource, rows))):
        written = sink.write(client_id, resource.name, name, [gzip.compress(content, 2, mtime=0)])
        formats[name] = StoredFormat(written.bytes, written.sha256, len(content), written.sha256, written.key)
    return ManifestEntry(client_id, resource.name, len(rows), "0" * 32, formats)


def _csv(resource: Resource, rows: Iterable[list[Any]]) -> bytes:
    text = io.StringIO()
    text.write(",".join(f'"{name}"' for name in resource.column_names) + "\n")
    quoted = [column.type in (ColumnType.TEXT, ColumnType.UUID) for column in resource.columns]
    for row in rows:
        cells = []
        for value, is_text in zip(row, quoted, strict=True):
            if value is None:
                cells.append("")
            elif is_text:
                cells.append('"' + str(value).replace('"', '""') + '"')
            else:
                cells.append(_plain(value))
        text.write(",".join(cells) + "\n")
    return text.getvalue().encode()


def _json(resource: Resource, rows: Iterable[list[Any]]) -> bytes:
    lines = [
        json.dumps(
            {name: _typed(value) for name, value in zip(resource.column_names, row, strict=True)}, ensure_ascii=False
        )
        for row in rows
    ]
    return ("[" + ",\n".join(lines) + "]\n").encode()


def _typed(value: Any) -> Any:
    return _plain(value) if isinstance(value, datetime) or hasattr(value, "isoformat") else value


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _rows(name: str, members: int, due: datetime) -> dict[str, list[list[Any]]]:
    draw = random.Random(name)
    leader = name if "-" in name and " " not in name else _id(name)
    rows: dict[str, list[list[Any]]] = {resource.name: [] for resource in RESOURCES}
    member_ids = sorted(str(uuid.UUID(int=draw.getrandbits(128), version=4)) for _ in range(members))
    communities = [
        (str(uuid.UUID(int=draw.getrandbits(128), version=4)), label)
        for label in ("Subscribers", "Volunteers", "Press & critics", "Students", "Donors", HOSTILE)
    ]
    sizes = dict.fromkeys((community for community, _ in communities), 0)
    for number, member in enumerate(member_ids):
        state = draw.choices(("live", "opted_out", "blocked", "deleted"), (86, 10, 2, 2))[0]
        first, last = draw.choice(_FIRST), draw.choice(_LAST)
        home = draw.choices(_STATES, (30, 20, 12, 9, 8, 7, 6, 5, 3))[0]
        gone = state == "deleted"
        at = due - timedelta(days=draw.randrange(3, 900), seconds=draw.randrange(86400))
        person: list[Any] = [
            f"+1{draw.randrange(2_000_000_000, 9_999_999_999)}", first, last,
            f"{first}.{last}{number}@example.com".lower(),
            due.date() - timedelta(days=draw.randrange(6500, 24000)) if draw.random() < 0.6 else None,
            draw.choice(("male", "female", "non_binary", "no_answer", None)), "Springfield", home, home[:2].upper(),
            "Canada" if home in ("Ontario", "Québec") else "United States",
            "CA" if home in ("Ontario", "Québec") else "US",
            draw.choice(("ios", "android", None)),
        ]  # fmt: skip
        if number == 0:
            person[1], person[2], person[6] = HOSTILE, '=HYPERLINK("http://x.example")', "-2+3"
        values = [None] * 12 if gone else person
        rows["members"].append([member, leader, values[0], state, *values[1:], at])
        rows["member_state_changes"].append([member, leader, "live", at])
        rows["custom_member_data"].append(
            [member, leader, "favourite_seat", None if gone else draw.choice(("stalls", "circle", "box"))]
        )
        if number % 3 == 0:
            rows["member_term_accepts"].append(
                [
                    member,
                    leader,
                    communities[0][0],
                    None if gone else person[3],
                    "US",
                    True,
                    False,
                    due - timedelta(days=number % 80),
                    "Northlight Theatre",
                    None,
                    "Northlight Theatre",
                    "You agree to receive messages.",
                    None,
                    None,
                    due,
                ]
            )
        for community, label in communities:
            if draw.random() < 0.3:
                sizes[community] += 1
                rows["member_communities"].append([community, label, leader, member, at])
    rows["communities"] = sorted([community, label, leader, sizes[community]] for community, label in communities)
    for back in range(90):
        day = due.date() - timedelta(days=back)
        for channel, weight in (("sms", 1.0), ("mms", 0.35), ("whatsapp", 0.5)):
            busy = (
                members
                * weight
                * (1.6 if day.weekday() in (3, 4) else 0.7)
                * (1 + 0.25 * draw.random())
                * (1.3 - back / 180)
            )
            for kind, part in (("campaign", 0.8), ("dm", 0.12), ("automated", 0.08)):
                count = max(1, int(busy * part))
                rows["outbound_message_type_usage"].append(
                    [leader, leader, day, channel, kind, count, int(count * (1.4 if channel == "sms" else 1)), count]
                )
    rows["outbound_message_type_usage"].sort(key=lambda row: (row[2], row[3], row[4]))
    for number in range(max(2, min(64, members // 20))):
        campaign = str(uuid.UUID(int=draw.getrandbits(128), version=4))
        sent = due - timedelta(days=draw.randrange(0, 88), hours=draw.randrange(24))
        reached = draw.randrange(members // 3 + 1, members + 2)
        called = draw.choice(_WORDS) if number else HOSTILE
        replied = int(reached * draw.uniform(0.04, 0.22))
        rows["campaigns"].append(
            [
                campaign,
                leader,
                leader,
                "sms",
                sent,
                number % 17 == 5,
                f"{called}\nReply STOP to opt out",
                "sms",
                None,
                True,
                False,
                reached,
                int(replied * 1.2),
                replied,
                int(reached * draw.uniform(0.001, 0.012)),
                reached * 2,
                reached * 2,
                called,
            ]
        )
        if number % 2:
            rows["campaign_links"].append(
                [
                    campaign,
                    leader,
                    "link",
                    f"https://northlight.example/t/{number}?a=1&b=2",
                    reached,
                    int(reached * draw.uniform(0.05, 0.4)),
                ]
            )
    rows["campaigns"].sort()
    rows["campaign_links"].sort()
    return rows


# --- Serving --------------------------------------------------------------------------------------


def open_services(folder: Path, base_url: str, publish_at: time_of_day, hashing: socket.socket) -> Services:
    """The service's parts on the stage; `hashing` is where to ask the hashing processes."""
    state, ring = SqliteState(folder / "state.db"), keyring.KeyringFile(folder / "keyring.json")

    def clock() -> datetime:
        return datetime.now(UTC)

    access = AccessServices(AccessSettings(issuer=base_url), state, ring, PasswordHashing(hashing), clock, os.urandom)
    fetch = downloads.DownloadServices(
        downloads.DownloadSettings(base_url=base_url, publish_at=publish_at),
        state,
        ring,
        TrailBuffer(state),
        clock,
        os.urandom,
    )
    return Services(
        settings=WebSettings(base_url=base_url, operator_contact="data@northlight.example"), state=state,
        files=LocalDisk(folder / "files"), keyring=ring, clock=clock, random=os.urandom, access=access, downloads=fetch,
    )  # fmt: skip


def main() -> None:
    """Makes the stage when the folder has none, and serves it."""
    import structlog

    from daybreak.web.app import Application
    from daybreak.web.worker import run_app

    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    hour, members, days = (int(value) for value in (sys.argv[3:6] or ("4", "400", "3")))
    publish_at = time_of_day(hour)
    if not (folder / "state.db").exists():
        make_stage(folder, datetime.now(UTC), publish_at=publish_at, members=members, days=days)
    listener = socket.create_server(("127.0.0.1", port), backlog=128)
    with hashing_processes() as (hashing, _):
        services = open_services(folder, f"http://127.0.0.1:{port}", publish_at, hashing)

        async def close() -> None:
            await services.downloads.trail.aclose()
            await asyncio.to_thread(services.state.close)

        print("ready", flush=True)
        run_app(Application(services, close), listener, beat=lambda: None)


if __name__ == "__main__":
    main()
