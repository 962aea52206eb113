"""`daybreakd doctor`: checks of everything that the service needs."""

import asyncio
import os
import shutil
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated
from urllib.parse import urlsplit

from cyclopts import Parameter

from daybreak.access.keys import kids_in_use
from daybreak.bootstrap import directory_sync, open_files, open_provider, open_source, read_keyring
from daybreak.cli.doctor_deep import DEEP_CHECKS, check_s3
from daybreak.cli.options import AsJson, Config, Flag, read_state, settings_of, state_of
from daybreak.cli.output import describe_error, format_instant, print_json, print_text
from daybreak.credentials.signing_folder import RECOVERY_FILE
from daybreak.domain.clock import now_utc
from daybreak.domain.display import format_count, format_size
from daybreak.domain.errors import DaybreakError, FileStoreError, OperatorError, ProviderUnavailable, Unavailable
from daybreak.events.mail_server import MailServer
from daybreak.export.line_encoder.runtime import unavailable_reason
from daybreak.filestore.file_store import FileStore, FreeSpace
from daybreak.proof.newest import stale_tables
from daybreak.settings import Settings
from daybreak.settings.load import secret_in_file
from daybreak.settings.text_forms import LOOPBACK_HOSTS
from daybreak.snapshots.disk_space import RESERVE_BYTES
from daybreak.snapshots.freshness import freshness
from daybreak.snapshots.retention import unknown_snapshots
from daybreak.snapshots.trust import signing_state
from daybreak.state.nodes import CLOCK_TOLERANCE, describe_offset

# This version was not released before; an earlier clock is wrong.
_EARLIEST = datetime(2026, 11, 1, tzinfo=UTC)
_MIN_FREE_BYTES = 1_000_000_000
_MIN_FREE_FILES = 1_000
_MAX_NAMED = 3
# Each run synchronizes first, so that a day without a sync is a day without a run.
_MAX_SYNC_AGE = timedelta(hours=26)
# Checks that fail with the check that they need.
_NEEDS = {"freshness": "file store", "large file": "file store"}


def doctor(
    *,
    deep: Annotated[
        Flag,
        Parameter(
            help="Also write and read a file of 20 MB, compare nodes, run own models for 1,000 rows, resolve the hosts "
            "of webhooks, and send requests to nginx and to the collector.",
        ),
    ] = False,
    config: Config = None,
    json: AsJson = False,
) -> int:
    """Check settings, keyring, signing, both databases, files, disk, encoder, single sign-on, mail, webhooks, tasks,
    clock and freshness. A line `FAULT` names what to change. Exit code 1 if a check fails. With --json each check is
    one JSON line.
    """

    def report(check: str, text: str, passed: bool) -> None:
        if json:
            print_json({"check": check, "ok": passed, "detail": text})
        else:
            print_text(f"{'ok   ' if passed else 'FAULT'} {check}: " + "\n      ".join(text.splitlines()))

    try:
        settings = settings_of(config)
    except OperatorError as fault:
        if json:
            report("configuration", fault.message, False)
        raise
    # The errors so far, by check: an unavailable component is reported once.
    failed: dict[str, str] = {}
    for name, check in (*_CHECKS, *(DEEP_CHECKS if deep else ())):
        try:
            report(name, check(settings), True)
        except (DaybreakError, OSError) as error:
            text = describe_error(error)
            cause = next((each for each in failed if each == _NEEDS.get(name) or text.endswith(failed[each])), None)
            report(name, text if cause is None else f"not checked, see {cause}", False)
            failed.setdefault(cause or name, text)
    return 1 if failed else 0


def _configuration(settings: Settings) -> str:
    file = settings.file
    if file is None:
        return "from the environment"
    mode, secret = stat.S_IMODE(file.stat().st_mode), secret_in_file(file)
    if mode & 0o077 and secret is not None:
        raise OperatorError(
            f"{file} contains a secret in {secret}, and other users can read it (mode {mode:04o}). Run "
            f"`chmod 600 {file}`, and replace the secret if another user may have read it."
        )
    return str(file)


