"""Recipes of the page Connect: what to enter in each tool, with the values of an account.

In the texts, `{ACCOUNT}` is the place of the account's id, `{BASE}` that of the URL of the service, and `{ATTACH}` that
of the URL of the S3 endpoint and the catalog. No text contains a token.
"""

from dataclasses import replace

from daybreak.settings import Settings
from daybreak.web.dashboard.tokens.examples import ENTER_TOKEN, SAVE_HEADER, Door, Recipe, Step, first_request

_PROFILE = Step(
    "Download the profile",
    "",
    "Create a token, choose Download profile, and save daybreak.share in the folder of your program.",
)
_PASTE_TOKEN = Step("Enter the endpoint and the token", "{BASE}/sharing/v1", "Create a token and paste it as key.")
_NAME_SERVICE = Step("Name the service and the account", "")
"""Replaced by the step of the example of `daybreak sync`, and so is `_SYNC`."""
_LOAD = """\
import delta_sharing

campaigns = delta_sharing.load_as_pandas("daybreak.share#{ACCOUNT}.daybreak.campaigns")"""
_AWS = Step(
    "Configure the endpoint",
    """\
cat > daybreak-aws.ini <<'END'
[default]
region = us-east-1
endpoint_url = {ATTACH}
credential_process = curl -sSf -X POST -H @daybreak-token.txt {BASE}/download/v1/s3-credentials
s3 =
  addressing_style = path
END
export AWS_CONFIG_FILE=daybreak-aws.ini""",
    "The credentials expire and are replaced automatically.",
)
_POWER_QUERY = """\
let
  File = Web.Contents("{BASE}", [
    RelativePath = "download/v1/files/{ACCOUNT}/members.csv.gz",
    Headers = [Authorization = "Bearer service_api_..."]]),
  Text = Binary.Decompress(File, Compression.GZip),
  Rows = Csv.Document(Text, [Delimiter = ",", Encoding = 65001, QuoteStyle = QuoteStyle.Csv])
in
  Table.PromoteHeaders(Rows)"""
_DLT = """\
import os

import dlt
from daybreak_client.dlt_source import daybreak

pipeline = dlt.pipeline("exports", destination=dlt.destinations.duckdb("exports.duckdb"), dataset_name="daybreak")
source = daybreak(os.environ["DAYBREAK_SERVICE"], os.environ["DAYBREAK_TOKEN"], os.environ["DAYBREAK_ACCOUNT"])
print(pipeline.run(source))"""
_SPARK = """\
from pyspark.sql import SparkSession

connector = "io.delta:delta-sharing-spark_2.13:4.0.0"
spark = SparkSession.builder.config("spark.jars.packages", connector).getOrCreate()
spark.read.format("deltaSharing").load("daybreak.share#{ACCOUNT}.daybreak.campaigns").show()"""
_DATABRICKS = """\
databricks providers create daybreak TOKEN --recipient-profile-str "$(cat daybreak.share)\""""
_TRINO = """\
connector.name=iceberg
iceberg.catalog.type=rest
iceberg.rest-catalog.uri={ATTACH}/iceberg
iceberg.rest-catalog.warehouse={ACCOUNT}
iceberg.rest-catalog.security=OAUTH2
iceberg.rest-catalog.oauth2.token=${ENV:DAYBREAK_TOKEN}
iceberg.rest-catalog.vended-credentials-enabled=true
fs.native-s3.enabled=true
s3.endpoint={ATTACH}
s3.region=us-east-1
s3.path-style-access=true"""
_CLICKHOUSE = """\
SET allow_experimental_database_iceberg = 1;
CREATE DATABASE daybreak ENGINE = DataLakeCatalog('{ATTACH}/iceberg/v1')
SETTINGS catalog_type = 'rest', warehouse = '{ACCOUNT}', vended_credentials = true,
  auth_header = 'Authorization: Bearer service_api_...';
SELECT count() FROM daybreak.`daybreak.members`"""
_RCLONE = """\
export RCLONE_CONFIG_DAYBREAK_TYPE=s3 RCLONE_CONFIG_DAYBREAK_PROVIDER=Other
export RCLONE_CONFIG_DAYBREAK_ENV_AUTH=true RCLONE_CONFIG_DAYBREAK_ENDPOINT={ATTACH}
rclone sync daybreak:{ACCOUNT}/latest exports"""
_SYNC = Step("Keep a database up to date", "")
_DBT = """\
daybreak:
  target: dev
  outputs:
    dev: {type: duckdb, path: daybreak.duckdb}"""
