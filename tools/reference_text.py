"""Introductions of the generated pages, and tables, in Markdown."""

from collections.abc import Iterable, Sequence

HEADER = "<!-- Generated from the code by `make reference`. Change the code instead. -->\n\n"
NOT_RUN = "<!-- not run: shows options; the how-to guides run the commands -->\n"

CONFIGURATION = """\
# Configuration

This page is for operators. It lists every setting of the service with its default.

`daybreakd` reads `daybreak.toml`: the file of `--config FILE`, else of the variable `DAYBREAK_CONFIG`, else the one
in the current folder. Relative paths start from the file's folder. `daybreakd init` writes a file that shows every
setting with its default.

Environment variables override the file: `location` in `[source]` is `DAYBREAK_SOURCE__LOCATION`. Lists are
separated by commas.

An invalid configuration ends the command with exit code 2. The message lists every fault, with the setting and a
valid value.

| Kind | Examples |
|---|---|
| duration | `30s`, `15m`, `4h`, `7d` |
| size | `512MB`, `1GB`, `2GiB` |
| rate | `10/5m`: ten attempts in any five minutes |
"""

COMMANDS = """\
# Commands

This page is for operators. It lists every command of `daybreakd` with its options.

| Exit code | Meaning |
|---|---|
| 0 | success |
| 1 | failure |
| 2 | invalid use or configuration |
| 130 | interrupted |

Errors are one message on standard error, which names the setting and the fix. Output to a pipe is plain:
tab-separated lines, or JSON with `--json`. `NO_COLOR` turns colors off.
"""

CLIENT = """\
# Client

This page is for consumers. It lists the commands of `daybreak`, the client, and the classes of its Python package.
[Fetch files every day](../how-to/fetch-every-day.md) shows how to use them.

## Exit codes
"""

CLIENT_VARIABLES = """\
With `--all-accounts`, the exit code is that of the first account that failed.

Errors are one message on standard error. Output to a pipe is plain: tab-separated lines with numbers without
separators, or JSON with `--json`. `NO_COLOR` turns colors off.

## Environment variables
"""

COLUMNS = """\
# Files and columns

This page is for consumers. It describes the nine files of an account: their names, their rows and every column.

Paths are relative to `/download/v1/files/{client_id}/`. Types: uuid (lower-case text), text, bigint, boolean, date,
and timestamp (UTC, `2026-11-20T04:00:00.000000Z`). `?` marks a column
that may have no value (NULL).

| Format | Content |
|---|---|
| CSV | UTF-8 without byte-order mark, comma, LF. Text and identifiers are quoted. NULL is empty, `""` is empty text. |
| JSON | one array, one record per line, explicit `null` |

A file has a header row and the account's rows in the order of its key, so the files of two days can be compared
line by line. An account without rows in a file gets the header alone (JSON: `[]`).

Dates are days of the Gregorian calendar, before 1582 too. The DuckDB engine refuses Parquet files of Spark 2 and Hive
with such dates in the Julian calendar.

Values that are not listed are exported as they are. A time before the year 1 or after 9999, or an infinite one, is
exported as NULL in every format, and counted in the report of the run. Personal columns of deleted Members are NULL.

Programs can read this page as a [Frictionless Data Package](https://datapackage.org/) from `GET /download/v1/schema`.
Saved as `datapackage.json` next to the files of an account, it validates them: `frictionless validate
datapackage.json`. CSV readers that do not distinguish NULL from the empty string, as Frictionless does not, report an
empty text in a column that cannot be NULL.

With `?dialect=postgresql`, or `daybreak schema --ddl postgresql`, the service returns CREATE TABLE statements. Other
dialects: `duckdb`, `snowflake`, `bigquery`, `redshift`, `mysql` and `tsql` (SQL Server).

The primary keys of the tables begin with `LEADER_ID`, so that several accounts can share them. Keys with text are left
out where the database cannot index long texts (PostgreSQL, MySQL, SQL Server). The tables have no foreign keys, so that
they can be loaded in any order.
"""

SOURCE_TABLES = """\
# Source tables

This page is for operators. It describes the tables that Daybreak reads from the platform's database, and the
columns that each must have.

Daybreak reads thirteen tables and builds [nine files](columns.md) from them with SQL models
(`src/daybreak/catalogue/sql`). If your tables have other names or shapes, create views with these names, or put
your own models into `snapshot.models_dir`: a file there replaces the model of that name. It is a SELECT in the dialect
of `source.engine`, and `:as_of` is the instant of the snapshot. A table that only replaced models read is not required.

Each run first checks the names, order and types of the columns.

Types: uuid (native or text), text, bigint, boolean, date, timestamp (UTC, truncated to microseconds). `?` marks a
column that may be NULL. Rows later than the instant of the snapshot are excluded. A bigint is a whole number from 0 to
1,000,000,000; rows with other counts are malformed (`source.malformed_rows`).

## Parquet

A Parquet source is a folder with one file `TABLE.parquet` per table, or with parts in `TABLE/` or `TABLE.parquet/`.
Parts may be in subfolders named `column=value`. A file is recognized as Parquet by its content, so parts may have any
name.

Every entry of the folder is read, or the run stops and names the entry. Exceptions are hidden files, checksums (`.crc`,
`.md5`, `.sha256`), and the markers `_SUCCESS`, `_metadata`, `_common_metadata`, `_started_…` and `_committed_…`. A file
that a table has under two names is refused. A part may omit columns that may be NULL. A column that holds only NULL may
have any type.
"""

ERRORS = """\
# Errors

This page is for consumers who handle errors in a program, and for operators. It lists every error code.

An HTTP error is an `application/problem+json` body (RFC 9457) with a stable `code`, a readable `detail` and the
`request_id` that the service's log contains. `errors` lists invalid fields. `401` carries `WWW-Authenticate`; `429`
and `503` carry `Retry-After`.

A browser receives a page instead: in the dashboard, for a link, and for an unknown address. [Delta
Sharing](delta-sharing.md#errors) has its own form. Requests that the server cannot parse get `400`, `414` or `431`
without a body.
"""

OPERATOR_ERRORS = """\
## For operators

These errors end a command or a run. The builder retries a run after a transient error.
"""

HTTP = """\
# HTTP

This page is for consumers who write a client. It lists every request, with its responses.

A running service publishes the full description at `/openapi.json`, and as a page at `/docs`. Responses are JSON,
except files. [Fetch files with curl](../how-to/fetch-with-curl.md) has examples, and [Errors](errors.md) lists the
error codes.

Replace `csv` with `json` in the path of a file for its JSON version.

Send each query parameter once: `400 invalid_request` names one that is repeated. Unknown parameters are ignored. A link
is refused with `403 invalid_link` for either.
"""

EVENTS = """\
# Events

This page is for people who receive webhooks or mails. It lists the events, and the payloads of webhooks.
[Receive webhooks](../how-to/webhooks.md) explains how to verify them.

An event is recorded in the transaction that causes it: none is lost, and none is sent for something that did not
happen. A webhook can be delivered more than once, always with the same `webhook-id`.

## Types

Seats choose their mails in *Settings, Notifications*. Mails about files go to seats that may download files of an
active account, one for all their accounts.

"""

LIMITS = """\
# Limits

This page is for consumers who write a client, and for operators. It lists rates, sizes, lifetimes and retention times.

The values are the defaults. An operator can change those with a setting, which [Configuration](configuration.md)
describes. Limits without a setting are the same in every installation. [Compatibility](compatibility.md) says when they
may change.
"""


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += [
        "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows
    ]
    return "\n".join(lines) + "\n"
