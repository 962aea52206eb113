"""Search for a Member in stored files, and copies of these files without it."""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Literal, Self

from daybreak.catalogue.resources import RESOURCES, Resource, resource_named
from daybreak.catalogue.stored_columns import resource_with_header
from daybreak.domain.delta import ResourceDelta
from daybreak.domain.errors import FileStoreError
from daybreak.domain.identity import is_id
from daybreak.domain.snapshot import ManifestEntry, StoredFormat
from daybreak.export.gzip_member import CODECS, Codec, GzipMember, decompressed
from daybreak.export.line_sql import csv_header
from daybreak.export.member_parquet import MemberParquet
from daybreak.export.member_records import MEMBER_COLUMN, MemberRecords, with_fewer_members
from daybreak.export.parquet_writer import PARQUET
from daybreak.filestore.file_store import FileRevision, FileStore, checked_pieces
from daybreak.sources.reading import DirectorySource

MEMBER_RESOURCES = tuple(each for each in RESOURCES if MEMBER_COLUMN in each.column_names)
"""Resources with rows of single Members. The others have totals."""
_SEARCH_THREADS = 16
_ENTRIES_PER_ROUND = 1_000
_MAXIMUM_HEADER_BYTES = 1 << 16

_DELETED = "deleted"
_OTHER_TABLES = ("member_state_changes", "member_term_accepts", "custom_field_values", "community_memberships")


class MemberFiles:
    """Stored files of one Member: searches them in several threads, and writes copies in one."""

    def __init__(self, store: FileStore, member_id: str, parquet: MemberParquet, codec: Codec) -> None:
        self._store = store
        self._member_id = member_id
        self._parquet = parquet
        self._parquet_lock = threading.Lock()
        self._codec = codec
        # Files without the Member, by digest: snapshots share most files.
        self._without: set[bytes] = set()

    @classmethod
    @contextmanager
    def open(cls, store: FileStore, member_id: str, *, spill_folder: Path, codec: str) -> Iterator[Self]:
        """Open an engine for Parquet files, which uses `spill_folder`. Raises OperatorError."""
        with MemberParquet.open(spill_folder, member_id) as parquet:
            yield cls(store, member_id, parquet, CODECS[codec])

    def search(self, entries: Iterable[ManifestEntry]) -> Iterator[tuple[ManifestEntry, FileStoreError | None]]:
        """Yield the entries of `MEMBER_RESOURCES` whose files have rows of the Member, and with an error those whose
        files cannot be read. Raises Unavailable.
        """
        remaining = (entry for entry in entries if entry.rows)
        with ThreadPoolExecutor(_SEARCH_THREADS, "search") as pool:
            while some := list(islice(remaining, _ENTRIES_PER_ROUND)):
                for entry, found in zip(some, pool.map(self._occurs_in, some), strict=True):
                    if isinstance(found, FileStoreError):
                        yield entry, found
                    elif found:
                        yield entry, None

    def rows_in_delta(self, delta: ResourceDelta) -> int:
        """Return the number of rows of a delta that name the Member. Raises as `FileStore.read`."""
        stored = next(iter(delta.formats.values()), None)
        if stored is None or not delta.has_rows:
            return 0
        return _occurrences(self._content(stored), f'"{self._member_id}"'.encode())

    def without_member(self, entry: ManifestEntry, revision: FileRevision) -> tuple[ManifestEntry, Counter[str]]:
        """Copy the files of an entry without the Member's rows. Return the new entry, and the number of removed rows
        by COMMUNITY_ID, for the resource that has it.
        """
        resource = resource_named(entry.resource)
        formats: dict[str, StoredFormat] = {}
        counts: set[int] = set()
        communities = Counter[str]()
        for name, stored in entry.formats.items():
            if name == PARQUET:
                copy = self._parquet.without(resource, self._stored(stored))
                formats[name] = self._write_parquet(entry, stored, copy, revision)
                removed, communities = self._parquet.removed, self._parquet.communities
            else:
                stored_resource, content = self._text(resource, name, stored)
                records = MemberRecords(stored_resource, name, self._member_id)
                formats[name] = self._write_text(entry, name, records.without(content), revision)
                removed, communities = records.removed, records.communities
            counts.add(removed)
        if len(counts) != 1:
            raise FileStoreError(f"The formats of {entry.resource} of {entry.client_id} have different rows.")
        return _replaced(entry, entry.rows - counts.pop(), formats, revision), communities

    def with_fewer_members(
        self, entry: ManifestEntry, revision: FileRevision, removed: Mapping[str, int]
    ) -> ManifestEntry:
        """Copy the files of `communities` with lower numbers of members. Return the new entry."""
        resource = resource_named(entry.resource)
        formats: dict[str, StoredFormat] = {}
        for name, stored in entry.formats.items():
            if name == PARQUET:
                copy = self._parquet.with_fewer_members(self._stored(stored), removed)
                formats[name] = self._write_parquet(entry, stored, copy, revision)
            else:
                stored_resource, content = self._text(resource, name, stored)
                fewer = with_fewer_members(stored_resource, name, content, removed)
                formats[name] = self._write_text(entry, name, fewer, revision)
        return _replaced(entry, entry.rows, formats, revision)

    def _occurs_in(self, entry: ManifestEntry) -> bool | FileStoreError:
        """Return whether the files have rows of the Member, or the error if none of them can be read."""
        fault: FileStoreError | None = None
        # All formats have the same rows. Parquet takes the most work to search.
        for name, stored in sorted(entry.formats.items(), key=lambda each: each[0] == PARQUET):
            digest = bytes.fromhex(stored.sha256)
            if digest in self._without:
                return False
            try:
                found = self._occurs_in_file(entry.resource, name, stored)
            except FileStoreError as error:
                fault = fault or error
                continue
            if not found:
                self._without.add(digest)
            return found
        return fault or False

    def _occurs_in_file(self, resource: str, format: str, stored: StoredFormat) -> bool:
        if format == PARQUET:
            with self._parquet_lock:
                return self._parquet.occurs_in(self._stored(stored))
        stored_resource, content = self._text(resource_named(resource), format, stored)
        return MemberRecords(stored_resource, format, self._member_id).occur_in(content)

    def _text(self, resource: Resource, format: str, stored: StoredFormat) -> tuple[Resource, Iterator[bytes]]:
        """Return a resource with the columns of a stored text file, and the content."""
        content = self._content(stored)
        if format != "csv":
            return resource, content
        begin = b""
        while b"\n" not in begin and len(begin) < _MAXIMUM_HEADER_BYTES and (piece := next(content, b"")):
            begin += piece
        if not begin.startswith(csv_header(resource)):
            resource = resource_with_header(resource, begin.partition(b"\n")[0])
            if "LEADER_ID" not in resource.column_names:
                raise FileStoreError("The beginning of the file is not that of its format.")
        return resource, chain((begin,), content)

    def _content(self, stored: StoredFormat) -> Iterator[bytes]:
        return decompressed(self._stored(stored))

    def _stored(self, stored: StoredFormat) -> Iterator[bytes]:
        """Yield the bytes of a stored file. Raises FileDamaged at its end: a copy would hide the damage."""
        return checked_pieces(stored.key, self._store.read(stored.key), stored.bytes, stored.sha256)

    def _write_text(
        self, entry: ManifestEntry, format: str, content: Iterable[bytes], revision: FileRevision
    ) -> StoredFormat:
        member = GzipMember(self._codec)
        written = revision.write(entry.client_id, entry.resource, format, member.compressed(content))
        return member.totals.stored(written)

    def _write_parquet(
        self, entry: ManifestEntry, old: StoredFormat, copy: Iterable[bytes], revision: FileRevision
    ) -> StoredFormat:
        written = revision.write(entry.client_id, entry.resource, PARQUET, copy)
        # Files of earlier versions have no statistics.
        statistics = None if old.statistics is None else self._parquet.statistics
        size, digest = written.bytes, written.sha256
        return StoredFormat(size, digest, size, digest, written.key, statistics, parts=self._parquet.parts)