_SNOWFLAKE = Step(
    "Fetch the files, and write the statements that create the tables",
    "daybreak fetch exports\ndaybreak schema --ddl snowflake > tables.sql",
    "Requires the client. Then load the files with PUT and COPY INTO.",
)


def _python(text: str, packages: str) -> Step:
    return Step("Read a table in Python", text, f"Requires pip install {packages}.")


_RECIPES = (
    Recipe("excel", "Excel", Door.DOWNLOADS, (
        Step("Paste into a new query", _POWER_QUERY, "Choose Anonymous as the kind of access, and replace the token."),
    )),
    Recipe("power-bi", "Power BI", Door.SHARING, (
        replace(_PASTE_TOKEN, title="Choose Get data, Delta Sharing, and enter the endpoint"),
    )),
    Recipe("tableau", "Tableau", Door.SHARING, (
        replace(_PASTE_TOKEN, title="Choose Delta Sharing by Databricks, and enter the endpoint"),
    )),
    Recipe("pandas", "pandas", Door.SHARING, (
        _PROFILE, _python(f"{_LOAD}\nprint(campaigns.head())", "delta-sharing"),
    ), tested=True),
    Recipe("polars", "polars", Door.SHARING, (
        _PROFILE,
        _python(f"import polars\n{_LOAD}\nprint(polars.from_pandas(campaigns).head())", "delta-sharing polars"),
    ), tested=True),
    Recipe("duckdb", "DuckDB", Door.SHARING, (
        _PROFILE,
        _python(f'import duckdb\n{_LOAD}\nprint(duckdb.sql("SUMMARIZE campaigns"))', "delta-sharing duckdb"),
    ), tested=True),
    Recipe("spark", "Spark", Door.SHARING, (_PROFILE, _python(_SPARK, "pyspark"))),
    Recipe("snowflake", "Snowflake", Door.DOWNLOADS, (ENTER_TOKEN, _NAME_SERVICE, _SNOWFLAKE)),
    Recipe("databricks", "Databricks", Door.SHARING, (
        _PROFILE,
        Step("Create a provider", _DATABRICKS, "Requires the Databricks command line."),
        Step("Create a catalog", "CREATE CATALOG daybreak USING SHARE daybreak.`{ACCOUNT}`"),
    )),
    Recipe("trino", "Trino", Door.ICEBERG, (
        Step("Write etc/catalog/daybreak.properties", _TRINO, "Set DAYBREAK_TOKEN for the process of Trino."),
        Step("Query a table", "SELECT count(*) FROM daybreak.daybreak.members"),
    )),
    Recipe("clickhouse", "ClickHouse", Door.ICEBERG, (
        Step("Attach the catalog", _CLICKHOUSE, "Replace the token."),
    )),
    Recipe("dbt", "dbt", Door.DOWNLOADS, (
        ENTER_TOKEN, _NAME_SERVICE, _SYNC, Step("Write profiles.yml", _DBT, "Requires pip install dbt-duckdb."),
    )),
    Recipe("dlt", "dlt", Door.DOWNLOADS, (
        ENTER_TOKEN, _NAME_SERVICE,
        Step("Load the tables in Python", _DLT, "Requires the client with the extra dlt, and dlt[duckdb]."),
    ), tested=True),
    Recipe("aws", "aws", Door.S3, (
        ENTER_TOKEN, SAVE_HEADER, _AWS,
        Step("Download all files", "aws s3 cp --recursive s3://{ACCOUNT}/latest exports"),
    )),
    Recipe("rclone", "rclone", Door.S3, (ENTER_TOKEN, SAVE_HEADER, _AWS, Step("Mirror the files", _RCLONE))),
)  # fmt: skip


def recipes_of(settings: Settings, client_id: str) -> dict[str, Recipe]:
    """Return the recipes of an account by key, in the order of the page."""
    examples = {example.key: example for example in first_request(settings, client_id).examples()}
    _, name_service, sync, _ = examples["sync"].steps
    values = {"{ATTACH}": settings.attach_url, "{BASE}": settings.base_url, "{ACCOUNT}": client_id}

    def filled(step: Step) -> Step:
        step = {_NAME_SERVICE: replace(name_service, note=""), _SYNC: replace(sync, note=name_service.note)}.get(
            step, step
        )
        text = step.text
        for name, value in values.items():
            text = text.replace(name, value)
        return replace(step, text=text)

    found = [replace(recipe, steps=tuple(map(filled, recipe.steps))) for recipe in _RECIPES]
    found.append(replace(examples["curl"], tested=True))
    return {recipe.key: recipe for recipe in found}
