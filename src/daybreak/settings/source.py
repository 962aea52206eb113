"""The settings of the operator's platform."""

from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationInfo, field_validator

from daybreak.settings.origin import current_origin
from daybreak.settings.sections import Section
from daybreak.settings.text_forms import InvalidValue
from daybreak.settings.types import Duration, OptionalUuid, SparkTable


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
        description="PostgreSQL: maximum run time of a statement.",
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
        text, engine = location.get_secret_value(), info.data.get("engine")
        if not text.strip():
            raise InvalidValue("Use a DuckDB file, a folder of Parquet files or a connection URL.")
        if engine == "postgresql":
            return location
        if text.startswith(("postgresql://", "postgres://")):
            raise InvalidValue('This is a PostgreSQL URL. Set source.engine to "postgresql".')
        if engine == "duckdb" and "://" in text:
            raise InvalidValue("Use a DuckDB file or a folder of Parquet files on this machine.")
        path = (current_origin().folder / Path(text).expanduser()).resolve()
        return SecretStr(str(path)) if engine == "duckdb" or path.exists() else location
