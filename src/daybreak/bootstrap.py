"""Construction of the service from its settings; the only module that names concrete adapters."""

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import daybreak
from daybreak.domain.clock import now_utc
from daybreak.domain.errors import OperatorError
from daybreak.settings import Settings

if TYPE_CHECKING:
    from daybreak.access.directory.sync import DirectorySync
    from daybreak.access.services import Services
    from daybreak.credentials.keyring import Keyring, KeyringFile
    from daybreak.domain.run_report import RunProgress
    from daybreak.events.context import DeliveryContext
    from daybreak.filestore.file_store import FileStore
    from daybreak.oidc.provider import Provider
    from daybreak.snapshots.run_context import RunContext
    from daybreak.sources.reading import PlatformSource
    from daybreak.state.database import Database
    from daybreak.state.nodes import Node
    from daybreak.state.stores import State, Stores
    from daybreak.telemetry import Tracing

# Clients wait for the response of a web node, and operators for checks.
_INTERACTIVE_RETRY_SECONDS = 5.0


def new_id() -> str:
    """Return a random UUID as lower-case text."""
    return str(uuid.uuid4())


def open_state(settings: Settings) -> "Database":
    """Open the state database. Raises OperatorError unless it has this version's schema."""
    from daybreak.state.database import open_state as open_database
    from daybreak.state.migrate import require_current

    state = open_database(
        settings.state.url.get_secret_value(),
        pool_size=settings.state.pool_size,
        wait_seconds=settings.state.wait.total_seconds(),
    )
    require_current(state, settings.state.url.get_secret_value())
    return state


def open_keyring(settings: Settings) -> "KeyringFile":
    """Open the keyring. Raises OperatorError when it is missing, weak or readable by other users."""
    from daybreak.credentials.keyring import KeyringFile

    return KeyringFile(settings.keys.file)


def read_keyring(settings: Settings, stores: "Stores") -> "Keyring":
    """Return the keys of the keyring. Raises OperatorError, also if it contains the secret of a revoked key."""
    from daybreak.access.keys import require_no_revoked_key

    keyring = open_keyring(settings).current()
    require_no_revoked_key(keyring, stores)
    return keyring


def open_files(settings: Settings, *, interactive: bool = False) -> "FileStore":
    """Open the file store: a folder or a bucket. With `interactive`, requests that fail are retried for seconds."""
    from daybreak.filestore.packs import Packing

    folder, packing = settings.files.folder, Packing(settings.snapshot.pack_below)
    if folder is not None:
        from daybreak.filestore.local_disk import LocalDisk

        return LocalDisk(folder, packing)
    from daybreak.filestore.bucket import RequestLimits
    from daybreak.filestore.object_store import ObjectStore

    limits = RequestLimits(_INTERACTIVE_RETRY_SECONDS) if interactive else RequestLimits()
    return ObjectStore(settings.files, limits, packing)


def open_source(settings: Settings) -> "PlatformSource":
    """Return the operator's platform; it connects when rows are read."""
    from daybreak.catalogue.models import load_models
    from daybreak.export.engine import engine_memory_bytes

    source, location = settings.source, settings.source.location.get_secret_value()
    models = load_models(settings.snapshot.models_dir)
    memory_bytes = engine_memory_bytes(settings.snapshot.memory_limit)
    threads, temp_dir = settings.snapshot.thread_count, settings.spill_folder
    if source.engine == "duckdb":
        from daybreak.sources.duckdb import DuckdbSource

        return DuckdbSource(
            Path(location),
            models,
            memory_bytes=memory_bytes,
            threads=threads,
            temp_dir=temp_dir,
            malformed_rows=source.malformed_rows,
        )
    if source.engine == "postgresql":
        from daybreak.sources.postgresql.source import PostgresqlSource

        return PostgresqlSource(
            location,
            models,
            memory_bytes=memory_bytes,
            threads=threads,
            temp_dir=temp_dir,
            statement_timeout_seconds=int(source.statement_timeout.total_seconds()),
            max_lag=source.max_lag,
            malformed_rows=source.malformed_rows,
        )
    try:
        from daybreak.sources.spark.reading import TaskLimits
        from daybreak.sources.spark.source import SparkSource
    except ModuleNotFoundError as error:
        raise OperatorError(
            f'source.engine is "spark", but {error.name} is not installed. Run '
            "`pip install 'pandas>=2.2,<3' 'pyarrow>=18' 'pyspark>=4.1'`."
        ) from None
    return SparkSource(
        location,
        models,
        settings=source.spark,
        limits=TaskLimits(memory_bytes),
        malformed_rows=source.malformed_rows,
    )


