"""Rows and sums of files, recomputed with bounded memory, and compared with the row accounting of a statement."""

import csv
import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from daybreak_client.errors import NotProved
from daybreak_client.proof.files import Fault
from daybreak_client.proof.statement import Completeness, SignedFile, TableAccount

SUMMED_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "campaigns": ("SEGMENT_COUNT", "UNIT_COUNT", "RESPONSE_COUNT"),
    "outbound_message_type_usage": ("MESSAGE_COUNT", "SEGMENT_COUNT", "UNIT_COUNT"),
    "campaign_links": ("HIT_COUNT",),
}
"""Columns that count rows of another table, by resource."""
EXPORTED: Mapping[tuple[str, str], str] = {
    ("campaigns", "inbound_messages"): "RESPONSE_COUNT",
    ("outbound_message_type_usage", "outbound_messages"): "MESSAGE_COUNT",
    ("campaign_links", "link_hits"): "HIT_COUNT",
}
"""The column whose sum is the number of exported rows of a table. Each row of the other tables is a row of the file."""
SUMS_ONLY = frozenset({("campaigns", "outbound_messages")})
"""Tables whose rows no column counts. The sums of columns are compared."""
TABLES: Mapping[str, tuple[str, ...]] = {
    "campaigns": ("campaigns", "outbound_messages", "inbound_messages"),
    "outbound_message_type_usage": ("outbound_messages",),
    "campaign_links": ("campaign_links", "link_hits"),
    "members": ("members",),
    "member_state_changes": ("member_state_changes",),
    "member_term_accepts": ("member_term_accepts",),
    "custom_member_data": ("custom_field_values",),
    "communities": ("communities",),
    "member_communities": ("community_memberships",),
}
"""The source tables of each resource, whose rows a service that says `proved` accounts for."""
PROVED = "proved"
_UNEXPLAINED = "unexplained"
_MAX_MEGABYTES = 64
"""Maximum size of a line of a file, and of a value that has several lines."""
_MAX_BYTES = _MAX_MEGABYTES << 20
_LIMIT_LOCK = Lock()


@dataclass(frozen=True, slots=True)
class Figures:
    """Rows of a file, sums of its columns, and the digest of its uncompressed content.

    `rows` is None for a format that is not read.
    """

    rows: int | None
    sums: Mapping[str, int]
    content_sha256: str


def read_figures(path: Path, file: SignedFile) -> Figures:
    """Read a file whose digest is that of its statement. Raises NotProved for content that is not of its format."""
    if file.format == "parquet":
        return Figures(None, {}, file.sha256)
    columns, digest = SUMMED_COLUMNS.get(file.resource, ()), hashlib.sha256()
    try:
        with gzip.open(path, "rb") as content:
            lines = _lines(content, digest.update)
            with _large_fields():
                rows, sums = _csv_figures(lines, columns) if file.format == "csv" else _json_figures(lines, columns)
    except _INVALID:
        text = f"{file.name} is not a valid file of its format, or has a value of more than {_MAX_MEGABYTES} MiB."
        raise NotProved(text) from None
    return Figures(rows, dict(zip(columns, sums, strict=True)), digest.hexdigest())


def check_figures(file: SignedFile, figures: Figures, completeness: Completeness | None) -> Iterator[Fault]:
    """Yield what differs between the figures of a file and its statement."""
    if figures.content_sha256 != file.content_sha256:
        yield Fault(file.name, "different_content", "its uncompressed content differs from the signed digest.")
    if figures.rows not in {None, file.rows}:
        yield Fault(file.name, "rows", f"it has {figures.rows:,} rows. The statement says {file.rows:,}.")
    for table, account in (completeness.tables.get(file.resource, {}) if completeness else {}).items():
        for name, found, signed in _compared(file.resource, table, account, figures):
            if found != signed:
                text = f"{name} is {found:,}. The statement says {signed:,} for {table}."
                yield Fault(file.name, "incomplete", text)


def check_accounts(completeness: Completeness, resources: Collection[str]) -> Iterator[Fault]:
    """Yield the resources whose rows the statement does not explain."""
    for resource in sorted(set(resources)):
        if completeness.status_of(resource) == PROVED:
            for table in sorted(set(TABLES[resource]) - completeness.tables.get(resource, {}).keys()):
                yield Fault(resource, "incomplete", f"the statement does not account for the rows of {table}.")
        if completeness.status_of(resource) == _UNEXPLAINED:
            yield Fault(resource, "incomplete", "the service could not explain all rows of the source.")
        for table, account in completeness.tables.get(resource, {}).items():
            if account.unexplained:
                text = f"{abs(account.unexplained):,} rows of {table} are not accounted for."
                yield Fault(resource, "incomplete", text)


def _compared(resource: str, table: str, account: TableAccount, figures: Figures) -> Iterator[tuple[str, int, int]]:
    """Yield name, value and signed value of each figure of a file that the account of a table has."""
    column = EXPORTED.get((resource, table))
    if column is not None and column in figures.sums:
        yield f"the sum of {column}", figures.sums[column], account.exported
    elif column is None and (resource, table) not in SUMS_ONLY and figures.rows is not None:
        yield "the number of rows", figures.rows, account.exported
    for name, signed in account.sums.items():
        if name in figures.sums:
            yield f"the sum of {name}", figures.sums[name], signed


# What content of any kind makes the modules csv, json and gzip raise, and the conversion of infinity to an integer.
_INVALID = (
    ValueError, LookupError, TypeError, OverflowError, RecursionError,
    csv.Error, EOFError, gzip.BadGzipFile, zlib.error,
)  # fmt: skip


def _lines(content: gzip.GzipFile, update: Callable[[bytes], object]) -> Iterator[str]:
    """Yield the lines of a file, and update a digest with each. Raises ValueError for a huge line."""
    while line := content.readline(_MAX_BYTES):
        if len(line) == _MAX_BYTES:
            raise ValueError
        update(line)
        yield line.decode()


@contextmanager
def _large_fields() -> Iterator[None]:
    """Let the module csv read fields of any published file. Its limit applies to the whole process."""
    with _LIMIT_LOCK:
        before = csv.field_size_limit(_MAX_BYTES)
        try:
            yield
        finally:
            csv.field_size_limit(before)


def _csv_figures(lines: Iterator[str], columns: Sequence[str]) -> tuple[int, list[int]]:
    reader = csv.reader(lines, strict=True)
    header = next(reader, [])
    if not header:
        raise ValueError
    places = [header.index(column) for column in columns]
    rows, sums = 0, [0] * len(columns)
    for row in reader:
        rows += 1
        if len(row) != len(header):
            raise ValueError
        for number, place in enumerate(places):
            sums[number] += int(row[place] or 0)
    return rows, sums


def _json_figures(lines: Iterator[str], columns: Sequence[str]) -> tuple[int, list[int]]:
    """Read an array with one object per line, or one object per line alone."""
    rows, sums = 0, [0] * len(columns)
    for line in lines:
        text = line.strip().removeprefix("[").removesuffix(",")
        if text.endswith("}]"):
            text = text[:-1]
        if text in {"", "]"}:
            continue
        row: Any = json.loads(text)
        rows += 1
        for number, column in enumerate(columns):
            sums[number] += int(row[column] or 0)
    return rows, sums
