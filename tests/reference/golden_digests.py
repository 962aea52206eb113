"""Digests of all files of a fixed platform, for comparison with those recorded in `golden_digests.json`.

`python -m tests.reference.golden_digests` records them again. Do that only for a release that intentionally changes
the bytes, and note it in the changelog: consumers compare digests between days.
"""

import hashlib
import json
import tempfile
import zlib
from contextlib import closing
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb
from isal import isal_zlib

from daybreak.catalogue.resources import RESOURCES
from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import make_platform
from daybreak.export.job import ExportResults
from tests.parts.export_rows import MemorySink, export_job, naughty_strings
from tests.parts.sources import duckdb_source

RECORDED = Path(__file__).with_suffix(".json")
AS_OF = datetime(2026, 11, 20, 4, tzinfo=UTC)
FORMATS = ("csv", "json", "ndjson", "parquet")
EMPTY_LEADER = "e0000000-0000-4000-8000-000000000000"
HOSTILE_LEADER = "f0000000-0000-4000-8000-000000000000"
HOSTILE_MEMBER = "f1111111-0000-4000-8000-000000000000"


def make_golden_platform(folder: Path) -> Path:
    """Write a seeded demo platform as one DuckDB file. One more Leader has no rows, another has hostile texts."""
    make_platform(
        folder / "parquet", PlatformSizes(leaders=6, members=12_000, messages=20_000), seed=17, as_of=AS_OF, threads=1
    )
    path = folder / "platform.duckdb"
    with closing(duckdb.connect(str(path))) as connection:
        for table in sorted((folder / "parquet").glob("*.parquet")):
            connection.execute(f"CREATE TABLE {table.stem} AS SELECT * FROM '{table}'")
        for leader in (EMPTY_LEADER, HOSTILE_LEADER):
            connection.execute("INSERT INTO leaders VALUES (?, ?, NULL, NULL)", [leader, f"Leader {leader[0]}"])
        connection.execute(
            "INSERT INTO members (member_id, leader_id, phone_number, subscription_state) VALUES (?, ?, '+1', 'live')",
            [HOSTILE_MEMBER, HOSTILE_LEADER],
        )
        connection.execute(
            "INSERT INTO custom_field_values SELECT $1, $2, format('field {:04}', number), text "
            "FROM (SELECT unnest($3) AS text, unnest(range(len($3))) AS number)",
            [HOSTILE_MEMBER, HOSTILE_LEADER, naughty_strings()],
        )
    return path


def golden_digests(platform: Path, temp_dir: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Export all nine resources and return their digests by resource and Leader ("" is the header-only file).

    Each has the rows, the fingerprint, and per format the SHA-256 of the stored file and of its content.
    """
    source = duckdb_source(platform, temp_dir)
    found: dict[str, dict[str, dict[str, Any]]] = {}
    with source.open(AS_OF) as reading:
        for resource in RESOURCES:
            results = ExportResults()
            reading.export(export_job(resource.name, FORMATS), MemorySink(), results)
            found[resource.name] = {
                entry.client_id: {
                    "rows": entry.rows,
                    "fingerprint": entry.fingerprint,
                    **{name: [file.sha256, file.content_sha256] for name, file in entry.formats.items()},
                }
                for entry in sorted(results.entries, key=lambda entry: entry.client_id)
            }
    return found


def compressor_digest() -> str:
    """Return the digest of ISA-L's output for a fixed input. The output depends on the processor's instruction set."""
    source = b"".join(b'%d,"Leader %d",2026-11-20\n' % (number * 7919 % 1_000_003, number) for number in range(20_000))
    compressor = isal_zlib.compressobj(2, zlib.DEFLATED, -15, 8)
    return hashlib.sha256(compressor.compress(source) + compressor.flush()).hexdigest()


def record() -> None:
    """Write the digests of this version to `golden_digests.json`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        resources = golden_digests(make_golden_platform(folder), folder / "spill")
    recorded = {
        "duckdb": duckdb.__version__,
        "arro3": version("arro3-io"),
        "compressor": compressor_digest(),
        "resources": resources,
    }
    RECORDED.write_text(json.dumps(recorded, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    record()
