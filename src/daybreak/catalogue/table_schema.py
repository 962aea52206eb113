"""The nine resources as a Frictionless Data Package of Table Schemas, valid for the `frictionless` library 5.

https://datapackage.org/standard/table-schema/
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.formats import DEFAULT_FORMATS, format_named
from daybreak.catalogue.resources import RESOURCES, Resource

SCHEMA_VERSION = "1.1.0"
"""The first part changes when a column changes or is removed, the second when one is added."""

_FIELD_TYPES: dict[ColumnType, tuple[str, str]] = {
    ColumnType.UUID: ("string", "uuid"),
    ColumnType.TEXT: ("string", "default"),
    ColumnType.BIGINT: ("integer", "default"),
    ColumnType.BOOLEAN: ("boolean", "default"),
    ColumnType.DATE: ("date", "default"),
    ColumnType.TIMESTAMP: ("datetime", "%Y-%m-%dT%H:%M:%S.%fZ"),
}


class Constraints(msgspec.Struct, frozen=True, omit_defaults=True):
    """Constraints of a column."""

    required: Annotated[bool, Meta(description="Whether every row has a value.")] = False
    unique: Annotated[bool, Meta(description="Whether no two rows of a file have the same value.")] = False


class Target(msgspec.Struct, frozen=True):
    """Columns that a foreign key refers to."""

    resource: Annotated[str, Meta(description="Name of the resource.")]
    fields: Annotated[tuple[str, ...], Meta(description="Its columns.")]


class ForeignKey(msgspec.Struct, frozen=True):
    """Columns whose values occur in another resource of the same account and snapshot."""

    fields: Annotated[tuple[str, ...], Meta(description="Columns of this resource.")]
    reference: Target


class Field(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Column."""

    name: Annotated[str, Meta(description="Name in the header of the file.")]
    type: Annotated[str, Meta(description="Type of the values.")]
    format: Annotated[str, Meta(description="Format of the values.")]
    description: Annotated[str, Meta(description="Meaning of the column.")]
    true_values: Annotated[tuple[str, ...], Meta(description="Text of true.")] = ()
    false_values: Annotated[tuple[str, ...], Meta(description="Text of false.")] = ()
    constraints: Constraints | None = None
    # Not a constraint: a value that the platform adds later is exported unchanged.
    expected_values: Annotated[tuple[str, ...], Meta(description="Known values. Others may be added.")] = ()


class TableSchema(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Columns of a resource."""

    fields: Annotated[tuple[Field, ...], Meta(description="Columns, in the order of the file.")]
    fields_match: Annotated[str, Meta(description="The file has exactly these columns.")]
    missing_values: Annotated[tuple[str, ...], Meta(description="Text of a missing value.")]
    primary_key: Annotated[
        tuple[str, ...], Meta(description="Columns that identify a row of the file, if its rows have such columns.")
    ] = ()
    foreign_keys: Annotated[tuple[ForeignKey, ...], Meta(description="References to other resources.")] = ()


class Dialect(msgspec.Struct, frozen=True, rename="camel"):
    """CSV dialect."""

    delimiter: str = ","
    line_terminator: str = "\n"
    quote_char: str = '"'
    double_quote: bool = True
    header: bool = True


class TableResource(msgspec.Struct, frozen=True):
    """Resource with its columns."""

    name: Annotated[str, Meta(description="Name of the resource.")]
    title: Annotated[str, Meta(description="Title of the resource.")]
    description: Annotated[str, Meta(description="What the rows are.")]
    path: Annotated[str, Meta(description="Name of the CSV file, and the last part of the path to request it from.")]
    type: Annotated[str, Meta(description="Always `table`.")]
    format: Annotated[str, Meta(description="Always `csv`.")]
    mediatype: Annotated[str, Meta(description="Media type of the content.")]
    encoding: Annotated[str, Meta(description="Character encoding of the content.")]
    compression: Annotated[str, Meta(description="Compression of the file.")]
    dialect: Dialect
    endings: Annotated[tuple[str, ...], Meta(description="Ending of the file name in each format.")]
    order: Annotated[tuple[str, ...], Meta(description="Columns by which the rows are ordered.")]
    schema: TableSchema


class DataPackage(msgspec.Struct, frozen=True):
    """Frictionless Data Package."""

    profile: Annotated[str, Meta(description="Profile of the document.")] = msgspec.field(name="$schema")
    name: Annotated[str, Meta(description="Always `daybreak`.")]
    version: Annotated[str, Meta(description="Version of the columns.")]
    resources: Annotated[tuple[TableResource, ...], Meta(description="The nine resources.")]


def data_package(formats: Sequence[str] = DEFAULT_FORMATS, resources: Sequence[Resource] = RESOURCES) -> DataPackage:
    """Return the Data Package of resources in these formats."""
    return DataPackage(
        "https://datapackage.org/profiles/2.0/datapackage.json",
        name="daybreak",
        version=SCHEMA_VERSION,
        resources=tuple(_table_resource(resource, formats) for resource in resources),
    )


def _table_resource(resource: Resource, formats: Sequence[str]) -> TableResource:
    return TableResource(
        name=resource.name,
        title=resource.title,
        description=resource.description,
        path=resource.file_name(format_named("csv")),
        type="table",
        format="csv",
        mediatype="text/csv",
        encoding="utf-8",
        compression="gz",
        dialect=Dialect(),
        endings=tuple(format_named(name).ending for name in formats),
        order=resource.key,
        schema=TableSchema(
            fields=tuple(_field(column, resource) for column in resource.columns),
            fields_match="exact",
            missing_values=("",),
            primary_key=resource.key if resource.key_is_unique else (),
            foreign_keys=tuple(
                ForeignKey((reference.column,), Target(reference.resource, (reference.column,)))
                for reference in resource.references
            ),
        ),
    )


def _field(column: Column, resource: Resource) -> Field:
    field_type, field_format = _FIELD_TYPES[column.type]
    boolean = column.type is ColumnType.BOOLEAN
    constraints = Constraints(
        required=not column.nullable, unique=resource.key_is_unique and resource.key == (column.name,)
    )
    return Field(
        name=column.name,
        type=field_type,
        format=field_format,
        description=column.description,
        true_values=("true",) if boolean else (),
        false_values=("false",) if boolean else (),
        constraints=None if constraints == Constraints() else constraints,
        expected_values=column.allowed,
    )