def open_tracing(settings: Settings, process: str) -> "Tracing | None":
    """Return the tracing of this process, `web` or `builder`, if it is configured. It starts a thread."""
    if not settings.telemetry.url:
        return None
    from daybreak.telemetry import Tracing

    return Tracing(settings, process)


def directory_sync(settings: Settings, state: "State") -> "DirectorySync":
    """Return the synchronization of the directory with the platform."""
    from daybreak.access.directory.sync import DirectorySync

    return DirectorySync(settings.directory, open_source(settings), state, now_utc)


def run_context(
    settings: Settings,
    state: "State",
    watch: "Callable[[RunProgress], object]" = lambda _progress: None,
    tracing: "Tracing | None" = None,
) -> "RunContext":
    """Return the context of snapshot runs. `watch` receives their progress."""
    from daybreak.access.cleanup import delete_expired
    from daybreak.access.directory.sync import SyncingSource
    from daybreak.snapshots.disk_space import SpillFolder
    from daybreak.snapshots.run_context import RunContext

    source = open_source(settings)
    return RunContext(
        state=state,
        store=open_files(settings),
        source=SyncingSource(source, directory_sync(settings, state)) if settings.directory.is_synced else source,
        settings=settings,
        builder=f"{socket.gethostname()}:{os.getpid()}",
        clock=now_utc,
        ticks=time.monotonic,
        new_id=new_id,
        # Spark spills on its own machines.
        spill=None if settings.source.engine == "spark" else SpillFolder(settings.spill_folder, settings.files.folder),
        watch=watch,
        housekeeping=lambda now: delete_expired(state, now, settings.audit.keep),
        tracing=tracing,
    )


def delivery_context(settings: Settings, stop: threading.Event, tracing: "Tracing | None" = None) -> "DeliveryContext":
    """Return the context of the deliverer of events, which closes its state. `stop` ends it."""
    from daybreak.events.context import DeliveryContext

    return DeliveryContext(
        state=open_state(settings),
        settings=settings,
        keyring=open_keyring(settings),
        holder=f"{socket.gethostname()}:{os.getpid()}:{new_id()}",
        clock=now_utc,
        ticks=time.monotonic,
        random=os.urandom,
        stop=stop,
        tracing=tracing,
    )


def open_provider(settings: Settings) -> "Provider | None":
    """Return the provider of single sign-on, None if it is not configured. Raises OperatorError for its secret."""
    if not settings.oidc.enabled:
        return None
    from daybreak.oidc.provider import CALLBACK_PATH, Provider, read_client_secret

    return Provider(settings.oidc, read_client_secret(settings.oidc), settings.base_url + CALLBACK_PATH, now_utc)


@dataclass(frozen=True, slots=True)
class WebProcess:
    """The services of one web process. `aclose` closes them."""

    state: "Database"
    services: "Services"
    tracing: "Tracing | None"

    async def aclose(self) -> None:
        """Write pending audit events and close the state database."""
        self.services.hashing.close()
        await self.services.audit_buffer.aclose()
        await self.state.aclose()
        if self.tracing is not None:
            self.tracing.close()


def build(settings: Settings) -> WebProcess:
    """Build the services of one web process. Raises OperatorError that names the setting and the fix."""
    from daybreak.access.link_usage import AuditBuffer, LinkRate, byte_rate
    from daybreak.access.services import Services
    from daybreak.credentials.passwords import PasswordHashing
    from daybreak.web.metrics import QUEUE_LENGTH

    state = open_state(settings)
    services = Services(
        settings=settings,
        state=state,
        files=open_files(settings, interactive=True),
        keyring=open_keyring(settings),
        hashing=PasswordHashing(observe=QUEUE_LENGTH.labels("password_hashes").set),
        audit_buffer=AuditBuffer(state),
        link_rate=LinkRate(state, settings.access.link_rate, now_utc),
        byte_rate=byte_rate(state, settings.access.daily_bytes, now_utc),
        clock=now_utc,
        random=os.urandom,
        provider=open_provider(settings),
    )
    return WebProcess(state, services, open_tracing(settings, "web"))


def this_node(role: str, settings: Settings) -> Callable[[datetime], "Node"]:
    """Return a picklable function that returns the heartbeat of this process at an instant."""
    return partial(_node, new_id(), socket.gethostname(), now_utc(), role, settings.keys.file)


def _node(node_id: str, host: str, started_at: datetime, role: str, keys_file: Path, now: datetime) -> "Node":
    from daybreak.credentials.keyring import load
    from daybreak.state.nodes import Node

    try:
        keyring = load(keys_file).fingerprint
    except OperatorError:
        keyring = ""  # The process keeps its last valid keyring, which no other node needs to have.
    return Node(node_id, host, daybreak.__version__, started_at, now, (role,), keyring)
