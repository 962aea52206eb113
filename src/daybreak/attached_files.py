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
from msgspec.structs import replace

from daybreak.access.services import Services
from daybreak.catalogue.formats import FORMATS, delta_format, format_named
from daybreak.catalogue.resources import RESOURCE_NAMES, resource_named
from daybreak.credentials.s3_keys import AccessKey, session_key
from daybreak.credentials.sigv4 import S3Error
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
    """An object of an account, with its size in bytes. `source` is the content if it is made for each request. Lists
    leave out that of metadata.

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

        Raises S3Error, FileStoreError, Unavailable.
        """
        found, statements = await self._services.state.aread(lambda stores: _read(stores, bucket, prefix))
        for each in statements:
            found += await self._statement_objects(bucket.client_id, each)
        return sorted((each for each in found if each.key.startswith(prefix)), key=lambda each: each.key)

    async def find(self, bucket: Bucket, key: str) -> AttachedObject:
        """Return the object with a key. Raises NotFound, S3Error, FileStoreError, Unavailable."""
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

    async def _statement_objects(self, client_id: str, statement: _Statement) -> list[AttachedObject]:
        pack = statement.pack
        cached = self._statements.get((pack, client_id))
        if cached is None:
            try:
                signed = await self._stored(pack, client_id)
            except FileStoreError:
                # A lost statement must not hide the files. Runs and the daily check report it.
                return []
            if signed is None:
                return []
            signature = signed.signature
            cached = (len(signed.content), signed.sha256), (len(signature), hashlib.sha256(signature).hexdigest())
            self._statements[pack, client_id] = cached
            if len(self._statements) > _CACHED_STATEMENTS:
                del self._statements[next(iter(self._statements))]
        return [
            AttachedObject(
                statement.folder + name,
                *cached[index],
                statement.modified_at,
                StatementObject(pack, is_signature=index == 1),
            )
            for index, name in enumerate((_STATEMENT, _SIGNATURE))
        ]


class _Statement(msgspec.Struct, frozen=True):
    """The pack with the signed statement of a folder, and when the files of the folder became as they are."""

    folder: str
    modified_at: datetime
    pack: str


def _overlaps(path: str, prefix: str) -> bool:
    """Return whether keys that begin with `path` may begin with the prefix."""
    return path.startswith(prefix) or prefix.startswith(path)


def _needs(resource: str, folder: str, prefix: str) -> bool:
    """Return whether keys of a version that begin with the prefix depend on a resource. Those about all files do."""
    return any(_overlaps(f"{folder}{name}", prefix) for name in (f"{resource}.", _MANIFEST, _STATEMENT))


def _read(stores: Stores, bucket: Bucket, prefix: str) -> tuple[list[AttachedObject], list[_Statement]]:
    """Read the objects below a prefix, and no more than they need: most requests are about one object.

    Raises S3Error if a session key pins a version that is not kept. Copying programs delete what a list lacks.
    """
    client_id, pinned = bucket.client_id, bucket.pinned_version
    publications = stores.deltas.publications()
    latest = next((each for each in publications if pinned is None or each.version == pinned), None)
    if pinned and latest is None and _overlaps(_LATEST, prefix):
        raise S3Error("ExpiredToken", f"latest/ was version {pinned} for this token, which is no longer kept.")
    folders = [(_LATEST, latest)] if latest is not None else []
    folders += [(_version_folder(each), each) for each in publications]
    folders = [folder for folder in folders if _overlaps(folder[0], prefix)]
    tables = [name for name in RESOURCE_NAMES if _overlaps(f"tables/{name}/", prefix)]
    needed = publications if tables else [each for _, each in folders]
    resources = tables or [name for name in RESOURCE_NAMES if any(_needs(name, path, prefix) for path, _ in folders)]
    ids = list(dict.fromkeys(each.snapshot_id for each in needed))
    entries = stores.snapshots.manifests(ids, client_id, resources)
    found: list[AttachedObject] = []
    statements: list[_Statement] = []
    for folder, publication in folders:
        files = entries.get(publication.snapshot_id, {})
        found += _version_objects(client_id, folder, publication, files, prefix)
        pack = _pack(stores, client_id, publication) if _overlaps(folder + _STATEMENT, prefix) else None
        if pack is not None:
            statements.append(_Statement(folder, _modified_at(publication, files), pack))
    for publication in publications if tables else ():
        found += _table_objects(publication, entries.get(publication.snapshot_id, {}))
    if _overlaps(_DELTAS, prefix):
        found += _delta_objects(stores.deltas.chain(client_id), prefix)
    if prefix.startswith(ICEBERG_FOLDER):
        for name in (each for each in RESOURCE_NAMES if _overlaps(f"{ICEBERG_FOLDER}{each}/", prefix)):
            found += _iceberg_objects(read_table(stores, client_id, name), prefix)
    return found, statements