def _addresses(settings: Settings) -> str:
    parts = urlsplit(settings.base_url)
    if parts.scheme == "http" and parts.hostname not in LOOPBACK_HOSTS:
        raise OperatorError(
            "base_url is plain HTTP on a public host: passwords and tokens are sent unencrypted. Put a proxy with a "
            "certificate in front, set base_url to https://... and require_https to true."
        )
    direct = not settings.trusted_proxies and not settings.listen.startswith("unix:")
    if direct and parts.scheme == "https":
        raise OperatorError(
            "base_url is HTTPS, so a proxy is in front, but trusted_proxies is empty: every request has the address of "
            "the proxy, all users share its login limits, and require_https refuses them. Add the proxy's addresses to "
            "trusted_proxies."
        )
    if direct and parts.hostname in LOOPBACK_HOSTS and not settings.listen.endswith(f":{parts.port or 80}"):
        raise OperatorError(
            f"base_url is {settings.base_url}, but the service listens on {settings.listen}, so links lead nowhere. "
            "Set base_url to the address in listen. If a proxy on this machine listens on that port, add it to "
            "trusted_proxies."
        )
    return f"{settings.base_url}, listening on {settings.listen}"


def _keyring(settings: Settings) -> str:
    ring, in_use = read_state(settings, lambda stores: (read_keyring(settings, stores), kids_in_use(stores)))
    lost = sorted(in_use.difference(ring.usable(in_use)))
    if lost:
        raise OperatorError(
            f"keys.file: {settings.keys.file} lacks the key {lost[0]}, which encrypts second factors or secrets of "
            "webhooks. Restore the keyring that was backed up with the state database, and revoke again what was "
            "revoked. Without it, use `daybreakd seat reset-second-factor`, and renew these secrets in the dashboard."
        )
    return f"{settings.keys.file}, signing key {ring.signing_kid}"


def _signing(settings: Settings) -> str:
    with state_of(settings) as state:
        found = signing_state(state, settings)
    recovery = settings.signing.folder / RECOVERY_FILE
    return f"{found}; move {recovery} to a safe place" if recovery.exists() else found


def _single_sign_on(settings: Settings) -> str:
    provider = open_provider(settings)
    if provider is None:
        return "not configured"
    try:
        keys = asyncio.run(provider.check())
    except ProviderUnavailable as error:
        raise OperatorError(f"oidc.issuer: {error.detail}.") from None
    return f"{provider.issuer}, {format_count(keys, 'key')}; register the redirect URI {provider.redirect_uri}"


def _locations(settings: Settings) -> str:
    from daybreak.web.dashboard.security.locations import describe_database

    database = settings.access.location_database
    return "not configured" if database is None else describe_database(database)


def _mail(settings: Settings) -> str:
    if not settings.mail.enabled:
        return "off (mail.url is empty): no notifications by mail, no password resets"
    return MailServer(settings.mail).check()


def _webhooks(settings: Settings) -> str:
    if not settings.events.webhooks:
        return "off (events.webhooks is false)"
    networks = ", ".join(str(each) for each in settings.events.allowed_networks)
    return "on, to public addresses" + (f" and {networks}" if networks else " only")


def _tasks(settings: Settings) -> str:
    faults = read_state(settings, lambda stores: stores.task_faults.list_all())
    lines = [
        f"{each.task} on {each.host}: {format_count(each.failures, 'failure')} in a row, last at "
        f"{format_instant(each.failed_at)} UTC: {each.error}"
        for each in faults
    ]
    if lines:
        raise OperatorError("\n".join(lines))
    return "none fails"


def _encoder(settings: Settings) -> str:
    del settings
    reason = unavailable_reason()
    return "compiled" if reason is None else f"lines are formatted in SQL, which is slower: {reason}"


