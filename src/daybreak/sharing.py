"""Delta Sharing: each account as a share, and the nine resources as its tables.

The names are those of the protocol: a share contains schemas, which contain tables. The share of an account has one
schema.
https://github.com/delta-io/delta-sharing/blob/main/PROTOCOL.md
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from daybreak.access.authorization import require_own
from daybreak.access.services import Services
from daybreak.catalogue.formats import format_named
from daybreak.catalogue.resources import Resource, require_table
from daybreak.catalogue.stored_columns import resource_at
from daybreak.credentials import signed_text
from daybreak.credentials.keyring import Keyring
from daybreak.domain.errors import InvalidRequest, NotFound
from daybreak.domain.identity import Caller, Principal
from daybreak.domain.snapshot import StoredFormat, StoredPart, TableFiles, TableVersion
from daybreak.downloads import NamedFile, not_ready, recorded_request, sign_link

SHARING_PATH = "/sharing/v1"
SCHEMA_NAME = "daybreak"
PROFILE_NAME = "daybreak.share"
"""Name of the profile files, with which clients open a share."""
_CURRENT = TableVersion()
TABLE_QUERIED = "table.queried"
"""Action of queries in the audit trail."""


@dataclass(frozen=True, slots=True)
class TableName:
    """A table as a request names it. Names are compared without case."""

    share: str
    schema: str
    table: str


@dataclass(frozen=True, slots=True)
class Query:
    """Files that a client asks for.

    `limit` is the number of rows that the client will read, None for all. `filtered` is whether the client will drop
    rows that do not match its predicates. With a `refresh_token`, the version in it is queried.
    """

    at: TableVersion = _CURRENT
    limit: int | None = None
    filtered: bool = False
    refresh_token: str | None = None


def share_profile(base_url: str, secret: str, expires_at: datetime | None) -> bytes:
    """Return the profile of an API token as JSON, version 1. Without an expiration time the token does not expire."""
    profile = {"shareCredentialsVersion": 1, "endpoint": base_url + SHARING_PATH, "bearerToken": secret}
    if expires_at is not None:
        profile["expirationTime"] = f"{expires_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return msgspec.json.encode(profile)


class SharedFile(msgspec.Struct, frozen=True):
    """A file of a table, and a signed link to it."""

    stored: StoredFormat | StoredPart
    url: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The table at the selected version, and the files to read, which may be fewer than those of the table."""

    resource: Resource
    table: TableFiles
    files: tuple[SharedFile, ...]


def require_schema(principal: Principal, share: str, schema: str) -> str:
    """Return the `client_id` of a share that has the schema. Raises NotFound, Forbidden."""
    client_id = require_own(principal, share, "share")
    require_namespace(schema, "schema")
    return client_id


def require_namespace(name: str, kind: str) -> None:
    """Raise NotFound unless a schema or namespace has the one name. `kind` is a word for the error."""
    if name.lower() != SCHEMA_NAME:
        raise NotFound(f"There is no such {kind}. Use {SCHEMA_NAME}.")


def shared_table(principal: Principal, name: TableName) -> Resource:
    """Return the resource of a table. Raises NotFound, Forbidden."""
    require_schema(principal, name.share, name.schema)
    return require_table(name.table.lower())


async def table_files(
    services: Services, principal: Principal, name: TableName, at: TableVersion = _CURRENT
) -> tuple[Resource, TableFiles]:
    """Return a table at a version, with the columns of that version. Does not read the file store.

    Raises Forbidden, NotFound (`not_found`, `snapshot_not_ready`), InvalidRequest(version_not_kept).
    """
    resource = shared_table(principal, name)
    client_id = principal.account.client_id
    found = await services.state.aread(lambda stores: stores.snapshots.table(client_id, resource.name, at))
    if found is not None:
        return resource_at(resource.name, found.columns), found
    if at == _CURRENT:
        raise await not_ready(services, client_id)
    raise await _not_kept(services, client_id, resource.name)


async def query(
    services: Services, principal: Principal, name: TableName, wanted: Query, caller: Caller
) -> QueryResult:
    """Return links to the files of a table, and record the query in the audit trail.

    A query counts as one link for the rate limit. Raises RateLimited, InvalidRequest, and the errors of `table_files`.
    """
    async with recorded_request(services, principal, caller, TABLE_QUERIED, {}) as details:
        at = wanted.at
        if wanted.refresh_token is not None:
            at = _refreshed(services, principal, name, wanted.refresh_token)
        resource, table = await table_files(services, principal, name, at)
        named = NamedFile(resource, format_named("parquet"))
        files = share_files(services, principal, named, table, _needed(table, wanted))
        details |= {"table": resource.name, "version": table.version, "snapshot_id": table.snapshot_id}
        details["files"] = len(files)
    return QueryResult(resource, table, files)


def share_files(
    services: Services,
    principal: Principal,
    named: NamedFile,
    table: TableFiles,
    files: Sequence[StoredFormat | StoredPart],
) -> tuple[SharedFile, ...]:
    """Return some files of a table with links to them."""

    def link(file: StoredFormat | StoredPart) -> tuple[str, datetime]:
        part = table.stored.files.index(file) + 1 if isinstance(file, StoredPart) else None
        return sign_link(services, principal, table.snapshot_id, named, part)

    return tuple(SharedFile(file, *link(file)) for file in files)


def files_with_rows(table: TableFiles) -> list[StoredFormat | StoredPart]:
    """Return the files that have rows. The Python client fails if all files of a response in delta format have none."""
    return [stored for stored in table.stored.files if stored.statistics is None or stored.statistics.rows]


def refresh_token(client_id: str, table: str, version: int, *, keyring: Keyring) -> str:
    """Return a token with which a client gets new links to the files of a version of an account's table."""
    return signed_text.sign(str(version), client_id, table, purpose="table-version", keyring=keyring)


def _refreshed(services: Services, principal: Principal, name: TableName, token: str) -> TableVersion:
    """Return the version in a refresh token of a table. Raises InvalidRequest and the errors of `shared_table`."""
    resource, client_id = shared_table(principal, name), principal.account.client_id
    keyring = services.keyring.current()
    version = signed_text.verify(token, client_id, resource.name, purpose="table-version", keyring=keyring)
    if version is None:
        raise InvalidRequest("refreshToken is invalid. Query the table without it.")
    return TableVersion(int(version))


def _needed(table: TableFiles, wanted: Query) -> list[StoredFormat | StoredPart]:
    """Return the files that have enough rows.

    A client that drops rows after reading may need all files, so its limit does not count.
    """
    files = files_with_rows(table)
    if wanted.limit is None or wanted.filtered:
        return files
    needed, rows = [], 0
    for stored in files:
        if rows >= wanted.limit:
            break
        needed.append(stored)
        rows += stored.statistics.rows if stored.statistics is not None else 0
    return needed


async def _not_kept(services: Services, client_id: str, table: str) -> InvalidRequest:
    """Return the error for a version without files, which names the versions that have some."""
    kept = await services.state.aread(lambda stores: stores.snapshots.tables(client_id, table))
    if not kept:
        return InvalidRequest("No version of this table is kept.", code="version_not_kept")
    return InvalidRequest(
        f"This version of the table is not kept. The oldest version is {kept[0].version}, the current one is "
        f"{kept[-1].version}.",
        code="version_not_kept",
    )