def _occurrences(pieces: Iterable[bytes], text: bytes) -> int:
    """Count a text in content that arrives in pieces."""
    count, end = 0, b""
    for piece in pieces:
        content = end + piece
        count += content.count(text)
        end = content[1 - len(text) :]
    return count


def _replaced(
    entry: ManifestEntry, rows: int, formats: Mapping[str, StoredFormat], revision: FileRevision
) -> ManifestEntry:
    # No run computes this fingerprint, so the next one writes the Leader's files again.
    return ManifestEntry(entry.client_id, entry.resource, rows, f"replaced {revision.name}", formats)


@dataclass(frozen=True, slots=True)
class MemberInSource:
    """What the platform has of a Member. `tables` are those with rows that the next run exports."""

    state: Literal["absent", "deleted", "present"]
    tables: tuple[str, ...] = ()


def member_in_source(source: DirectorySource, member_id: str) -> MemberInSource:
    """Return whether the tables of the platform have a Member, and whether `members` marks it as deleted: then runs
    export its rows without personal data. `member_id` is a UUID in lower case. Raises SourceError.
    """
    if not is_id(member_id):
        raise ValueError("a MEMBER_ID is a UUID in lower case")
    # The identifier may be a UUID or a text, also without dashes. `||` converts both in every engine, and removes the
    # padding of char(n), which `concat` keeps.
    digits = "replace(replace(replace(lower(member_id || ''), '-', ''), '{', ''), '}', '')"
    condition = f"WHERE {digits} = '{member_id.replace('-', '')}'"
    state = "subscription_state || '' AS state"
    selects = [f"SELECT DISTINCT 'members' AS found_in, {state} FROM members {condition}"]  # noqa: S608 - a UUID
    selects += (
        f"SELECT DISTINCT '{table}', '' FROM {table} {condition}"  # noqa: S608 - a UUID
        for table in _OTHER_TABLES
    )
    rows = source.query(" UNION ALL ".join(selects))
    found = {row["found_in"] for row in rows}
    if {row["state"] for row in rows if row["found_in"] == "members"} == {_DELETED}:
        return MemberInSource("deleted")
    tables = tuple(table for table in ("members", *_OTHER_TABLES) if table in found)
    return MemberInSource("present" if tables else "absent", tables)