def _state(settings: Settings) -> str:
    accounts, seats = read_state(settings, lambda stores: (stores.directory.load().accounts, stores.seats.list_all()))
    verb = "sync" if settings.directory.is_synced else "import FILE"
    hint = "" if accounts and seats else f"; next, run `daybreakd directory {verb}`"
    return f"{format_count(len(accounts), 'account')}, {format_count(len(seats), 'seat')}{hint}"


def _files(settings: Settings) -> str:
    store = open_files(settings, interactive=True)
    warning = store.probe()
    text = settings.files.url + _space(settings, store.free_space()) + _unknown_hint(settings, store)
    return text if warning is None else f"{text}\nwarning: {warning}"


def _space(settings: Settings, free: FreeSpace | None) -> str:
    """Return the free space of the file store. Raises OperatorError when a run would fail."""
    if free is None:
        return ""
    if free.bytes < RESERVE_BYTES:
        raise OperatorError(
            f"Only {format_size(free.bytes)} free in {settings.files.url}. A run fails unless "
            f"{format_size(RESERVE_BYTES)} stay free. Free some space, or keep fewer snapshots (snapshot.keep)."
        )
    if free.files is None:
        return f", {format_size(free.bytes)} free"
    if free.files < _MIN_FREE_FILES:
        raise OperatorError(
            f"Only {format_count(free.files, 'free inode')} in {settings.files.url}, and each file needs one. Keep "
            "fewer snapshots or deltas (snapshot.keep, snapshot.keep_deltas), or use a file system with more inodes, "
            "such as XFS."
        )
    return f", {format_size(free.bytes)} and {format_count(free.files, 'inode')} free"


def _unknown_hint(settings: Settings, store: FileStore) -> str:
    """Return a hint about snapshots that are in the store and not in the state database, "" if there are none."""
    in_store = [*store.ids("snapshots"), *store.ids("deltas")]
    try:
        unknown = read_state(settings, lambda stores: unknown_snapshots(stores, in_store))
    except (OperatorError, Unavailable):
        return ""  # The check of the state database reports it.
    if not unknown:
        return ""
    more = f" and {len(unknown) - _MAX_NAMED} more" if len(unknown) > _MAX_NAMED else ""
    return (
        "; kept snapshots that are not in the state database (of another instance, or newer than a restored backup): "
        f"{', '.join(unknown[:_MAX_NAMED])}{more}"
    )


def _source(settings: Settings) -> str:
    with open_source(settings).open(now_utc()) as reading:
        reading.check()
        count = len(reading.leaders())
        hint = "" if count else "; table leaders is empty, so no files are built"
        leaders = format_count(count, "Leader")
        lag = "" if reading.lag is None else f", a standby {reading.lag.total_seconds():.0f} s behind"
        size = f", about {format_size(found)}" if (found := reading.input_bytes()) else ""
        return f"{settings.source.engine}{lag}, {leaders}{size}{hint}"


def _directory(settings: Settings) -> str:
    """Run the queries without applying changes, and check the age of the latest sync."""
    if not settings.directory.is_synced:
        return "not synchronized with the platform"
    with state_of(settings) as state:
        changes, faults = directory_sync(settings, state).run(actor="operator", dry_run=True)
        status = state.read(lambda stores: stores.directory.sync_status())
    if faults:
        raise OperatorError("Rows that a sync leaves out:\n" + "\n".join(faults[:_MAX_NAMED]))
    if status is None:
        return "the queries work; no sync yet"
    if status.failing_since is not None:
        raise OperatorError(f"Not synchronized since {format_instant(status.failing_since)} UTC: {status.reason}")
    pending = sum(1 for _ in changes.lines())
    if now_utc() - status.attempted_at > _MAX_SYNC_AGE:
        raise OperatorError(
            f"Last synchronized {format_instant(status.attempted_at)} UTC. Check that runs start, or run "
            "`daybreakd directory sync`."
        )
    return f"synchronized {format_instant(status.attempted_at)} UTC, {format_count(pending, 'change')} since then"


