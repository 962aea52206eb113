"""`daybreakd doctor`: whether everything the service needs is there and in order."""

import os
import shutil
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from daybreak.cli.faults import told
from daybreak.cli.options import AsJson, Config, settings_of
from daybreak.cli.output import say, say_json, shown_bytes, shown_instant
from daybreak.domain.errors import DaybreakError, FileStoreError, OperatorError

if TYPE_CHECKING:
    from daybreak.settings import Settings

# Before this version was made: a clock that says so is wrong.
_EARLIEST = datetime(2026, 11, 1, tzinfo=UTC)
_SPARE_BYTES = 1_000_000_000


def doctor(*, config: Config = None, json: AsJson = False) -> int:
    """Check configuration, keyring, state, files, source, disk, encoder and clock. Exit code 1 on a fault. With --json
    each check is one JSON line.
    """
    settings = settings_of(config)
    tell = _tell_json if json else _tell
    tell("configuration", str(settings.file or "from the environment"), True)
    # What a part that is away says is said once, however many checks need it.
    blamed: dict[str, str] = {}
    checks: tuple[tuple[str, Callable[[Settings], str]], ...] = (
        ("addresses", _addresses),
        ("keyring", _keyring),
        ("state database", _state),
        ("file store", _files),
        ("source", _source),
        ("disk", _disk),
        ("encoder", _encoder),
        ("clock", _clock),
        ("freshness", _freshness),
    )
    for name, check in checks:
        try:
            tell(name, check(settings), True)
        except (DaybreakError, OSError) as fault:
            text = told(fault)
            first = blamed.setdefault(text, name)
            tell(name, text if first == name else f"not looked at, see {first}", False)
    return 1 if blamed else 0


def _tell(check: str, text: str, good: bool) -> None:
    say(f"{'ok   ' if good else 'FAULT'} {check}: " + "\n      ".join(text.splitlines()))


def _tell_json(check: str, text: str, good: bool) -> None:
    say_json({"check": check, "ok": good, "detail": text})


def _addresses(settings: "Settings") -> str:
    parts = urlsplit(settings.base_url)
    if parts.scheme == "http" and parts.hostname not in {"127.0.0.1", "localhost", "::1"}:
        raise OperatorError(
            "base_url is plain http for a name others can reach: passwords and tokens would travel in the clear. "
            "Put a proxy with a certificate in front and set base_url to https://...; then require_https = true."
        )
    return f"{settings.base_url}, listening on {settings.listen}"


def _keyring(settings: "Settings") -> str:
    from daybreak.bootstrap import open_keyring

    ring = open_keyring(settings).current()
    return f"{settings.keys.file}, {ring.signing_kid} signs"


def _encoder(settings: "Settings") -> str:
    from daybreak.export.line_encoder import why_not

    del settings
    reason = why_not()
    return "compiled" if reason is None else f"lines are made in SQL, which takes longer: {reason}"


def _state(settings: "Settings") -> str:
    from daybreak.bootstrap import open_state

    with closing(open_state(settings)) as state:
        accounts, seats = state.read(
            lambda stores: (len(stores.directory.load().accounts), len(stores.seats.list_all()))
        )
    hint = "" if accounts and seats else "; next `daybreakd directory import FILE`"
    return f"{accounts:,} accounts, {seats:,} seats{hint}"


def _files(settings: "Settings") -> str:
    from daybreak.bootstrap import open_files

    store = open_files(settings)
    store.probe()
    free = store.free_bytes()
    return settings.files.url + (f", {shown_bytes(free)} free" if free is not None else "")


def _source(settings: "Settings") -> str:
    from daybreak.bootstrap import now_utc, open_source

    with open_source(settings).open(now_utc()) as reading:
        reading.check()
        count = len(reading.leaders())
        hint = "" if count else "; files are made for each row of the table leaders, and it has none"
        return f"{settings.source.engine}, {count:,} Leaders, about {shown_bytes(reading.input_bytes())}{hint}"


def _disk(settings: "Settings") -> str:
    from daybreak.bootstrap import temp_dir

    folder = temp_dir(settings)
    existing = _existing(folder)
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise OperatorError(f"nothing can be spilled in {folder}: {existing} cannot be written. Set snapshot.temp_dir.")
    free = shutil.disk_usage(existing).free
    if free < _SPARE_BYTES:
        raise OperatorError(f"{shown_bytes(free)} free for spilling in {folder}: make room or set snapshot.temp_dir.")
    return f"{shown_bytes(free)} free for spilling in {folder}"


def _clock(settings: "Settings") -> str:
    from daybreak.bootstrap import now_utc, open_state

    now = now_utc()
    if now < _EARLIEST:
        raise OperatorError(f"the clock says {shown_instant(now)} UTC: set it, and run an NTP service.")
    with closing(open_state(settings)) as state:
        newest = state.read(lambda stores: stores.snapshots.recent(1))
    if newest and newest[0].started_at > now + timedelta(minutes=1):
        started = shown_instant(newest[0].started_at)
        raise OperatorError(f"the clock says {shown_instant(now)} UTC, but a run started at {started}: it went back.")
    return f"{shown_instant(now)} UTC"


def _freshness(settings: "Settings") -> str:
    from daybreak.bootstrap import now_utc, open_state
    from daybreak.snapshots.freshness import freshness

    with closing(open_state(settings)) as state:
        fresh = state.read(lambda stores: freshness(stores.snapshots, now_utc(), settings.snapshot.publish_at))
    due = f"next files expected {shown_instant(fresh.next_expected_at)} UTC"
    if fresh.snapshot is None:
        return f"nothing is served yet, {due}; for files now `daybreakd snapshot run`"
    _look_for_a_file(settings, fresh.snapshot.snapshot_id)
    if fresh.late:
        raise OperatorError(f"{fresh.reason} ({due}.)")
    return f"as of {shown_instant(fresh.snapshot.as_of)} UTC, {due}"


def _look_for_a_file(settings: "Settings", snapshot_id: str) -> None:
    """A folder that is empty because its disk is not mounted is as good a folder as any. Raises OperatorError."""
    from daybreak.bootstrap import open_files, open_state

    with closing(open_state(settings)) as state:
        entry = state.read(lambda stores: next(stores.snapshots.entries(snapshot_id), None))
    if entry is None:
        return
    store = open_files(settings)
    try:
        next(store.read(next(iter(entry.formats.values())).key), b"")
    except FileStoreError as fault:
        raise OperatorError(
            f"{fault.message} It is one of those that are served: see that files.url is right and its disk mounted. "
            "Files that are lost are made anew by `daybreakd snapshot run --full`."
        ) from fault


def _existing(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder
