"""Every setting: its kind, its default and what it is for.

The reference page and the file that `daybreakd init` writes are made from this.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import time, timedelta
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import TypeVar

from daybreak.catalogue.formats import DEFAULT_FORMATS, FORMATS
from daybreak.domain.errors import OperatorError
from daybreak.settings.kinds import (
    BOOLEAN,
    DURATION,
    FILES_URL,
    LISTEN,
    NETWORK,
    PATH,
    RATE,
    SHARE,
    SIZE,
    STATE_URL,
    TABLE,
    TEXT,
    TIME_OF_DAY,
    WEB_ADDRESS,
    Kind,
    Rate,
    at_least,
    between,
    choice,
    list_of,
    optional,
    whole,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SettingNote:
    """What is known about a setting beside its value.

    `default` is as written in the file; None when there is none.
    """

    kind: Kind[object]
    default: object
    text: str
    secret: bool = False


def setting(kind: Kind[T], default: object, text: str, *, secret: bool = False) -> T:
    """A field of a section. `default` is written as in the file: it is read and checked like any other value."""
    note = SettingNote(kind, default, text, secret)  # type: ignore[arg-type]
    return field(metadata={"setting": note}, repr=not secret)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: the setting, what is wrong with it, and what to do."""

    key: str
    detail: str

    def __str__(self) -> str:
        """One line for the operator."""
        return f"{self.key}: {self.detail}"


