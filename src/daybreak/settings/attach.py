"""The settings of the S3 endpoint and the Iceberg catalog."""

from pydantic import Field

from daybreak.settings.sections import Section
from daybreak.settings.types import OptionalUrl


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
