"""Sources in DuckDB with the shipped models."""

from pathlib import Path

from daybreak.catalogue.models import load_models
from daybreak.sources.duckdb import DuckdbSource


def duckdb_source(location: Path, spill: Path, *, threads: int = 2) -> DuckdbSource:
    """Return the source at a location, whose engine spills to the folder `spill`."""
    return DuckdbSource(location, load_models(), memory_bytes=300_000_000, threads=threads, temp_dir=spill)
