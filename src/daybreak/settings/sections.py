"""The settings of each section: name, type, default and description.

The reference page and the file that `daybreakd init` writes are generated from these models.
"""

import os
from datetime import time, timedelta
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationInfo, field_validator

from daybreak.catalogue.formats import DEFAULT_FORMATS
from daybreak.domain.identity import SecondFactorPolicy, ServeGzipAs
from daybreak.domain.snapshot import PACK_BELOW
from daybreak.settings.text_forms import InvalidValue, Rate
from daybreak.settings.types import (
    AbsolutePath,
    ApprovedRules,
    Duration,
    FilesUrl,
    FormatNames,
    OptionalPath,
    RateLimit,
    RateLimits,
    Share,
    ShareOrAll,
    Size,
    StateUrl,
    Text,
    TimeOfDay,
    Whole,
    require_kind,
)


class Section(BaseModel):
    """One section of the configuration."""

    # Only the validator of the whole tree is used, so those of single sections are not built.
    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True, defer_build=True
    )


class StateSettings(Section):
    """Database of seats, sessions, tokens, manifests and the audit trail."""

    url: StateUrl = Field(
        default=SecretStr("sqlite:///state.db"),
        description="`sqlite:///FILE` for one node, `postgresql://user@host/database` for any number of nodes. "
        "A password may come from PGPASSWORD or a .pgpass file.",
    )
    pool_size: Whole = Field(default=8, ge=1, le=200, description="PostgreSQL connections per process.")
    wait: Duration = Field(
        default=timedelta(seconds=5),
        ge=timedelta(seconds=1),
        le=timedelta(minutes=1),
        description="Maximum wait for the database before the service answers 503.",
    )


class KeysSettings(Section):
    """The secrets that sign tokens and links and encrypt second-factor seeds."""

    file: AbsolutePath = Field(
        default=Path("keyring.json"),
        description="The keyring, mode 0600; the same file on every node. `daybreakd init` creates one.",
    )


class SigningSettings(Section):
    """Signed statements, with which consumers prove that files are complete and unchanged."""

    folder: AbsolutePath = Field(
        default=Path("signing"),
        description="Folder with the CA that certifies the keys of publications, mode 0600. Only nodes with a builder "
        "need it. `daybreakd init` creates it. Without a CA, files are not signed.",
    )


class FilesSettings(Section):
    """Storage and delivery of the files."""

    url: FilesUrl = Field(
        default="files",
        description="A folder, or `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`. Credentials for "
        "a bucket come from the environment.",
    )
    serve_gzip_as: ServeGzipAs = Field(
        default="file",
        description='"file": every client gets the gzip file. "encoding": a client that accepts gzip gets the text, '
        "compressed in transfer, for consumers that do not decompress files. In a bucket, it applies to files that "
        "are uploaded after the change.",
    )
    accelerate: Literal["off", "nginx"] = Field(
        default="off",
        description='"nginx": the service answers with X-Accel-Redirect, and nginx sends files over 64 KiB from its '
        "location `/daybreak-files/`.",
    )
    max_transfers: Whole = Field(
        default=100,
        ge=1,
        le=10_000,
        description="Maximum number of files over 64 KiB that a worker sends at the same time. One account uses no "
        "more than it leaves free. Further requests get 503. A client that reads slowly occupies about 4 MB, "
        "the first four of a worker 8 MB each.",
    )
    endpoint: Text = Field(
        default="", description="URL of a compatible or private server; empty for the cloud's default."
    )
    region: Text = Field(default="", description="Region of the bucket; empty to take it from the environment.")
    path_style: bool = Field(default=False, description="Put the bucket name in the path instead of the host name.")

    @field_validator("accelerate")
    @classmethod
    def _require_folder(cls, accelerate: str, info: ValidationInfo) -> str:
        if accelerate != "off" and not str(info.data.get("url", "file://")).startswith("file://"):
            raise InvalidValue('Use "off": files in a bucket are sent by the bucket.')
        return accelerate

    @property
    def folder(self) -> Path | None:
        """The folder of the files on local disk, None for a bucket."""
        return Path(self.url.removeprefix("file://")) if self.url.startswith("file://") else None


