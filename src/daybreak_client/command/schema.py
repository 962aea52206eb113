"""`daybreak schema` and `daybreak types`."""

import os
from collections.abc import Mapping
from typing import Annotated

from cyclopts import Parameter

from daybreak_client.command import profile as profiles
from daybreak_client.command.options import Flag, ProfileName, names_of
from daybreak_client.command.output import print_json, print_text
from daybreak_client.errors import WrongUse
from daybreak_client.service import Daybreak
from daybreak_client.tables import BIGINT, BOOLEAN, DATE, TEXT, TIMESTAMP, UUID, Table, parse_tables, released_tables

_PANDAS = {
    UUID: "string", TEXT: "string", BIGINT: "Int64", BOOLEAN: "boolean", DATE: "string", TIMESTAMP: "string",
}  # fmt: skip
_PANDAS_TIMES = {DATE: "datetime64[ms]", TIMESTAMP: "datetime64[us, UTC]"}
_POLARS = {
    UUID: "String", TEXT: "String", BIGINT: "Int64", BOOLEAN: "Boolean", DATE: "Date",
    TIMESTAMP: 'Datetime("us", "UTC")',
}  # fmt: skip
_DUCKDB = {
    UUID: "UUID", TEXT: "VARCHAR", BIGINT: "BIGINT", BOOLEAN: "BOOLEAN", DATE: "DATE", TIMESTAMP: "TIMESTAMPTZ",
}  # fmt: skip
_R = {
    UUID: "character", TEXT: "character", BIGINT: "character", BOOLEAN: "logical", DATE: "Date", TIMESTAMP: "character",
}  # fmt: skip

_PANDAS_LINE = '        "{}": "{}",'
_POLARS_LINE = '        "{}": polars.{},'
_PANDAS_HEAD = """\
# NULL and the empty string become missing values, and a text ends at a NUL character.
# daybreak_client.read("members.csv.gz") keeps both.
import pandas
"""
_POLARS_HEAD = "import polars\n"
_DUCKDB_HEAD = "SET TimeZone = 'UTC';\n"
_R_HEAD = """\
# NULL and the empty string become NA, and the line breaks CR and CR LF of a text become LF.
# Whole numbers are text: numbers of R are exact up to 2^53 only. Where that is enough, use as.numeric().
# Times are exact to the microsecond from 1685 to 2255.
"""


def schema(
    *,
    ddl: Annotated[
        str | None,
        Parameter(
            help="Print CREATE TABLE statements for this database: postgresql, duckdb, snowflake, bigquery, redshift, "
            "mysql or tsql."
        ),
    ] = None,
    profile: ProfileName = None,
) -> None:
    """Print the columns of the files, as a Frictionless Data Package (JSON). Needs no token."""
    service = open_service(profile)
    if service is None:
        raise WrongUse("Set DAYBREAK_SERVICE to the URL of the service, or run `daybreak login URL`.")
    with service:
        if ddl is None:
            print_json(service.schema())
        else:
            for line in service.create_tables(ddl).splitlines():
                print_text(line)


def open_service(profile: str | None) -> Daybreak | None:
    """Return the selected service without a token, None if none is selected. Raises WrongUse for a missing profile."""
    address = os.environ.get("DAYBREAK_SERVICE")
    if address and profile is None:
        return Daybreak(address, plain_http=bool(os.environ.get("DAYBREAK_PLAIN_HTTP")))
    saved = profiles.load(profiles.profile_file(os.environ, profile))
    if saved is not None:
        return Daybreak(saved.address, plain_http=saved.plain_http)
    if profiles.selected_name(os.environ, profile) is not None:
        raise profiles.missing_profile(profile)
    return None


def types(
    resource: Annotated[str | None, Parameter(help="One or several, such as members,campaigns. Default: all.")] = None,
    *,
    pandas: Annotated[Flag, Parameter(help="Print Python for pandas.")] = False,
    polars: Annotated[Flag, Parameter(help="Print Python for Polars.")] = False,
    duckdb: Annotated[Flag, Parameter(help="Print SQL for DuckDB.")] = False,
    r: Annotated[Flag, Parameter(name="--r", help="Print R.")] = False,
    profile: ProfileName = None,
) -> None:
    """Print a program that loads the CSV files of the current folder with the types of their columns.

    The columns are those of the service, and of this version of the command if you
    have not selected one. Needs no token.
    """
    recipes = (
        (pandas, _PANDAS_HEAD, _pandas),
        (polars, _POLARS_HEAD, _polars),
        (duckdb, _DUCKDB_HEAD, _duckdb),
        (r, _R_HEAD, _r),
    )
    chosen = [(head, statement) for wanted, head, statement in recipes if wanted]
    if len(chosen) != 1:
        raise WrongUse("Select one of --pandas, --polars, --duckdb and --r.")
    service = open_service(profile)
    if service is None:
        tables = released_tables()
    else:
        with service:
            tables = parse_tables(service.schema())
    resources = names_of("RESOURCE", None if resource is None else [resource])
    unknown = sorted(set(resources) - {table.name for table in tables})
    if unknown:
        raise WrongUse(f"{unknown[0]!r} is not a resource. Use {', '.join(table.name for table in tables)}.")
    head, statement = chosen[0]
    statements = [statement(table) for table in tables if not resources or table.name in resources]
    for line in "\n".join([head, *statements]).splitlines():
        print_text(line)


def _pandas(table: Table) -> str:
    times = {column.name: _PANDAS_TIMES[column.kind] for column in table.columns if column.kind in _PANDAS_TIMES}
    return (
        f'{table.name} = pandas.read_csv(\n    "{table.name}.csv.gz",\n    dtype={{\n'
        f"{_lines(table, _PANDAS, _PANDAS_LINE)}    }},\n"
        '    keep_default_na=False,\n    na_values=[""],\n)'
        + (
            ".astype({\n" + "".join(f'    "{name}": "{kind}",\n' for name, kind in times.items()) + "})"
            if times
            else ""
        )
        + "\n"
    )


def _polars(table: Table) -> str:
    return (
        f'{table.name} = polars.read_csv(\n    "{table.name}.csv.gz",\n    infer_schema=False,\n'
        f"    schema_overrides={{\n{_lines(table, _POLARS, _POLARS_LINE)}    }},\n)\n"
    )


def _duckdb(table: Table) -> str:
    types = _lines(table, _DUCKDB, "        '{}': '{}',").removesuffix(",\n") + "\n"
    return (
        f"CREATE OR REPLACE TABLE {table.name} AS FROM read_csv(\n    '{table.name}.csv.gz',\n"
        "    header = true, delim = ',', quote = '\"', escape = '\"', nullstr = '', allow_quoted_nulls = false,\n"
        "    max_line_size = 16777216, buffer_size = 67108864, all_varchar = true,\n"
        f"    types = {{\n{types}    }}\n);\n"
    )


def _r(table: Table) -> str:
    classes = _lines(table, _R, '    {} = "{}",').removesuffix(",\n") + "\n"
    times = (f"{table.name}${column.name}" for column in table.columns if column.kind == TIMESTAMP)
    return (
        f'{table.name} <- read.csv(\n  "{table.name}.csv.gz",\n  colClasses = c(\n{classes}  ),\n'
        '  na.strings = "",\n  encoding = "UTF-8"\n)\n'
    ) + "".join(f'{time} <- as.POSIXct({time}, format = "%Y-%m-%dT%H:%M:%OSZ", tz = "UTC")\n' for time in times)


def _lines(table: Table, types: Mapping[str, str], line: str) -> str:
    return "".join(line.format(column.name, types[column.kind]) + "\n" for column in table.columns)