class SettingsFault(OperatorError):
    """The configuration cannot be used. `faults` lists everything that is wrong with it."""

    code = "settings_fault"

    def __init__(self, source: str, faults: list[Fault]) -> None:
        lines = "\n".join(f"  {fault}" for fault in faults)
        count = "one setting is" if len(faults) == 1 else f"{len(faults)} settings are"
        super().__init__(f"{source}: {count} wrong\n{lines}")
        self.source = source
        self.faults = faults


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSettings:
    """[state] Where seats, sessions, tokens, manifests and the audit trail are kept."""

    url: str = setting(
        STATE_URL,
        "sqlite:///state.db",
        "`sqlite:///FILE` for one node, `postgresql://user@host/database` for any number of nodes. "
        "A password may come from PGPASSWORD or a .pgpass file.",
        secret=True,
    )
    pool_size: int = setting(whole(1, 200), 8, "Connections each process keeps to PostgreSQL.")
    wait: timedelta = setting(
        between(DURATION, timedelta(seconds=1), timedelta(minutes=1)),
        "5s",
        "Longest wait for the database before the service answers 503.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysSettings:
    """[keys] The secrets that sign tokens and links and encrypt second-factor seeds."""

    file: Path = setting(
        PATH, "keyring.json", "The keyring, mode 0600; the same file on every node. `daybreakd init` makes one."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """[source] The operator's platform: where rows come from."""

    engine: str = setting(choice("duckdb", "postgresql", "spark"), "duckdb", "What runs the models.")
    location: str = setting(
        TEXT,
        None,
        "`duckdb`: a DuckDB file, or a folder with `TABLE.parquet` or parts in `TABLE/`. `postgresql`: a connection "
        "address, `postgresql://reader@host/database`. `spark`: a folder or address of Parquet, or `catalog:NAME`.",
        secret=True,
    )
    statement_timeout: timedelta = setting(
        between(DURATION, timedelta(seconds=10), timedelta(days=1)), "4h", "PostgreSQL: longest a statement may run."
    )
    spark: tuple[tuple[str, str], ...] = setting(
        TABLE, {}, 'Spark: settings of the session, such as `{"spark.master" = "local[4]"}`. Only in the file.'
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSettings:
    """[files] Where finished files live and how they are handed out."""

    url: str = setting(
        FILES_URL,
        "files",
        "A folder, or `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`. Credentials for a bucket "
        "come from the environment, as each cloud's own tools expect them.",
    )
    serve_gzip_as: str = setting(
        choice("file", "encoding"),
        "file",
        '"file": every client gets the gzip file. "encoding": a client that accepts gzip gets the text, compressed on '
        "the way, for consumers that do not unpack.",
    )
    endpoint: str = setting(TEXT, "", "Address of a compatible server or a private one; empty for the cloud's own.")
    region: str = setting(TEXT, "", "Region of the bucket; empty to take it from the environment.")
    path_style: bool = setting(BOOLEAN, False, "Name the bucket in the path instead of the host name.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSettings:
    """[snapshot] When and how files are made."""

    schedule: bool = setting(BOOLEAN, True, "Make a snapshot every day. Switch off when another scheduler runs it.")
    publish_at: time = setting(TIME_OF_DAY, "04:00", "UTC time of day at which new files appear.")
    margin: timedelta = setting(
        between(DURATION, timedelta(minutes=1), timedelta(hours=12)),
        "10m",
        "How much earlier a run starts than the length of the last ones asks.",
    )
    formats: tuple[str, ...] = setting(
        list_of(choice(*(each.name for each in FORMATS))),
        list(DEFAULT_FORMATS),
        "Formats of each file. `csv` and `json` are promised to consumers; more cost time and space.",
    )
    compression: str = setting(
        choice("fast", "small"),
        "fast",
        '"fast" is igzip, "small" is zlib-ng level 4: about 12 % smaller files for 2.5 times the time.',
    )
    keep: int = setting(whole(1, 400), 7, "Published snapshots that are kept. Links that are out are always honoured.")
    memory_limit: int = setting(
        at_least(SIZE, 200_000_000), "1GB", "Memory of the whole builder; the rest spills to `temp_dir`."
    )
    verify: str = setting(
        choice("full", "sample"), "full", "Before a publication read all new files back, or one in fifty."
    )
    threads: int = setting(whole(0, 512), 0, "Threads of the builder; 0 for one per processor.")
    temp_dir: Path | None = setting(optional(PATH), None, "Where the builder spills; beside the files when left out.")
    models_dir: Path | None = setting(
        optional(PATH), None, "Folder with RESOURCE.sql files that replace single models."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSettings:
    """[guard] What holds a publication back until an operator decides."""

    enabled: bool = setting(BOOLEAN, True, "Look at each snapshot before it is published.")
    max_drop_share: float = setting(
        SHARE,
        0.3,
        "A resource that lost more than this share of its rows since the last snapshot is suspicious, and so is the "
        "loss of more than this share of the Leaders. Where there were fewer than 100, nothing is.",
    )
    max_leader_drop_share: float = setting(SHARE, 0.7, "The same for one Leader's rows in a resource.")
    leader_min_rows: int = setting(
        whole(1, 10**9), 10_000, "Leaders with fewer rows than this in a resource are not looked at one by one."
    )
    max_null_share_rise: float = setting(
        SHARE, 0.2, "A column whose share of NULLs rises by more than this is suspicious."
    )
    referential_checks: bool = setting(
        BOOLEAN,
        True,
        "Check that each Member, campaign, Community and custom field of a Member is there once and that files agree.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings:
    """[access] Sessions, links and throttles."""

    session_lifetime: timedelta = setting(
        between(DURATION, timedelta(minutes=5), timedelta(days=90)), "7d", "How long a login is good."
    )
    link_lifetime: timedelta = setting(
        between(DURATION, timedelta(seconds=30), timedelta(hours=12)), "15m", "How long a signed link is good."
    )
    login_per_seat: Rate = setting(RATE, "10/5m", "Logins tried for one seat from one address.")
    login_per_address: Rate = setting(
        RATE, "300/5m", "Logins tried from one address (IPv6: one /64), whatever the seat."
    )
    login_overall: Rate = setting(RATE, "6000/5m", "Logins tried in all.")
    second_factor_per_seat: tuple[Rate, ...] = setting(
        list_of(RATE, least=1), ["5/5m", "20/1h", "50/1d"], "Second-factor codes tried for one seat; all limits hold."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorySettings:
    """[directory] Accounts and seats straight from the platform's own database (`daybreakd directory sync`)."""

    accounts: str = setting(TEXT, "", "SQL on the source for accounts; empty when the directory is imported by hand.")
    seats: str = setting(TEXT, "", "SQL on the source for seats.")
    access: str = setting(TEXT, "", "SQL on the source for what each seat may do on each account.")
    max_removed_share: float = setting(
        SHARE, 0.1, "A sync that would switch off more than this share of accounts, seats or grants is refused."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """[audit] The trail of who did what."""

    keep: timedelta = setting(
        between(DURATION, timedelta(days=1), timedelta(days=36_500)),
        "400d",
        "How long audit events are kept. Older ones are deleted by the builder, the database refuses to delete others.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The whole configuration, checked. Paths are absolute; `file` is None when there is no file."""

    base_url: str = setting(
        WEB_ADDRESS, "http://127.0.0.1:8400", "The address users reach the service at; links are made from it alone."
    )
    listen: str = setting(LISTEN, "127.0.0.1:8400", "Where the service listens.")
    workers: int = setting(whole(1, 256), 2, "Web worker processes.")
    require_https: bool = setting(BOOLEAN, False, "Refuse plain http requests to the API instead of serving them.")
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = setting(
        list_of(NETWORK), [], "Proxies whose X-Forwarded-For and X-Forwarded-Proto are believed."
    )
    metrics: str = setting(choice("off", "loopback", "anyone"), "loopback", "Who may read `/metrics` (Prometheus).")
    operator_contact: str = setting(
        TEXT, "", "Who users turn to: shown where people sign in, where they may make no API tokens, and on `/docs`."
    )
    log_format: str = setting(
        choice("auto", "console", "json"), "auto", '"auto": coloured lines on a terminal, JSON lines elsewhere.'
    )
    log_level: str = setting(choice("debug", "info", "warning", "error"), "info", "Least level that is logged.")
    state: StateSettings
    keys: KeysSettings
    source: SourceSettings
    files: FilesSettings
    snapshot: SnapshotSettings
    guard: GuardSettings
    access: AccessSettings
    directory: DirectorySettings
    audit: AuditSettings
    file: Path | None = None

    @property
    def folder(self) -> Path:
        """The folder relative paths start from."""
        return self.file.parent if self.file is not None else Path.cwd()

    @property
    def files_folder(self) -> Path | None:
        """The folder of the files when they live on local disk, None for a bucket."""
        return Path(self.files.url.removeprefix("file://")) if self.files.url.startswith("file://") else None


SECTIONS: Mapping[str, type] = {
    "state": StateSettings,
    "keys": KeysSettings,
    "source": SourceSettings,
    "files": FilesSettings,
    "snapshot": SnapshotSettings,
    "guard": GuardSettings,
    "access": AccessSettings,
    "directory": DirectorySettings,
    "audit": AuditSettings,
}
