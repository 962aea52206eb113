"""The Iceberg tables of an account: one namespace with the nine resources."""

from __future__ import annotations

from daybreak.access.services import Services
from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.catalogue.stored_columns import resource_at
from daybreak.domain.delta import Publication
from daybreak.domain.errors import NotFound
from daybreak.domain.snapshot import FileStatistics, ManifestEntry, StoredPart
from daybreak.downloads import not_ready
from daybreak.iceberg.manifests import DataFile
from daybreak.iceberg.metadata import KeptVersion, Table
from daybreak.state.manifest_entries import PARQUET
from daybreak.state.stores import Stores

NAMESPACE = "daybreak"


def require_table(name: str) -> None:
    """Check the name of a table. Raises NotFound."""
    if name not in RESOURCE_NAMES:
        raise NotFound(f"There is no such table. Use one of {', '.join(RESOURCE_NAMES)}.")


async def load_table(services: Services, client_id: str, name: str) -> Table:
    """Return a table with all kept versions. Does not read the file store. Raises NotFound."""
    require_table(name)
    found = await services.state.aread(lambda stores: read_table(stores, client_id, name))
    if not found.versions:
        raise await not_ready(services, client_id, services.clock())
    return found


def read_table(stores: Stores, client_id: str, name: str) -> Table:
    """Read a table. A version without a Parquet file that has statistics is left out."""
    publications = stores.deltas.publications()[::-1]
    entries = stores.snapshots.manifests([each.snapshot_id for each in publications], client_id, [name])
    found = (
        _version(stores, each, entries[each.snapshot_id][name]) for each in publications if each.snapshot_id in entries
    )
    return Table(client_id, name, tuple(each for each in found if each is not None))


def _version(stores: Stores, publication: Publication, entry: ManifestEntry) -> KeptVersion | None:
    stored = entry.formats.get(PARQUET)
    if stored is None or stored.statistics is None:
        return None
    columns = resource_at(entry.resource, stores.snapshots.columns(publication.snapshot_id)).columns
    since = stored.since_in(publication.version, publication.published_at)
    pieces: list[tuple[StoredPart | None, FileStatistics]] = [(part, part.statistics) for part in stored.parts]
    files = tuple(
        DataFile(stored, statistics.null_counts, statistics.rows, columns, since.version, part)
        for part, statistics in pieces or [(None, stored.statistics)]
    )
    return KeptVersion(publication, columns, files if entry.rows else ())
