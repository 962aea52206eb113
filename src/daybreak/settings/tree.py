"""The whole configuration: the settings before the first section, and the sections."""

from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails

from daybreak.settings.integrations import (
    AttachSettings,
    EventsSettings,
    MailSettings,
    MetricsSettings,
    OidcSettings,
    SharingSettings,
    SourceSettings,
    TelemetrySettings,
)
from daybreak.settings.sections import (
    AccessSettings,
    AuditSettings,
    DirectorySettings,
    FilesSettings,
    GuardSettings,
    KeysSettings,
    Section,
    SigningSettings,
    SnapshotSettings,
    StateSettings,
)
from daybreak.settings.text_forms import LOOPBACK_HOSTS, InvalidValue
from daybreak.settings.types import BaseUrl, Listen, Networks, Text, Whole

_WILDCARDS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared, not bound


def addresses_overlap(first: str, second: str) -> bool:
    """Return whether two `host:port` settings cannot be bound at the same time.

    A wildcard address occupies the port on every address. Names other than `localhost` are not resolved.
    """
    first_host, first_port = _host_and_port(first)
    second_host, second_port = _host_and_port(second)
    hosts = {first_host, second_host}
    if first_port != second_port:
        return False
    return len(hosts) == 1 or bool(hosts & _WILDCARDS) or ("localhost" in hosts and hosts <= LOOPBACK_HOSTS)


