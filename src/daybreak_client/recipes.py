"""Programs that load downloaded files with the types of their columns, as text to paste.

Names of resources and columns have been checked against an allow-list, so that they need no quoting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from daybreak_client.tables import BIGINT, BOOLEAN, DATE, TEXT, TIMESTAMP, UUID, Table

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


def pandas_recipe(tables: Iterable[Table]) -> str:
    """Return a Python program that reads the CSV files with pandas."""
    return _program(_PANDAS_HEAD, tables, _pandas)


def polars_recipe(tables: Iterable[Table]) -> str:
    """Return a Python program that reads the CSV files with Polars."""
    return _program(_POLARS_HEAD, tables, _polars)


def duckdb_recipe(tables: Iterable[Table]) -> str:
    """Return SQL that creates tables from the CSV files in DuckDB."""
    return _program(_DUCKDB_HEAD, tables, _duckdb)


def r_recipe(tables: Iterable[Table]) -> str:
    """Return an R program that reads the CSV files."""
    return _program(_R_HEAD, tables, _r)


def _program(head: str, tables: Iterable[Table], statement: Callable[[Table], str]) -> str:
    return "\n".join([head, *(statement(table) for table in tables)])


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