class SnapshotSettings(Section):
    """Schedule and contents of snapshots, and resources for building them."""

    schedule: bool = Field(
        default=True, description="Build a snapshot every day. Switch off when another scheduler starts the runs."
    )
    publish_at: TimeOfDay = Field(default=time(4), description="UTC time of day at which new files are published.")
    margin: Duration = Field(
        default=timedelta(minutes=10),
        ge=timedelta(minutes=1),
        le=timedelta(hours=12),
        description="Safety margin added to the predicted run time.",
    )
    formats: FormatNames = Field(
        default=DEFAULT_FORMATS,
        description="Formats of each file. `csv` and `json` are required; others take time and space.",
    )
    compression: Literal["fast", "small"] = Field(
        default="fast",
        description='"fast" is igzip, "small" is zlib-ng level 4: about 12 % smaller files for 2.5 times the time.',
    )
    keep: Whole = Field(
        default=7,
        ge=1,
        le=400,
        description="Number of published snapshots to keep. A snapshot with valid links is kept longer.",
    )
    pack_below: Size = Field(
        default=PACK_BELOW,
        ge=0,
        le=PACK_BELOW,
        description="Files up to this size share packs of 8 MiB, which saves inodes and requests. 0: no packs.",
    )
    deltas: bool = Field(default=True, description="Make deltas: the rows that changed since the last publication.")
    keep_deltas: Duration = Field(
        default=timedelta(days=35),
        ge=timedelta(days=1),
        le=timedelta(days=400),
        description="Retention of deltas. Those after the oldest snapshot with files are kept longer.",
    )
    verify_deltas: ShareOrAll = Field(
        default=0.02,
        ge=0,
        le=1,
        description="Share of the Leaders whose deltas are applied to the previous files and compared with the new "
        "ones byte for byte. The sums of all rows are always compared.",
    )
    memory_limit: Size = Field(
        default=10**9, ge=450 * 10**6, description="Memory of the whole builder; larger data spills to `temp_dir`."
    )
    verify: Literal["full", "sample"] = Field(
        default="full", description="Read back all new files before publication, or one in fifty."
    )
    threads: Whole = Field(default=0, ge=0, le=512, description="Threads of the builder; 0 for one per processor.")
    temp_dir: OptionalPath = Field(default=None, description="Spill folder of the builder. Default: next to the files.")
    models_dir: OptionalPath = Field(
        default=None, description="Folder with RESOURCE.sql files that replace single models."
    )

    @field_validator("formats")
    @classmethod
    def _require_default_formats(cls, formats: tuple[str, ...]) -> tuple[str, ...]:
        missing = [name for name in DEFAULT_FORMATS if name not in formats]
        if missing:
            raise InvalidValue(f"Add {' and '.join(missing)}: consumers rely on both.")
        return formats

    @field_validator("models_dir")
    @classmethod
    def _require_folder(cls, models_dir: Path | None) -> Path | None:
        return require_kind(models_dir, Path.is_dir, "is not a folder. Create it or remove the setting.")

    @property
    def thread_count(self) -> int:
        """Threads of the builder: as set, or one per processor that this process may use."""
        return self.threads or len(os.sched_getaffinity(0))


class GuardSettings(Section):
    """Checks that block a publication until an operator decides."""

    enabled: bool = Field(default=True, description="Check each snapshot before publication.")
    max_drop_share: Share = Field(
        default=0.3,
        ge=0,
        le=1,
        description="Maximum share of its rows that a resource may lose since the last snapshot, and maximum share of "
        "Leaders that may disappear. Resources with fewer than 100 rows are not checked, nor are fewer than 100 "
        "Leaders.",
    )
    max_leader_drop_share: Share = Field(
        default=0.7, ge=0, le=1, description="Maximum share of its rows that one Leader may lose in a resource."
    )
    leader_min_rows: Whole = Field(
        default=10_000,
        ge=1,
        le=10**9,
        description="Minimum number of rows in a resource for a Leader to be checked individually.",
    )
    max_null_share_rise: Share = Field(
        default=0.2, ge=0, le=1, description="Maximum rise of the share of NULLs in a column."
    )
    unknown_share: Share = Field(
        default=0.001,
        ge=0,
        le=1,
        description="Maximum rise of the faulty rows that one rule excludes since the last snapshot, as a share of the "
        "source table's rows, and of rows that refer to missing ones, as a share of the resource's rows.",
    )
    approved_rules: ApprovedRules = Field(
        default={},
        description="Approved rules of your own models, by resource, as `daybreakd rules` prints them. A snapshot "
        "whose models have other rules is held. A resource without an entry is compared with the last publication.",
    )
    referential_checks: bool = Field(
        default=True,
        description="Check that each Member, campaign, Community and custom field of a Member exists exactly once and "
        "that the files agree with each other.",
    )


