"""Shares, schemas and tables in responses."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID, uuid5

from daybreak.catalogue.resources import RESOURCES, Resource
from daybreak.sharing import SCHEMA_NAME


def share(client_id: str) -> Mapping[str, str]:
    """Return the share of an account."""
    return {"name": client_id, "id": client_id}


def schema(client_id: str) -> Mapping[str, str]:
    """Return the schema of a share."""
    return {"name": SCHEMA_NAME, "share": client_id}


def tables(client_id: str) -> list[Mapping[str, str]]:
    """Return the nine tables of a share."""
    place = {"schema": SCHEMA_NAME, "share": client_id, "shareId": client_id}
    return [{"name": resource.name, **place, "id": table_id(client_id, resource)} for resource in RESOURCES]


def table_id(client_id: str, resource: Resource) -> str:
    """Return the permanent id of a table."""
    return str(uuid5(UUID(client_id), resource.name))
