"""Downloaded files as tables whose columns have the types of the schema.

Every file becomes an Arrow table first, so that all libraries receive the same cells: NULL and the empty string differ,
integers are exact, and no type depends on the rows.
"""

from __future__ import annotations

import csv
import gzip
import importlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal, cast

from daybreak_client import wire
from daybreak_client.errors import Damaged, WrongUse
from daybreak_client.folder import expanded
from daybreak_client.tables import BIGINT, BOOLEAN, DATE, TEXT, TIMESTAMP, UUID, Table, parse_tables, released_tables

_ENDINGS = (".csv", ".json", ".ndjson", ".parquet")
_GZIP_MAGIC = b"\x1f\x8b"
# The Arrow reader refuses rows over this size.
_BLOCK_BYTES = 256 << 20

Engine = Literal["pandas", "polars", "duckdb"]


def read(path: str | Path, *, engine: Engine = "pandas", schema: Mapping[str, Any] | None = None) -> Any:
    """Read a downloaded CSV, JSON, NDJSON or Parquet file, compressed or not, with the types of its columns.

    Returns a DataFrame of pandas or Polars, or a relation of DuckDB. Needs that library and pyarrow. The types are
    those of this version of Daybreak; pass `schema`, a result of `Daybreak.schema`, for a service with other columns.
    Columns that it does not list are text. Raises WrongUse, Damaged, and OSError for a file that cannot be read.
    """
    if engine not in _ENGINES:
        raise WrongUse(f"{engine!r} is not an engine. Use one of {', '.join(_ENGINES)}.")
    file = expanded(Path(path))
    kinds = _Kinds(file, released_tables() if schema is None else parse_tables(schema))
    _library("pyarrow", engine)
    with _damage_of(file):
        table = _arrow_table(file, kinds)
        # They become part of SQL. A delta has the column _OP.
        if len({wire.name(name.removeprefix("_")) for name in table.column_names}) != table.num_columns:
            raise ValueError
    return _ENGINES[engine](table, kinds)


class _Kinds:
    """Kinds of the columns of a file: those of its resource, otherwise those of columns with the same name."""

    def __init__(self, file: Path, tables: Iterable[Table]) -> None:
        own = [table for table in tables if table.name == file.name.partition(".")[0]]
        self.columns = own[0].column_names if own else ()
        self._kinds = {column.name: column.kind for table in (*tables, *own) for column in table.columns}

    def __getitem__(self, name: str) -> str:
        return self._kinds.get(name, TEXT)

    def arrow_type(self, name: str) -> Any:
        import pyarrow as pa

        return {
            UUID: pa.string(),
            TEXT: pa.string(),
            BIGINT: pa.int64(),
            BOOLEAN: pa.bool_(),
            DATE: pa.date32(),
            TIMESTAMP: pa.timestamp("us", "UTC"),
        }[self[name]]


def _arrow_table(file: Path, kinds: _Kinds) -> Any:
    ending = next((each for each in _ENDINGS if file.name.lower().removesuffix(".gz").endswith(each)), None)
    if ending is None:
        raise WrongUse(f"{file.name} does not end in {', '.join(_ENDINGS)}, with or without .gz.")
    if ending == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet

        table = pyarrow.parquet.ParquetFile(file).read()
        return table.cast(pa.schema([(name, kinds.arrow_type(name)) for name in table.column_names]))
    with _content(file) as content:
        if ending == ".csv":
            return _csv_table(content, kinds)
        text = content.read().decode()
        rows = json.loads(text) if ending == ".json" else list(map(json.loads, filter(None, text.split("\n"))))
        return _json_table(rows, kinds)


@contextmanager
def _content(file: Path) -> Iterator[IO[bytes]]:
    """Open a file. Browsers and proxies may have decompressed it without a change of its name."""
    with file.open("rb") as stored:
        compressed = stored.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        stored.seek(0)
        if not compressed:
            yield stored
            return
        with gzip.open(stored) as content:
            yield cast("IO[bytes]", content)


def _csv_table(content: IO[bytes], kinds: _Kinds) -> Any:
    import pyarrow.csv

    names = next(csv.reader([content.readline().decode()]), [])
    if not names:
        raise ValueError("it has no header")
    content.seek(0)
    return pyarrow.csv.read_csv(
        content,
        read_options=pyarrow.csv.ReadOptions(block_size=_BLOCK_BYTES),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={name: kinds.arrow_type(name) for name in names},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            true_values=["true"],
            false_values=["false"],
        ),
    )


def _json_table(rows: list[dict[str, Any]], kinds: _Kinds) -> Any:
    import pyarrow as pa

    names = list(rows[0]) if rows else kinds.columns
    return pa.table({name: _json_column([row[name] for row in rows], name, kinds) for name in names})


def _json_column(values: list[Any], name: str, kinds: _Kinds) -> Any:
    import pyarrow as pa

    kind = kinds[name]
    if kind in {BIGINT, BOOLEAN}:
        return pa.array(values, kinds.arrow_type(name))
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pa.array(texts, pa.string()).cast(kinds.arrow_type(name))


def _pandas(table: Any, _kinds: _Kinds) -> Any:
    pandas = _library("pandas", "pandas")
    import pyarrow as pa

    types = {pa.string(): pandas.StringDtype(), pa.int64(): pandas.Int64Dtype(), pa.bool_(): pandas.BooleanDtype()}
    return table.to_pandas(types_mapper=types.get, date_as_object=False)


def _polars(table: Any, _kinds: _Kinds) -> Any:
    return _library("polars", "polars").from_arrow(table)


def _duckdb(table: Any, kinds: _Kinds) -> Any:
    columns = (f'"{name}"::UUID AS "{name}"' if kinds[name] == UUID else f'"{name}"' for name in table.column_names)
    return _library("duckdb", "duckdb").from_arrow(table).project(", ".join(columns))


_ENGINES = {"pandas": _pandas, "polars": _polars, "duckdb": _duckdb}


def _library(name: str, engine: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise WrongUse(f"daybreak_client.read needs {name}. Run `pip install {engine} pyarrow`.") from error


@contextmanager
def _damage_of(file: Path) -> Iterator[None]:
    """Name the file, but none of its values, in errors of its content."""
    try:
        yield
    except (
        OSError, zlib.error, EOFError, ValueError, LookupError, TypeError, OverflowError, RecursionError,
        NotImplementedError,
    ) as fault:  # fmt: skip
        # Errors of the system have a number, those of gzip and Arrow about content have none.
        if isinstance(fault, OSError) and fault.errno is not None:
            raise
        raise Damaged(f"{file.name} cannot be read as a file of Daybreak. Fetch it again.") from None
