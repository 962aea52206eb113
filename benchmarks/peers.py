"""Export of the Members of every Leader as gzip CSV and JSON by other tools, with settings that suit each."""

import csv
import gzip
import json
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.source import members_model, open_members, with_text_ids

_LEVEL = 6
"""Default level of gzip and zlib. The default of Python's gzip module is 9."""


def duckdb(source: Path, out: Path, *, threads: int) -> None:
    """Write with one COPY per format. With fewer open files than Leaders, DuckDB would close and reopen them."""
    with open_members(source, threads=threads, preserve_insertion_order=False) as connection:
        connection.execute("SET partitioned_write_max_open_files = 100000")
        for kind, options in (("csv", "FORMAT csv, HEADER"), ("json", "FORMAT json")):
            connection.execute(
                f"COPY ({members_model()}) TO '{out / kind}' "
                f'({options}, COMPRESSION gzip, PARTITION_BY ("LEADER_ID"), WRITE_PARTITION_COLUMNS, '
                f"FILE_EXTENSION '{kind}.gz')"
            )


def polars(source: Path, out: Path, *, level: int) -> None:
    """Write with two partitioned sinks of the streaming engine in one query, so that rows are read once."""
    import polars as pl

    from daybreak.catalogue.resources import resource_named

    deleted = pl.col("subscription_state") == "deleted"
    personal = {"phone_number", "first_name", "last_name", "email", "date_of_birth", "gender", "city", "state",
                "state_code", "country", "country_code", "device_type"}  # fmt: skip
    rows = pl.scan_parquet(with_text_ids(source) / "members.parquet").select(
        (pl.when(deleted).then(None).otherwise(pl.col(name.lower())) if name.lower() in personal
         else pl.col(name.lower())).alias(name)
        for name in resource_named("members").column_names
    )  # fmt: skip
    sinks = []
    for kind in ("csv", "json"):

        def file_path(arguments: Any, kind: str = kind) -> Path:
            # With many open partitions Polars closes a file and starts another one for the same Leader.
            return out / kind / f"{arguments.partition_keys.item(0, 0)}-{arguments.index_in_partition}.{kind}.gz"

        (out / kind).mkdir()
        target = pl.PartitionBy(
            out / kind, key="LEADER_ID", include_key=True, file_path_provider=file_path,
            approximate_bytes_per_file=None,
        )  # fmt: skip
        options: dict[str, Any] = {"compression": "gzip", "compression_level": level, "check_extension": False,
                                   "maintain_order": False, "engine": "streaming", "lazy": True}  # fmt: skip
        sinks.append(rows.sink_csv(target, **options) if kind == "csv" else rows.sink_ndjson(target, **options))
    pl.collect_all([sink for sink in sinks if sink is not None], engine="streaming")


def python(source: Path, out: Path) -> None:
    """Write with the standard library on one core. DuckDB sorts the rows."""
    (out / "csv").mkdir()
    (out / "json").mkdir()
    with open_members(source, threads=1) as connection:
        connection.execute(f'SELECT * FROM ({members_model()}) ORDER BY "LEADER_ID", "MEMBER_ID"')
        names = [column[0] for column in connection.description]
        leader_index = names.index("LEADER_ID")

        def rows() -> Iterable[tuple[Any, ...]]:
            while batch := connection.fetchmany(10_000):
                yield from batch

        for leader, leader_rows in groupby(rows(), key=lambda row: row[leader_index]):
            with (
                gzip.open(out / "csv" / f"{leader}.csv.gz", "wt", _LEVEL, "utf-8", newline="") as text,
                gzip.open(out / "json" / f"{leader}.json.gz", "wt", _LEVEL, "utf-8") as records,
            ):
                writer = csv.writer(text)
                writer.writerow(names)
                for row in leader_rows:
                    writer.writerow(row)
                    records.write(json.dumps(dict(zip(names, row, strict=True)), default=str) + "\n")