def _disk(settings: Settings) -> str:
    folder = settings.spill_folder
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        problem = "writable" if existing.is_dir() else "a folder"
        raise OperatorError(
            f"The spill folder {folder} cannot be used: {existing} is not {problem}. Set snapshot.temp_dir."
        )
    free = shutil.disk_usage(existing).free
    if free < _MIN_FREE_BYTES:
        raise OperatorError(
            f"Only {format_size(free)} free in the spill folder {folder}. Free some space or set snapshot.temp_dir."
        )
    return f"{format_size(free)} free in the spill folder {folder}"


def _clock(settings: Settings) -> str:
    now = now_utc()
    if now < _EARLIEST:
        raise OperatorError(f"The clock shows {format_instant(now)} UTC. Set it and run an NTP service.")
    offset, newest = read_state(
        settings, lambda stores: (stores.nodes.clock_offset(now_utc), stores.snapshots.recent(1))
    )
    if abs(offset) > CLOCK_TOLERANCE:
        raise OperatorError(describe_offset(offset))
    if newest and newest[0].started_at > now + timedelta(minutes=1):
        started = format_instant(newest[0].started_at)
        raise OperatorError(
            f"The clock shows {format_instant(now)} UTC, but a run started at {started}. Check the clock."
        )
    return f"{format_instant(now)} UTC"


def _freshness(settings: Settings) -> str:
    fresh = read_state(settings, lambda stores: freshness(stores.snapshots, now_utc(), settings.snapshot.publish_at))
    due = f"files expected {format_instant(fresh.next_expected_at)} UTC"
    if fresh.snapshot is None:
        return f"no snapshot yet, next {due}; to build one now, run `daybreakd snapshot run`"
    _read_one_file(settings, fresh.snapshot.snapshot_id)
    if fresh.late:
        raise OperatorError(f"{fresh.reason} Next {due}.")
    stale = "".join(f"\nwarning: {text}" for text in stale_tables(fresh.snapshot.report))
    return f"as of {format_instant(fresh.snapshot.as_of)} UTC, next {due}{stale}"


def _read_one_file(settings: Settings, snapshot_id: str) -> None:
    """Read the start of one published file: an unmounted disk looks like an empty folder. Raises OperatorError."""
    entry = read_state(settings, lambda stores: next(stores.snapshots.entries(snapshot_id), None))
    if entry is None:
        return
    store = open_files(settings, interactive=True)
    try:
        next(store.read(next(iter(entry.formats.values())).key), b"")
    except FileStoreError as fault:
        raise OperatorError(
            f"{fault.message} The file belongs to the current snapshot. Check files.url and that its disk is mounted. "
            "If files are lost, run `daybreakd snapshot run`, which writes them again."
        ) from fault


def _lost_files(settings: Settings) -> str:
    """Report what the latest run or verification found."""
    faults = read_state(settings, lambda stores: stores.file_faults.list_all())
    if faults:
        raise OperatorError("\n".join(fault.describe() for fault in faults))
    return "none in the kept snapshots"


_CHECKS: tuple[tuple[str, Callable[[Settings], str]], ...] = (
    ("configuration", _configuration),
    ("addresses", _addresses),
    ("state database", _state),
    ("keyring", _keyring),
    ("signing", _signing),
    ("file store", _files),
    ("source", _source),
    ("directory", _directory),
    ("disk", _disk),
    ("encoder", _encoder),
    ("single sign-on", _single_sign_on),
    ("locations", _locations),
    ("mail", _mail),
    ("webhooks", _webhooks),
    ("S3 endpoint", check_s3),
    ("background tasks", _tasks),
    ("clock", _clock),
    ("freshness", _freshness),
    ("lost files", _lost_files),
)
