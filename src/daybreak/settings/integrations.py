"""The settings of other systems: the platform, single sign-on, tools that read tables, webhooks, mail, monitoring."""

from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationInfo, field_validator

from daybreak.domain.email_address import is_email_address
from daybreak.settings.sections import Section
from daybreak.settings.text_forms import InvalidValue, Rate, require_trimmed, resolve_path
from daybreak.settings.types import (
    Duration,
    HostNames,
    Issuer,
    MailUrl,
    Networks,
    OptionalListen,
    OptionalPath,
    OptionalUrl,
    OptionalUuid,
    RateLimit,
    Scopes,
    Secret,
    Share,
    SparkTable,
    Text,
    folder_of,
)


class SourceSettings(Section):
    """The operator's platform, from which rows are read."""

    engine: Literal["duckdb", "postgresql", "spark"] = Field(
        default="duckdb", description="The engine that runs the models."
    )
    location: SecretStr = Field(
        description="`duckdb`: a DuckDB file, or a folder with `TABLE.parquet` or parts in `TABLE/`. `postgresql`: a "
        "connection URL, `postgresql://reader@host/database`. `spark`: a folder or URL of Parquet files, or "
        "`catalog:NAME`."
    )
    statement_timeout: Duration = Field(
        default=timedelta(hours=4),
        ge=timedelta(seconds=10),
        le=timedelta(days=1),
        description="PostgreSQL: maximum run time of a statement. The run ends if the server has not ended it a "
        "minute later.",
    )
    max_lag: Duration = Field(
        default=timedelta(minutes=10),
        ge=timedelta(seconds=10),
        le=timedelta(days=1),
        description="PostgreSQL: maximum replication lag of a standby. A run on an older standby fails.",
    )
    malformed_rows: Literal["refuse", "fail"] = Field(
        default="refuse",
        description="What a run does with a row whose value the column cannot hold, such as a text that is not a UUID, "
        "or a count that is out of range or a fraction. `refuse`: the row is in no file and is counted. `fail`: the "
        "run fails.",
    )
    key_namespace: OptionalUuid = Field(
        default=None,
        description="Namespace of the UUIDs that views compute from integer keys. `daybreakd member erase` then "
        "accepts an integer.",
    )
    spark: SparkTable = Field(
        default={},
        description='Spark: session settings, such as `{"spark.master" = "local[4]"}`. Only in the file. Set secrets '
        "in `spark-defaults.conf`.",
    )

    @field_validator("location")
    @classmethod
    def _resolve_location(cls, location: SecretStr, info: ValidationInfo) -> SecretStr:
        """Resolve a relative path against the folder of the file; leave URLs as they are."""
        text, engine = require_trimmed(location.get_secret_value()), info.data.get("engine")
        if not text:
            raise InvalidValue("Use a DuckDB file, a folder of Parquet files or a connection URL.")
        if engine == "postgresql":
            return location
        if text.startswith(("postgresql://", "postgres://")):
            raise InvalidValue('This is a PostgreSQL URL. Set source.engine to "postgresql".')
        if engine == "duckdb" and "://" in text:
            raise InvalidValue("Use a DuckDB file or a folder of Parquet files on this machine.")
        path = resolve_path(Path(text), folder_of(info))
        return SecretStr(str(path)) if engine == "duckdb" or path.exists() else location


class SharingSettings(Section):
    """Delta Sharing: accounts' files as tables for pandas, Spark, Power BI and other clients."""

    enabled: bool = Field(
        default=False,
        description="Serve the Delta Sharing protocol below `/sharing/v1`. Needs `parquet` in `snapshot.formats`.",
    )


class AttachSettings(Section):
    """S3 and Iceberg: accounts' files for DuckDB, polars, Spark, rclone, aws and other tools."""

    s3: bool = Field(
        default=False,
        description="Serve each account's files as a bucket, read only. Needs `parquet` in `snapshot.formats`.",
    )
    iceberg: bool = Field(
        default=False,
        description="Serve each account's tables as an Iceberg REST catalog below `/iceberg`, read only. Needs "
        "`attach.s3`.",
    )
    url: OptionalUrl = Field(
        default="",
        description="Public URL of the S3 endpoint and the catalog, without a path; empty: `base_url`. Use a "
        "separate host name in production.",
    )
    request_rate: RateLimit = Field(
        default=Rate(6000, timedelta(minutes=1)),
        description="Requests to the S3 endpoint that one API token may send. `access.link_rate` limits its downloads "
        "there too.",
    )