def _host_and_port(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    host = host.strip("[]").lower()
    try:
        return str(ip_address(host)), port
    except ValueError:
        return host, port


def _setting_fault(name: str, value: object, advice: str) -> ValidationError:
    """Return the fault of one setting in a section, instead of one of the whole section."""
    fault = InitErrorDetails(type="value_error", loc=(name,), input=value, ctx={"error": InvalidValue(advice)})
    return ValidationError.from_exception_data("Settings", [fault])


class Settings(BaseModel):
    """The whole configuration, validated in the context of its file. Paths are absolute."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True)

    base_url: BaseUrl = Field(
        default="http://127.0.0.1:8400", description="Public URL of the service; the start of every link."
    )
    listen: Listen = Field(
        default="127.0.0.1:8400", description="Host and port, or Unix socket, on which the service listens."
    )
    workers: Whole = Field(default=2, ge=1, le=256, description="Number of web worker processes.")
    require_https: bool = Field(
        default=False, description="Refuse plain HTTP requests to the API instead of serving them."
    )
    trusted_proxies: Networks = Field(
        default=(), description="Proxies whose X-Forwarded-For and X-Forwarded-Proto headers are trusted."
    )
    operator_contact: Text = Field(
        default="",
        description="Contact shown to users on the login page, on `/docs`, and where they may not create API tokens.",
    )
    status_page: bool = Field(
        default=False,
        description="Show the publication history of 90 days at `/dashboard/status`, without sign-in and without "
        "account data.",
    )
    log_format: Literal["auto", "console", "json"] = Field(
        default="auto", description='"auto": colored lines on a terminal, JSON lines elsewhere.'
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Minimum log level.")
    state: StateSettings
    keys: KeysSettings
    signing: SigningSettings
    source: SourceSettings
    files: FilesSettings
    snapshot: SnapshotSettings
    guard: GuardSettings
    sharing: SharingSettings
    attach: AttachSettings
    access: AccessSettings
    oidc: OidcSettings
    directory: DirectorySettings
    audit: AuditSettings
    metrics: MetricsSettings
    telemetry: TelemetrySettings
    events: EventsSettings
    mail: MailSettings

    _file: Path | None = PrivateAttr(default=None)

    def model_post_init(self, context: Path | None) -> None:
        self._file = context

    @model_validator(mode="before")
    @classmethod
    def _add_sections(cls, values: dict[str, object]) -> dict[str, object]:
        """Add absent sections, so that their defaults and required settings are validated too."""
        return {name: {} for name in SECTIONS} | values

    @field_validator("require_https")
    @classmethod
    def _require_https_base_url(cls, require_https: bool, info: ValidationInfo) -> bool:  # noqa: FBT001 - pydantic calls it
        if require_https and not str(info.data.get("base_url", "https:")).startswith("https:"):
            raise InvalidValue("Set base_url to a URL that starts with https://.")
        return require_https

    @field_validator("files")
    @classmethod
    def _require_folder_outside_source(cls, files: FilesSettings, info: ValidationInfo) -> FilesSettings:
        source, folder = info.data.get("source"), files.folder
        if folder is None or not isinstance(source, SourceSettings) or source.engine != "duckdb":
            return files
        if folder.is_relative_to(source.location.get_secret_value()):
            advice = "Use a folder outside of source.location: runs refuse a source with other files than tables."
            raise _setting_fault("url", str(folder), advice)
        return files

    @field_validator("sharing")
    @classmethod
    def _require_parquet(cls, sharing: SharingSettings, info: ValidationInfo) -> SharingSettings:
        snapshot = info.data.get("snapshot")
        if sharing.enabled and isinstance(snapshot, SnapshotSettings) and "parquet" not in snapshot.formats:
            raise _setting_fault("enabled", True, "Add parquet to snapshot.formats, or set sharing.enabled to false.")
        return sharing

    @field_validator("attach")
    @classmethod
    def _require_endpoint(cls, attach: AttachSettings, info: ValidationInfo) -> AttachSettings:
        snapshot = info.data.get("snapshot")
        if attach.s3 and isinstance(snapshot, SnapshotSettings) and "parquet" not in snapshot.formats:
            raise _setting_fault("s3", True, "Add parquet to snapshot.formats, or set attach.s3 to false.")
        if attach.iceberg and not attach.s3:
            raise _setting_fault("iceberg", True, "Set attach.s3 to true: the catalog's tables are read from there.")
        url = attach.url or info.data.get("base_url", "")
        if attach.s3 and urlsplit(url).path:
            raise _setting_fault("url", url, "Use a URL without a path: S3 tools do not accept one.")
        return attach

    @field_validator("metrics")
    @classmethod
    def _require_own_port(cls, metrics: MetricsSettings, info: ValidationInfo) -> MetricsSettings:
        listen = info.data.get("listen")
        if listen and metrics.listen and addresses_overlap(listen, metrics.listen):
            advice = f'The service listens on this port (listen = "{listen}"). Set metrics.listen to another port.'
            raise _setting_fault("listen", metrics.listen, advice)
        return metrics

    @property
    def file(self) -> Path | None:
        """The configuration file; None when all values come from defaults and the environment."""
        return self._file

    @property
    def secure(self) -> bool:
        """Whether users reach the service over HTTPS. If so, it sends HSTS and secure cookies."""
        return self.base_url.startswith("https://")

    @property
    def attach_url(self) -> str:
        """The URL of the S3 endpoint and the Iceberg catalog, without a final slash."""
        return self.attach.url or self.base_url

    @property
    def base_path(self) -> str:
        """The path of `base_url` without a final slash; usually empty."""
        return urlsplit(self.base_url).path.rstrip("/")

    @property
    def counts_requests(self) -> bool:
        """Whether metrics are served or sent."""
        return bool(self.metrics.listen or self.telemetry.url)

    @property
    def needs_builder(self) -> bool:
        """Whether the builder process has something to do: snapshots on schedule, or events to deliver."""
        return self.snapshot.schedule or self.events.webhooks or self.mail.enabled

    @property
    def spill_folder(self) -> Path:
        """The folder for spill files: `snapshot.temp_dir`, or `.spill` next to the files or the configuration file."""
        folder = self.files.folder or (self._file.parent if self._file is not None else Path.cwd())
        return self.snapshot.temp_dir or folder / ".spill"


SECTIONS: Mapping[str, type[Section]] = {
    name: field.annotation
    for name, field in Settings.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
}