class AccessSettings(Section):
    """Sessions, links and rate limits."""

    session_lifetime: Duration = Field(
        default=timedelta(days=7), ge=timedelta(minutes=5), le=timedelta(days=90), description="Lifetime of a login."
    )
    dashboard_idle: Duration = Field(
        default=timedelta(hours=8),
        ge=timedelta(minutes=5),
        le=timedelta(days=90),
        description="Time without activity after which a session of the dashboard ends. API sessions are not affected.",
    )
    link_lifetime: Duration = Field(
        default=timedelta(minutes=15),
        ge=timedelta(seconds=30),
        le=timedelta(hours=12),
        description="Lifetime of a signed link.",
    )
    link_rate: RateLimit = Field(
        default=Rate(1200, timedelta(minutes=1)),
        description="Links that one session or API token may request. The same limit applies to its downloads.",
    )
    daily_bytes: Size = Field(
        default=10**12,
        ge=10**6,
        description="Bytes of files that one session or API token may download in 24 hours.",
    )
    login_per_seat: RateLimit = Field(
        default=Rate(10, timedelta(minutes=5)), description="Login attempts for one seat from one address."
    )
    login_per_address: RateLimit = Field(
        default=Rate(300, timedelta(minutes=5)),
        description="Login attempts from one address (IPv6: one /64), for any seat.",
    )
    login_per_network: RateLimit = Field(
        default=Rate(600, timedelta(minutes=5)),
        description="Login attempts from one network (IPv4: one /24, IPv6: one /48), for any seat.",
    )
    login_overall: RateLimit = Field(
        default=Rate(6000, timedelta(minutes=5)),
        description="Login attempts in total. No login limit but `access.login_per_seat` applies to known devices.",
    )
    second_factor_per_seat: RateLimits = Field(
        default=(Rate(5, timedelta(minutes=5)), Rate(20, timedelta(hours=1)), Rate(50, timedelta(days=1))),
        min_length=1,
        description="Second-factor attempts for one seat; all limits apply. Each known device of the seat has a "
        "separate count.",
    )
    require_second_factor: SecondFactorPolicy = Field(
        default="account",
        description='"account": sessions need a second factor on the accounts that require one. "always": every '
        "session needs one, and seats without one set it up when they sign in to the dashboard. API tokens need none.",
    )
    operator_second_factor: bool = Field(
        default=True, description="Require a second factor for the operator pages of the dashboard."
    )
    breached_passwords: OptionalPath = Field(
        default=None,
        description="File of breached passwords that new passwords are compared with: sorted SHA-1 digests, one per "
        "line, as the downloader of Pwned Passwords writes them.",
    )

    location_database: OptionalPath = Field(
        default=None,
        description="Database in the MaxMind DB format, such as GeoLite2-City.mmdb. The session list of the dashboard "
        "shows the approximate location of each address from it.",
    )

    @field_validator("breached_passwords", "location_database")
    @classmethod
    def _require_file(cls, file: Path | None) -> Path | None:
        return require_kind(file, Path.is_file, "is not a file. Download the file or remove the setting.")

    @field_validator("link_lifetime")
    @classmethod
    def _end_with_session(cls, link_lifetime: timedelta, info: ValidationInfo) -> timedelta:
        session_lifetime = info.data.get("session_lifetime")
        if session_lifetime is not None and link_lifetime > session_lifetime:
            raise InvalidValue("Use at most access.session_lifetime: a link ends with its session.")
        return link_lifetime


class DirectorySettings(Section):
    """Accounts and seats read from the platform's own database (`daybreakd directory sync`)."""

    accounts: str = Field(
        default="",
        description="SQL on the source that returns accounts; empty when the directory is imported from a file.",
    )
    seats: str = Field(default="", description="SQL on the source that returns seats.")
    access: str = Field(
        default="", description="SQL on the source that returns each seat's permissions on each account."
    )
    max_removed_share: Share = Field(
        default=0.1,
        ge=0,
        le=1,
        description="Maximum share of accounts, seats or grants that a sync may remove or deactivate; a sync over the "
        "limit is refused.",
    )

    @field_validator("access")
    @classmethod
    def _require_all_statements(cls, access: str, info: ValidationInfo) -> str:
        statements = [info.data.get("accounts"), info.data.get("seats"), access]
        if any(statements) and not all(statements):
            raise InvalidValue("Set directory.accounts, directory.seats and directory.access, or none of them.")
        return access

    @property
    def is_synced(self) -> bool:
        """Whether the platform's database provides the directory."""
        return bool(self.accounts)


class AuditSettings(Section):
    """Retention of the audit trail."""

    keep: Duration = Field(
        default=timedelta(days=400),
        ge=timedelta(days=1),
        le=timedelta(days=36_500),
        description="Retention of audit events. The builder deletes older ones; the database refuses to delete others.",
    )
