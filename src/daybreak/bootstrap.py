"""From settings to the wired service: the only place that names concrete adapters."""

import os
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import daybreak
from daybreak.domain.errors import DaybreakError, OperatorError, SourceError
from daybreak.settings import Settings

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from daybreak.access.directory_sync import DirectoryChanges
    from daybreak.access.services import AccessServices
    from daybreak.catalogue.models import Model
    from daybreak.credentials.keyring import KeyringFile
    from daybreak.ports.files import FileStore
    from daybreak.ports.sources import Reading, RowSource
    from daybreak.ports.state import Node
    from daybreak.snapshots.plan import RunPlan
    from daybreak.snapshots.workshop import Workshop
    from daybreak.state.database import Database
    from daybreak.web.services import Services

COMPRESSIONS = {"fast": "igzip-2", "small": "zlib-ng-4"}
# What the engine may take of the builder's memory; the rest is for text on its way into files.
ENGINE_SHARE = 0.64


def now_utc() -> datetime:
    """The clock of the service."""
    return datetime.now(UTC)


def new_id() -> str:
    """A random UUID as lower-case text."""
    return str(uuid.uuid4())


def open_state(settings: Settings) -> "Database":
    """The state database. Raises OperatorError unless it has this version's shape."""
    from daybreak.state.database import open_state as opened
    from daybreak.state.migrate import require_current

    state = opened(
        settings.state.url,
        pool_size=settings.state.pool_size,
        wait_seconds=settings.state.wait.total_seconds(),
    )
    require_current(state, settings.state.url)
    return state


def open_keyring(settings: Settings) -> "KeyringFile":
    """The keyring. Raises OperatorError when it is missing, weak or readable by others."""
    from daybreak.credentials.keyring import KeyringFile

    return KeyringFile(settings.keys.file)


def open_files(settings: Settings) -> "FileStore":
    """The file store: a folder or a bucket."""
    folder = settings.files_folder
    if folder is not None:
        from daybreak.filestore.local_disk import LocalDisk

        return LocalDisk(folder)
    from daybreak.filestore.clouds import BucketAddress
    from daybreak.filestore.object_store import ObjectStore

    files = settings.files
    return ObjectStore(BucketAddress(files.url, files.endpoint, files.region, files.path_style))


def open_source(settings: Settings) -> "RowSource":
    """The operator's platform. Nothing is connected to yet."""
    from daybreak.catalogue.models import load_models

    source, snapshot = settings.source, settings.snapshot
    shared: dict[str, Any] = {
        "memory_bytes": int(snapshot.memory_limit * ENGINE_SHARE),
        "threads": thread_count(settings),
        "temp_dir": temp_dir(settings),
    }
    models = load_models(snapshot.models_dir)
    if source.engine == "duckdb":
        from daybreak.sources.duckdb import DuckdbSource

        return DuckdbSource(Path(source.location), models, **shared)
    if source.engine == "postgresql":
        from daybreak.sources.postgresql import PostgresqlSource

        timeout = int(source.statement_timeout.total_seconds())
        return PostgresqlSource(source.location, models, statement_timeout_seconds=timeout, **shared)
    return _open_spark(settings, models)


def _open_spark(settings: Settings, models: "Mapping[str, Model]") -> "RowSource":
    try:
        from daybreak.sources.spark import SparkSource
    except ModuleNotFoundError as fault:
        raise OperatorError(
            f"source.engine is spark, but {fault.name} is not installed: pip install 'daybreak[server,spark]'."
        ) from None
    return SparkSource(
        settings.source.location,
        models,
        settings=dict(settings.source.spark),
        task_memory_bytes=int(settings.snapshot.memory_limit * ENGINE_SHARE),
    )


def thread_count(settings: Settings) -> int:
    """Threads of the builder: what is set, else what this process may use."""
    return settings.snapshot.threads or len(os.sched_getaffinity(0))


