"""The files and their columns, as the documentation page shows them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from daybreak.catalogue.column_examples import example_of
from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.formats import format_named
from daybreak.catalogue.resources import RESOURCES, Resource
from daybreak.web.api.curl_commands import HEADER_FILE, download_command, file_url

_QUOTED = frozenset({ColumnType.UUID, ColumnType.TEXT})
_EXAMPLE_ACCOUNT = "7d909222-adf5-4547-93e0-e8f60c50f980"


@dataclass(frozen=True, slots=True)
class ColumnRow:
    """One column. `keys` says what it identifies or refers to, "" for neither."""

    name: str
    kind: str
    nullable: bool
    description: str
    allowed: Sequence[str]
    example: str
    keys: str


@dataclass(frozen=True, slots=True)
class FileSection:
    """One resource: its texts, its columns, and a row as CSV and as JSON."""

    resource: Resource
    file_names: Sequence[str]
    order: str
    columns: Sequence[ColumnRow]
    csv: str
    json: str
    command: str


def file_sections(base_url: str, formats: tuple[str, ...]) -> list[FileSection]:
    """Return the nine resources in the formats that the service publishes."""
    return [_section(resource, base_url, formats) for resource in RESOURCES]


def _section(resource: Resource, base_url: str, formats: tuple[str, ...]) -> FileSection:
    file_format = format_named("csv" if "csv" in formats else formats[0])
    order = ", ".join(f"`{name}`" for name in resource.key)
    unique = "No two rows have the same values in them." if resource.key_is_unique else "Rows may repeat these values."
    url = file_url(base_url, _EXAMPLE_ACCOUNT, resource, file_format)
    return FileSection(
        resource=resource,
        file_names=[resource.file_name(format_named(name)) for name in formats],
        order=f"Rows are ordered by {order}. {unique}",
        columns=[_row(resource, column) for column in resource.columns],
        csv=csv_sample(resource),
        json=json_sample(resource),
        command=download_command(url, resource.file_name(file_format), HEADER_FILE),
    )


def _row(resource: Resource, column: Column) -> ColumnRow:
    keys = ["Part of the key." if len(resource.key) > 1 else "Key."] if column.name in resource.key else []
    keys += [f"Refers to `{each.resource}`." for each in resource.references if each.column == column.name]
    count = resource.row_count
    if count is not None and count.column == column.name:
        keys.append(f"Number of rows of `{count.resource}` with the same `{count.match}`.")
    return ColumnRow(
        name=column.name,
        kind=column.type.value,
        nullable=column.nullable,
        description=column.description,
        allowed=column.allowed,
        example=example_of(column),
        keys=" ".join(keys),
    )


def csv_sample(resource: Resource) -> str:
    """Return the header and one row of the CSV file."""
    header = ",".join(f'"{name}"' for name in resource.column_names)
    cells = (
        '"' + example_of(column).replace('"', '""') + '"' if column.type in _QUOTED else example_of(column)
        for column in resource.columns
    )
    return f"{header}\n{','.join(cells)}"


def json_sample(resource: Resource) -> str:
    """Return one record of the JSON file."""
    return json.dumps({column.name: _json_value(column) for column in resource.columns}, indent=2, ensure_ascii=False)


def _json_value(column: Column) -> str | int | bool:
    text = example_of(column)
    if column.type is ColumnType.BIGINT:
        return int(text)
    if column.type is ColumnType.BOOLEAN:
        return text == "true"
    return text
