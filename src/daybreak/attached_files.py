"""An account's files under the keys of the S3 endpoint, and keys for it that expire.

- `latest/{file}` and `v={n}/{file}`: each file of the current and of each kept version, `manifest.json`, and the signed
  `statement.json`.
- `tables/{table}/v={n}/{table}.parquet`: the same Parquet files, in folders as Hive partitions. A large file is instead
  listed as its parts, `{table}-00001.parquet` and so on.
- `deltas/v={n}/{file}`: the deltas of the account's chain.
- `iceberg/{table}/data/` and `iceberg/{table}/metadata/`: tables in the Iceberg format. Only prefixes that begin with
  `iceberg/` list them, so that copies of a whole bucket leave them out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import msgspec

from daybreak.access.services import Services
from daybreak.catalogue.formats import FORMATS, delta_format, format_named
from daybreak.catalogue.resources import RESOURCE_NAMES, resource_named
from daybreak.credentials.s3_keys import AccessKey, session_key
from daybreak.domain.delta import Chain, Publication
from daybreak.domain.errors import FileStoreError, NotFound
from daybreak.domain.identity import Principal
from daybreak.domain.snapshot import CurrentFile, ManifestEntry, StoredFormat, StoredPart
from daybreak.downloads import NamedFile
from daybreak.iceberg.metadata import ICEBERG_FOLDER, Table, read_table
from daybreak.proof.statement_pack import SignedStatement
from daybreak.snapshots.signed_statements import read_stored, statement_key
from daybreak.state.stores import Stores

SESSION_LIFETIME = timedelta(hours=1)
REGION = "us-east-1"
"""Region of all buckets. Clients may sign for any."""
_LATEST, _DELTAS = "latest/", "deltas/"
_MANIFEST, _STATEMENT, _SIGNATURE = "manifest.json", "statement.json", "statement.json.sig"
_CACHED_STATEMENTS = 10_000


class StoredObject(msgspec.Struct, frozen=True):
    """A stored file."""

    named: NamedFile
    file: CurrentFile


class StatementObject(msgspec.Struct, frozen=True):
    """A signed statement, or its signature, in a pack with that key."""

    pack: str
    is_signature: bool


class AttachedObject(msgspec.Struct, frozen=True):
    """An object of an account, with its size in bytes. `source` is the content if it is made for each request.

    `modified_at` is the publication in which the bytes first appeared.
    """

    key: str
    size: int
    sha256: str
    modified_at: datetime
    source: StoredObject | StatementObject | bytes


@dataclass(frozen=True, slots=True)
class Bucket:
    """The objects of an account. `pinned_version` replaces the current version below `latest/`, 0 for none."""

    client_id: str
    pinned_version: int | None = None


async def issue_session_key(
    services: Services, principal: Principal, lifetime: timedelta = SESSION_LIFETIME
) -> AccessKey:
    """Return a key for the S3 endpoint that pins `latest/` to the current version until it expires.

    It ends with the API token of the principal. The caller counts and records the request.
    """
    assert principal.token is not None  # other credentials have no access keys
    publications = await services.state.aread(lambda stores: stores.deltas.publications())
    expires_at = services.clock() + lifetime
    if principal.token.expires_at is not None:
        expires_at = min(expires_at, principal.token.expires_at)
    return session_key(
        principal.token.token_id,
        version=publications[0].version if publications else 0,
        expires_at=expires_at.replace(microsecond=0),
        keyring=services.keyring.current(),
    )


class AttachedFiles:
    """The objects of all accounts. One per worker."""

    def __init__(self, services: Services) -> None:
        self._services = services
        # Size and digest of statements and signatures, by pack and account. A stored pack never changes.
        self._statements: dict[tuple[str, str], tuple[tuple[int, str], tuple[int, str]]] = {}

    async def list_objects(self, bucket: Bucket, prefix: str) -> list[AttachedObject]:
        """Return the objects whose keys begin with a prefix, sorted by key.

        Raises FileStoreError, Unavailable.
        """
        view = await self._services.state.aread(lambda stores: _read(stores, bucket, prefix))
        found = [*_version_objects(view), *_table_objects(view), *_delta_objects(view), *_iceberg_objects(view)]
        for folder, publication, pack in view.statements:
            found += await self._statement_objects(view, folder, publication, pack)
        return sorted((each for each in found if each.key.startswith(prefix)), key=lambda each: each.key)

    async def find(self, bucket: Bucket, key: str) -> AttachedObject:
        """Return the object with a key. Raises NotFound, FileStoreError, Unavailable."""
        found = await self.list_objects(bucket, key)
        if not found or found[0].key != key:
            raise NotFound("The specified key does not exist.")
        return found[0]

    async def statement(self, bucket: Bucket, source: StatementObject) -> bytes:
        """Return the bytes of a statement or signature. Raises NotFound, FileStoreError, Unavailable."""
        found = await self._stored(source.pack, bucket.client_id)
        if found is None:
            raise NotFound("The specified key does not exist.")
        return found.signature if source.is_signature else found.content

    async def _stored(self, pack: str, client_id: str) -> SignedStatement | None:
        return await self._services.threads.run(client_id, partial(read_stored, self._services.files, pack, client_id))

    async def _statement_objects(
        self, view: _View, folder: str, publication: Publication, pack: str
    ) -> list[AttachedObject]:
        cached = self._statements.get((pack, view.bucket.client_id))
        if cached is None:
            try:
                signed = await self._stored(pack, view.bucket.client_id)
            except FileStoreError:
                # A lost statement must not hide the files. Runs and the daily check report it.
                return []
            if signed is None:
                return []
            signature = signed.signature
            cached = (len(signed.content), signed.sha256), (len(signature), hashlib.sha256(signature).hexdigest())
            self._statements[pack, view.bucket.client_id] = cached
            if len(self._statements) > _CACHED_STATEMENTS:
                del self._statements[next(iter(self._statements))]
        at = view.modified_at(publication)
        return [
            AttachedObject(folder + name, *cached[index], at, StatementObject(pack, is_signature=index == 1))
            for index, name in enumerate((_STATEMENT, _SIGNATURE))
        ]


@dataclass(frozen=True, slots=True)
class _View:
    """What the database contains about the objects below a prefix.

    `folders` are the folders of whole versions, `entries` the files of publications by snapshot and resource,
    `tables` those in the Iceberg format, and `statements` the packs of statements with their folders.
    """

    bucket: Bucket
    prefix: str
    publications: tuple[Publication, ...]
    folders: tuple[tuple[str, Publication], ...]
    entries: Mapping[str, Mapping[str, ManifestEntry]]
    chain: Chain | None
    tables: tuple[Table, ...]
    statements: tuple[tuple[str, Publication, str], ...] = ()

    def modified_at(self, publication: Publication) -> datetime:
        """Return when the files of a version became as they are: its publication, or a later erasure."""
        entries = self.entries.get(publication.snapshot_id, {}).values()
        stored = (each for entry in entries for each in entry.formats.values())
        times = (each.since_in(publication.version, publication.published_at).published_at for each in stored)
        return max([publication.published_at, *times])


def _overlaps(path: str, prefix: str) -> bool:
    """Return whether keys that begin with `path` may begin with the prefix."""
    return path.startswith(prefix) or prefix.startswith(path)


def _needs(resource: str, folder: str, prefix: str) -> bool:
    """Return whether keys of a version that begin with the prefix depend on a resource. Those about all files do."""
    return any(_overlaps(f"{folder}{name}", prefix) for name in (f"{resource}.", _MANIFEST, _STATEMENT))


def _read(stores: Stores, bucket: Bucket, prefix: str) -> _View:
    """Read what the objects below a prefix need, and no more: most requests are about one object."""
    publications = tuple(stores.deltas.publications())
    pinned = bucket.pinned_version
    latest = next((each for each in publications if pinned is None or each.version == pinned), None)
    folders = [(_LATEST, latest)] if latest is not None else []
    folders += [(_version_folder(each), each) for each in publications]
    folders = [folder for folder in folders if _overlaps(folder[0], prefix)]
    tables = [name for name in RESOURCE_NAMES if _overlaps(f"tables/{name}/", prefix)]
    needed = publications if tables else tuple(each for _, each in folders)
    resources = tables or [name for name in RESOURCE_NAMES if any(_needs(name, path, prefix) for path, _ in folders)]
    ids = list(dict.fromkeys(each.snapshot_id for each in needed))
    entries = stores.snapshots.manifests(ids, bucket.client_id, resources)
    return _View(
        bucket,
        prefix,
        publications,
        tuple(folder for folder in folders if folder[1].snapshot_id in entries),
        entries,
        stores.deltas.chain(bucket.client_id) if _overlaps(_DELTAS, prefix) else None,
        tuple(_tables(stores, bucket.client_id, prefix)),
        tuple(_packs(stores, bucket.client_id, prefix, folders)),
    )


def _tables(stores: Stores, client_id: str, prefix: str) -> Iterator[Table]:
    if prefix.startswith(ICEBERG_FOLDER):
        for name in RESOURCE_NAMES:
            if _overlaps(f"{ICEBERG_FOLDER}{name}/", prefix):
                yield read_table(stores, client_id, name)


def _packs(
    stores: Stores, client_id: str, prefix: str, folders: list[tuple[str, Publication]]
) -> Iterator[tuple[str, Publication, str]]:
    keys: dict[int, str | None] = {}
    for folder, publication in folders:
        version = publication.version
        if version not in keys and _overlaps(folder + _STATEMENT, prefix):
            signed = stores.signatures.of_publication(version)
            keys[version] = None if signed is None else statement_key(stores, signed, client_id)
        key = keys.get(version)
        if key is not None:
            yield folder, publication, key


def _version_folder(publication: Publication) -> str:
    return f"v={publication.version}/"


def _version_objects(view: _View) -> Iterator[AttachedObject]:
    for folder, publication in view.folders:
        entries = view.entries[publication.snapshot_id]
        for named, stored, rows in _files(entries):
            yield _stored(folder + named.name, named, publication, stored, rows)
        if _overlaps(folder + _MANIFEST, view.prefix):
            content = _manifest(view.bucket.client_id, publication, entries)
            digest = hashlib.sha256(content).hexdigest()
            yield AttachedObject(folder + _MANIFEST, len(content), digest, view.modified_at(publication), content)


def _table_objects(view: _View) -> Iterator[AttachedObject]:
    parquet = format_named("parquet")
    for publication in view.publications:
        for name, entry in view.entries.get(publication.snapshot_id, {}).items():
            folder = f"tables/{name}/{_version_folder(publication)}"
            stored = entry.formats.get(parquet.name)
            if stored is not None and _overlaps(folder, view.prefix):
                named = NamedFile(resource_named(name), parquet)
                if not stored.parts:
                    yield _stored(folder + named.name, named, publication, stored, entry.rows)
                for number, part in enumerate(stored.parts, 1):
                    key = f"{folder}{name}-{number:05}{parquet.ending}"
                    yield _stored(key, named, publication, stored, entry.rows, part)


def _delta_objects(view: _View) -> Iterator[AttachedObject]:
    for each in view.chain.entries if view.chain is not None else ():
        folder = _DELTAS + _version_folder(each.publication)
        for name, delta in each.resources.items() if _overlaps(folder, view.prefix) else ():
            for full, stored in delta.formats.items():
                named = NamedFile(resource_named(name), delta_format(full), each.publication.version)
                yield _stored(folder + named.name, named, each.publication, stored, delta.lines)


def _iceberg_objects(view: _View) -> Iterator[AttachedObject]:
    for table in view.tables:
        named = NamedFile(resource_named(table.name), format_named("parquet"))
        files = {file.name: (version, file) for version in table.versions for file in version.files}
        for name, (version, file) in files.items():
            yield _stored(table.folder + name, named, version.publication, file.stored, file.rows, file.part)
        for name, (version, content) in table.described(view.prefix.removeprefix(table.folder)).items():
            digest = hashlib.sha256(content).hexdigest()
            yield AttachedObject(table.folder + name, len(content), digest, version.publication.published_at, content)


def _stored(
    key: str,
    named: NamedFile,
    publication: Publication,
    stored: StoredFormat,
    rows: int,
    part: StoredPart | None = None,
) -> AttachedObject:
    since = stored.since_in(publication.version, publication.published_at)
    file = CurrentFile(
        publication.snapshot_id,
        publication.as_of,
        publication.published_at,
        publication.version,
        named.resource.name,
        named.format.name,
        rows,
        stored,
    )
    file = file if part is None else file.with_part(part)
    return AttachedObject(key, file.content.bytes, file.content.sha256, since.published_at, StoredObject(named, file))


def _manifest(client_id: str, publication: Publication, entries: Mapping[str, ManifestEntry]) -> bytes:
    """Return `manifest.json`: the files of one version. It does not change while the files do not."""
    files = [
        {
            "name": named.name,
            "resource": named.resource.name,
            "format": named.format.name,
            "rows": rows,
            "bytes": stored.bytes,
            "sha256": stored.sha256,
            "content_bytes": stored.content_bytes,
            "content_sha256": stored.content_sha256,
        }
        for named, stored, rows in _files(entries)
    ]
    version = {name: getattr(publication, name) for name in ("snapshot_id", "version", "as_of", "published_at")}
    return msgspec.json.encode({"client_id": client_id, **version, "files": files})


def _files(entries: Mapping[str, ManifestEntry]) -> Iterator[tuple[NamedFile, StoredFormat, int]]:
    """Yield the files of a version, with their numbers of rows."""
    for entry in entries.values():
        for file_format in FORMATS:
            stored = entry.formats.get(file_format.name)
            if stored is not None:
                yield NamedFile(resource_named(entry.resource), file_format), stored, entry.rows