def temp_dir(settings: Settings) -> Path:
    """Where the builder spills: what is set, else beside the files, else beside the configuration."""
    return settings.snapshot.temp_dir or (settings.files_folder or settings.folder) / ".spill"


def run_plan(settings: Settings) -> "RunPlan":
    """What the operator has settled about runs."""
    from daybreak.snapshots.plan import GuardRules, RunPlan

    snapshot, guard = settings.snapshot, settings.guard
    return RunPlan(
        formats=snapshot.formats,
        compression=COMPRESSIONS[snapshot.compression],
        threads=thread_count(settings),
        memory_limit_bytes=snapshot.memory_limit,
        publish_at=snapshot.publish_at,
        keep=snapshot.keep,
        link_lifetime=settings.access.link_lifetime,
        verify=cast("Literal['full', 'sample']", snapshot.verify),
        lead_least=snapshot.margin,
        guard=GuardRules(
            enabled=guard.enabled,
            drop_share=guard.max_drop_share,
            leader_drop_share=guard.max_leader_drop_share,
            leader_least_rows=guard.leader_min_rows,
            null_share=guard.max_null_share_rise,
            referential=guard.referential_checks,
        ),
    )


def workshop(
    settings: Settings, state: "Database", watch: Callable[[Mapping[str, object]], None] | None = None
) -> "Workshop":
    """What a run works with."""
    from daybreak.snapshots.room import Scratch
    from daybreak.snapshots.workshop import Workshop, unwatched

    source = open_source(settings)
    return Workshop(
        state=state,
        store=open_files(settings),
        source=_SyncingSource(source, settings, state) if settings.directory.accounts else source,
        plan=run_plan(settings),
        builder=f"{socket.gethostname()}:{os.getpid()}",
        clock=now_utc,
        ticks=time.monotonic,
        new_id=new_id,
        # Spark puts rows aside on its own machines.
        scratch=None if settings.source.engine == "spark" else Scratch(temp_dir(settings), settings.files_folder),
        watch=watch or unwatched,
        tidy=partial(_tidy, state, settings.audit.keep),
    )


def _tidy(state: "Database", keep_audit: timedelta, now: datetime) -> None:
    """Deletes what the state database no longer needs, and says how much that was."""
    import structlog

    from daybreak.access.housekeeping import tidy

    gone = tidy(state, now, keep_audit)
    if gone:
        structlog.get_logger("daybreak.state").info("state.tidied", **gone)


def sync_directory(
    settings: Settings,
    state: "Database",
    *,
    dry_run: bool = False,
    accept_removals: bool = False,
    actor: str = "service",
) -> "DirectoryChanges":
    """Brings accounts, seats and grants in line with the platform's own database; gives what differed.

    Raises OperatorError when nothing is configured, when rows are not as expected, or when too much would go.
    """
    from daybreak.access.directory_sync import apply_changes, directory_changes, require_modest
    from daybreak.access.platform_directory import directory_from_rows

    queries = settings.directory
    if not queries.accounts:
        raise OperatorError("[directory] names no SQL for accounts, seats and access: set all three, or use `import`.")
    source = cast("Any", open_source(settings))

    def rows(setting: str) -> "list[dict[str, Any]]":
        try:
            return cast("list[dict[str, Any]]", source.rows(getattr(queries, setting)))
        except SourceError as fault:
            raise type(fault)(f"directory.{setting}: {fault.message}") from fault

    wanted = directory_from_rows(rows("accounts"), rows("seats"), rows("access"))

    # Compared outside the transaction that writes: of 100,000 accounts it takes seconds, and a writer holds up logins.
    current = state.read(lambda stores: stores.directory.load())
    changes = directory_changes(current, wanted, whole=True)
    if not accept_removals:
        require_modest(changes, current, queries.max_removed_share)
    if not dry_run and not changes.is_empty:
        state.write(lambda stores: apply_changes(stores, changes, now_utc(), actor))
    return changes