class OidcSettings(Section):
    """Single sign-on to the dashboard with an OpenID Connect provider."""

    issuer: Issuer = Field(
        default="",
        description="Issuer of the provider, exactly as in its `/.well-known/openid-configuration`; empty: no single "
        "sign-on.",
    )
    client_id: Text = Field(default="", description="Client id that the provider issued for Daybreak.")
    client_secret: Secret = Field(
        default=SecretStr(""), description="Client secret. Prefer `client_secret_file` or an environment variable."
    )
    client_secret_file: OptionalPath = Field(
        default=None, description="File that contains the client secret, mode 0600; the same on every node."
    )
    name: Text = Field(default="single sign-on", description="Name of the provider on the button *Sign in with NAME*.")
    scopes: Scopes = Field(default=("openid", "email"), description="Scopes to request. `openid` is required.")
    match: Literal["email", "subject"] = Field(
        default="email",
        description='"email": the first sign-in finds the seat by an email that the provider has verified, and binds '
        'the seat to the user. "subject": only seats that `daybreakd seat bind` has bound can sign in.',
    )
    password_login: bool = Field(
        default=True,
        description="Accept passwords, in the dashboard and in the API. Switch off to allow single sign-on and API "
        "tokens only.",
    )
    trust_second_factor: bool = Field(
        default=False,
        description="Accept the second factor of the provider, if the ID token states one (`amr` or `acr`), instead of "
        "asking for the seat's own.",
    )

    @field_validator("client_id")
    @classmethod
    def _require_client_id(cls, client_id: str, info: ValidationInfo) -> str:
        issuer = info.data.get("issuer")
        if issuer and not client_id:
            raise InvalidValue("Set oidc.client_id to the client id that the provider issued.")
        if issuer == "" and client_id:
            raise InvalidValue("Set oidc.issuer too, or remove the setting.")
        return client_id

    @field_validator("client_secret_file")
    @classmethod
    def _require_one_secret(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        secret = info.data.get("client_secret")
        has_secret = secret is not None and bool(secret.get_secret_value())
        if file is not None and has_secret:
            raise InvalidValue("Set either oidc.client_secret_file or oidc.client_secret.")
        if info.data.get("issuer") and file is None and not has_secret:
            raise InvalidValue("Set oidc.client_secret_file to a file that contains the client secret.")
        return file

    @field_validator("password_login")
    @classmethod
    def _keep_a_way_in(cls, password_login: bool, info: ValidationInfo) -> bool:  # noqa: FBT001 - pydantic calls it
        if info.data.get("issuer") == "" and not password_login:
            raise InvalidValue("Set oidc.issuer first: without single sign-on, passwords are the only way to sign in.")
        return password_login

    @property
    def enabled(self) -> bool:
        """Whether single sign-on is configured."""
        return bool(self.issuer)


class MetricsSettings(Section):
    """Metrics for Prometheus."""

    listen: OptionalListen = Field(
        default="",
        description="Host and port on which `/metrics` is served, to every client that can connect; empty: off.",
    )


class TelemetrySettings(Section):
    """Traces, metrics and logs for OpenTelemetry."""

    url: OptionalUrl = Field(
        default="",
        description="URL of a collector that takes OTLP over HTTP, such as `http://collector:4318`; empty: off. "
        "OTEL_EXPORTER_OTLP_HEADERS may contain headers for it.",
    )
    request_share: Share = Field(
        default=1.0,
        ge=0,
        le=1,
        description="Share of requests and webhooks that are traced, unless a trusted proxy decides. Runs always are.",
    )


class EventsSettings(Section):
    """Webhooks of accounts."""

    webhooks: bool = Field(
        default=True, description="Let owners and admins register webhooks, and deliver events to them."
    )
    allowed_networks: Networks = Field(
        default=(),
        description="Private networks that webhooks may be sent to, such as a receiver on this machine "
        '(`["127.0.0.0/8"]`, which also allows plain http to it). Other private addresses are refused.',
    )
    allowed_hosts: HostNames = Field(
        default=(),
        description="Hosts that webhooks may be sent to, such as `hooks.example.org`, or `*.example.net` for all names "
        "below a domain; empty: any host with an allowed address.",
    )


class MailSettings(Section):
    """Mail server for notifications and password resets."""

    url: MailUrl = Field(
        default="",
        description="`smtps://host:465` (TLS) or `smtp://host:587` (STARTTLS, required unless the host is this "
        "machine); empty: no mail.",
    )
    sender: str = Field(default="", description="Address that mails come from, such as `exports@example.org`.")
    username: Text = Field(default="", description="User name at the mail server; empty: no authentication.")
    password: Secret = Field(
        default=SecretStr(""), description="Password at the mail server. Use the environment variable."
    )

    @field_validator("sender")
    @classmethod
    def _require_sender(cls, sender: str, info: ValidationInfo) -> str:
        if info.data.get("url") and not is_email_address(sender):
            raise InvalidValue('Use the address that mails come from, such as "exports@example.org".')
        return sender

    @field_validator("password")
    @classmethod
    def _require_both(cls, password: SecretStr, info: ValidationInfo) -> SecretStr:
        username = info.data.get("username")
        if username is None:
            return password
        if bool(password.get_secret_value()) != bool(username):
            raise InvalidValue("Set mail.username and mail.password, or neither.")
        if not f"{username}{password.get_secret_value()}".isascii():
            raise InvalidValue("Use a user name and a password of ASCII characters.")
        return password

    @property
    def enabled(self) -> bool:
        """Whether mail is configured."""
        return bool(self.url)
