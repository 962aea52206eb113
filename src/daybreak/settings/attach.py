"""The settings of the S3 endpoint and the Iceberg catalog."""

from datetime import timedelta

from pydantic import Field

from daybreak.settings.sections import Section
from daybreak.settings.text_forms import Rate
from daybreak.settings.types import OptionalUrl, RateLimit


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
