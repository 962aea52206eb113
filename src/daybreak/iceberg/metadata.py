"""Table metadata: the kept versions of a table as snapshots, and the files that describe them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec

from daybreak.access.services import Services
from daybreak.catalogue.columns import Column
from daybreak.catalogue.resources import require_table
from daybreak.catalogue.stored_columns import resource_at
from daybreak.domain.delta import Publication
from daybreak.domain.snapshot import TableFiles, milliseconds
from daybreak.downloads import not_ready
from daybreak.iceberg.manifests import DataFile, manifest, manifest_list, manifest_list_name, schema_of
from daybreak.state.stores import Stores

ICEBERG_FOLDER = "iceberg/"
_NAME_MAPPING = "schema.name-mapping.default"
# Below the ids of partition fields, which the specification starts at 1000.
_LAST_PARTITION_ID = 999


@dataclass(frozen=True, slots=True)
class KeptVersion:
    """One publication of a table. A version without rows has no files."""

    publication: Publication
    columns: tuple[Column, ...]
    files: tuple[DataFile, ...]

    @property
    def version(self) -> int:
        return self.publication.version

    @property
    def metadata_name(self) -> str:
        """The name of its metadata below the location of the table, in the form of Iceberg's own writers.

        Engines cache metadata by name, so that it changes with the files, which an erasure replaces.
        """
        return f"metadata/{self.version:05}-{uuid5(NAMESPACE_URL, self.manifest_list_name)}.metadata.json"

    @property
    def manifest_list_name(self) -> str:
        """The name of its manifest list below the location of the table."""
        return manifest_list_name(self.version, self.files)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of an account with its kept versions, oldest first."""

    client_id: str
    name: str
    versions: tuple[KeptVersion, ...]

    @property
    def folder(self) -> str:
        """Where its files are in the bucket of the account."""
        return f"{ICEBERG_FOLDER}{self.name}/"

    @property
    def location(self) -> str:
        """The URL of the folder."""
        return f"s3://{self.client_id}/{self.folder}".rstrip("/")

    def described(self, prefix: str) -> Iterator[tuple[str, KeptVersion, bytes]]:
        """Yield the names and contents of the metadata files whose names begin with a prefix, and the first version
        that has each.
        """
        numbers = [number for number, each in enumerate(self.versions, 1) if each.metadata_name.startswith(prefix)]
        for number, content in zip(numbers, _metadata(self, numbers), strict=False):
            yield self.versions[number - 1].metadata_name, self.versions[number - 1], msgspec.json.encode(content)
        shared: set[str] = set()
        for each in self.versions:
            name = each.manifest_list_name
            if name.startswith(prefix):
                yield name, each, manifest_list(self.location, each.version, each.files)
            for file in each.files:
                if file.manifest_name.startswith(prefix) and file.manifest_name not in shared:
                    shared.add(file.manifest_name)
                    yield file.manifest_name, each, manifest(self.location, file)


def table_id(client_id: str, name: str) -> str:
    """Return the permanent id of a table, a UUID."""
    return str(uuid5(UUID(client_id), name))


def metadata(table: Table) -> dict[str, Any]:
    """Return the metadata of a table."""
    return next(_metadata(table, [len(table.versions)]))


def _metadata(table: Table, counts: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Yield the metadata of a table as of its first versions, for each of these numbers of versions.

    What they have in common is encoded once: each of up to 400 versions has the snapshots of all earlier ones.
    """
    versions = table.versions
    described = [schema_of(each.columns, described=True) for each in versions]
    snapshots = [
        _encoded(_snapshot(table, each, schema["schema-id"], parent))
        for each, schema, parent in zip(versions, described, (None, *versions), strict=False)
    ]
    instants = [milliseconds(each.publication.published_at) for each in versions]
    log = [
        _encoded({"snapshot-id": each.version, "timestamp-ms": at}) for each, at in zip(versions, instants, strict=True)
    ]
    tags = {f"v{each.version}": _encoded({"snapshot-id": each.version, "type": "tag"}) for each in versions}
    for count in counts:
        latest = versions[count - 1].version
        schemas = {schema["schema-id"]: schema for schema in described[:count]}
        names = {field["name"]: field["id"] for schema in schemas.values() for field in schema["fields"]}
        name_mapping = [{"field-id": number, "names": [name]} for name, number in names.items()]
        yield {
            "format-version": 2,
            "table-uuid": table_id(table.client_id, table.name),
            "location": table.location,
            "last-sequence-number": latest,
            "last-updated-ms": instants[count - 1],
            "last-column-id": max(names.values()),
            "schemas": list(schemas.values()),
            "current-schema-id": described[count - 1]["schema-id"],
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "default-spec-id": 0,
            "last-partition-id": _LAST_PARTITION_ID,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "properties": {_NAME_MAPPING: msgspec.json.encode(name_mapping).decode()},
            "current-snapshot-id": latest,
            "snapshots": snapshots[:count],
            "snapshot-log": log[:count],
            "metadata-log": [],
            "refs": {"main": {"snapshot-id": latest, "type": "branch"}, **dict(islice(tags.items(), count))},
        }


def _encoded(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _snapshot(table: Table, version: KeptVersion, schema_id: int, parent: KeptVersion | None) -> dict[str, Any]:
    added = [file for file in version.files if file.since == version.version]
    summary = {
        "operation": "overwrite",
        "added-data-files": len(added),
        "added-records": sum(file.rows for file in added),
        "total-data-files": len(version.files),
        "total-records": sum(file.rows for file in version.files),
        "total-files-size": sum(file.content.bytes for file in version.files),
    }
    return {
        "snapshot-id": version.version,
        **({} if parent is None else {"parent-snapshot-id": parent.version}),
        "sequence-number": version.version,
        "timestamp-ms": milliseconds(version.publication.published_at),
        "manifest-list": f"{table.location}/{version.manifest_list_name}",
        "summary": {name: str(value) for name, value in summary.items()},
        "schema-id": schema_id,
    }


async def load_table(services: Services, client_id: str, name: str) -> Table:
    """Return a table with all kept versions. Does not read the file store. Raises NotFound."""
    require_table(name)
    found = await services.state.aread(lambda stores: read_table(stores, client_id, name))
    if not found.versions:
        raise await not_ready(services, client_id)
    return found


def read_table(stores: Stores, client_id: str, name: str) -> Table:
    """Read a table. A version without a Parquet file that has statistics is left out."""
    return Table(client_id, name, tuple(_version(name, each) for each in stores.snapshots.tables(client_id, name)))


def _version(name: str, table: TableFiles) -> KeptVersion:
    stored, columns = table.stored, resource_at(name, table.columns).columns
    since = stored.since_in(table.version, table.published_at)
    files: list[DataFile] = []
    for part in stored.parts or (None,):
        statistics = (part or stored).statistics
        assert statistics is not None  # `SnapshotStore.tables` returns only files with statistics
        files.append(DataFile(stored, statistics.null_counts, statistics.rows, columns, since.version, part))
    publication = Publication(table.snapshot_id, table.version, table.as_of, table.published_at)
    return KeptVersion(publication, columns, tuple(files) if table.rows else ())