@dataclass(frozen=True, slots=True)
class _SyncingSource:
    """A source that brings the directory in line before each reading: a run's files meet the seats of the same day."""

    source: "RowSource"
    settings: Settings
    state: "Database"

    @property
    def engine(self) -> str:
        return self.source.engine

    def open(self, as_of: datetime) -> "AbstractContextManager[Reading]":
        """Opens the source. A directory that cannot be synced is logged and stays as it is: files come first."""
        import structlog

        log = structlog.get_logger("daybreak.directory")
        try:
            changes = sync_directory(self.settings, self.state)
        except DaybreakError as error:
            log.warning("directory.sync_failed", code=error.code, detail=error.message)
        else:
            log.info("directory.synced", changes=sum(1 for _ in changes.lines()))
        return self.source.open(as_of)


def access_services(
    settings: Settings, state: "Database", keyring: "KeyringFile", hashing: socket.socket
) -> "AccessServices":
    """Logins, sessions, second factors and API tokens."""
    from daybreak.access.hashing import PasswordHashing
    from daybreak.access.services import AccessServices, AccessSettings
    from daybreak.access.throttle import Limits

    def pair(rate: Any) -> tuple[int, int]:
        return rate.attempts, int(rate.window.total_seconds())

    access = settings.access
    return AccessServices(
        settings=AccessSettings(
            issuer=settings.base_url,
            session_lifetime=access.session_lifetime,
            limits=Limits(
                login_seat_and_address=pair(access.login_per_seat),
                login_address=pair(access.login_per_address),
                login_global=pair(access.login_overall),
                second_factor=tuple(pair(rate) for rate in access.second_factor_per_seat),
            ),
        ),
        state=state,
        keyring=keyring,
        hashing=PasswordHashing(hashing),
        clock=now_utc,
        random=os.urandom,
    )


@dataclass(frozen=True, slots=True)
class Wired:
    """The service of one web process, and what has to be closed when it ends."""

    settings: Settings
    state: "Database"
    services: "Services"

    async def aclose(self) -> None:
        """Writes what the audit trail still holds and closes the state database."""
        await self.services.downloads.trail.aclose()
        await self.state.aclose()


def build(settings: Settings, hashing: socket.socket) -> Wired:
    """The wired service of one process; `hashing` is where it asks the hashing processes. Raises OperatorError that
    names the setting and the fix.
    """
    from daybreak.access.trail import TrailBuffer
    from daybreak.downloads import DownloadServices, DownloadSettings
    from daybreak.web.services import Services, WebSettings

    state, keyring, files = open_state(settings), open_keyring(settings), open_files(settings)
    formats, link_lifetime = settings.snapshot.formats, settings.access.link_lifetime
    services = Services(
        settings=WebSettings(
            base_url=settings.base_url,
            formats=formats,
            serve_gzip_as=cast("Literal['file', 'encoding']", settings.files.serve_gzip_as),
            session_lifetime=settings.access.session_lifetime,
            link_lifetime=link_lifetime,
            require_https=settings.require_https,
            trusted_proxies=settings.trusted_proxies,
            metrics_access=cast("Literal['off', 'loopback', 'anyone']", settings.metrics),
            operator_contact=settings.operator_contact,
        ),
        state=state,
        files=files,
        keyring=keyring,
        clock=now_utc,
        random=os.urandom,
        access=access_services(settings, state, keyring, hashing),
        downloads=DownloadServices(
            settings=DownloadSettings(settings.base_url, formats, link_lifetime, settings.snapshot.publish_at),
            state=state,
            keyring=keyring,
            trail=TrailBuffer(state),
            clock=now_utc,
            random=os.urandom,
        ),
    )
    return Wired(settings, state, services)


def this_node(roles: tuple[str, ...]) -> Callable[[datetime], "Node"]:
    """How this node shows itself to others, at an instant."""
    from daybreak.ports.state import Node

    node_id, host, started_at = new_id(), socket.gethostname(), now_utc()
    return lambda now: Node(node_id, host, daybreak.__version__, started_at, now, roles)