def _pack(stores: Stores, client_id: str, publication: Publication) -> str | None:
    """Return the pack with the signed statement of an account about a version."""
    signed = stores.signatures.of_publication(publication.version)
    return None if signed is None else statement_key(stores, signed, client_id)


def _version_folder(publication: Publication) -> str:
    return f"v={publication.version}/"


def _modified_at(publication: Publication, entries: Mapping[str, ManifestEntry]) -> datetime:
    """Return when the files of a version became as they are: its publication, or a later erasure."""
    stored = (each for entry in entries.values() for each in entry.formats.values())
    times = (each.since_in(publication.version, publication.published_at).published_at for each in stored)
    return max([publication.published_at, *times])


def _version_objects(
    client_id: str, folder: str, publication: Publication, entries: Mapping[str, ManifestEntry], prefix: str
) -> Iterator[AttachedObject]:
    for named, stored, rows in _files(entries):
        yield _stored(folder + named.name, named, publication, stored, rows)
    if entries and _overlaps(folder + _MANIFEST, prefix):
        content = _manifest(client_id, publication, entries)
        yield _generated(folder + _MANIFEST, content, _modified_at(publication, entries))


def _table_objects(publication: Publication, entries: Mapping[str, ManifestEntry]) -> Iterator[AttachedObject]:
    parquet = format_named("parquet")
    for name, entry in entries.items():
        folder, named = f"tables/{name}/{_version_folder(publication)}", NamedFile(resource_named(name), parquet)
        stored = entry.formats.get(parquet.name)
        if stored is None:
            continue
        if not stored.parts:
            yield _stored(folder + named.name, named, publication, stored, entry.rows)
        for number, part in enumerate(stored.parts, 1):
            key = f"{folder}{name}-{number:05}{parquet.ending}"
            yield _stored(key, named, publication, stored, entry.rows, part)


def _delta_objects(chain: Chain | None, prefix: str) -> Iterator[AttachedObject]:
    for each in () if chain is None else chain.entries:
        folder = _DELTAS + _version_folder(each.publication)
        for name, delta in each.resources.items() if _overlaps(folder, prefix) else ():
            for full, stored in delta.formats.items():
                named = NamedFile(resource_named(name), delta_format(full), each.publication.version)
                yield _stored(folder + named.name, named, each.publication, stored, delta.lines)


def _iceberg_objects(table: Table, prefix: str) -> Iterator[AttachedObject]:
    named = NamedFile(resource_named(table.name), format_named("parquet"))
    files = {file.name: (version, file) for version in table.versions for file in version.files}
    for name, (version, file) in files.items():
        yield _stored(table.folder + name, named, version.publication, file.stored, file.rows, file.part)
    for name, version, content in table.described(prefix[len(table.folder) :]):
        found = _generated(table.folder + name, content, version.publication.published_at)
        # The metadata of 400 versions takes 45 MB. Lists need its size and digest.
        yield found if found.key == prefix else replace(found, source=b"")


def _generated(key: str, content: bytes, modified_at: datetime) -> AttachedObject:
    return AttachedObject(key, len(content), hashlib.sha256(content).hexdigest(), modified_at, content)


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
