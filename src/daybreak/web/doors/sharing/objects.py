"""Shares, schemas and tables in responses."""

from __future__ import annotations

from uuid import UUID, uuid5

import msgspec

from daybreak.catalogue.resources import RESOURCES, Resource
from daybreak.sharing import SCHEMA_NAME


class Share(msgspec.Struct, frozen=True):
    """Share of an account."""

    name: str
    id: str


class Schema(msgspec.Struct, frozen=True):
    """Schema of a share."""

    name: str
    share: str


class Table(msgspec.Struct, frozen=True, rename="camel"):
    """Table of a schema."""

    name: str
    schema: str
    share: str
    share_id: str
    id: str


def share(client_id: str) -> Share:
    """Return the share of an account."""
    return Share(client_id, client_id)


def schema(client_id: str) -> Schema:
    """Return the schema of a share."""
    return Schema(SCHEMA_NAME, client_id)


def tables(client_id: str) -> list[Table]:
    """Return the nine tables of a share."""
    return [
        Table(resource.name, SCHEMA_NAME, client_id, client_id, table_id(client_id, resource)) for resource in RESOURCES
    ]


def table_id(client_id: str, resource: Resource) -> str:
    """Return the permanent id of a table."""
    return str(uuid5(UUID(client_id), resource.name))
