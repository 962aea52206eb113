"""`daybreak schema` and `daybreak types`."""

import os
from typing import Annotated

from cyclopts import Parameter

from daybreak_client.command import profile as profiles
from daybreak_client.command.options import ProfileName, names_of
from daybreak_client.command.output import print_json, print_text
from daybreak_client.command.sign_in import missing_profile
from daybreak_client.errors import WrongUse
from daybreak_client.recipes import duckdb_recipe, pandas_recipe, polars_recipe, r_recipe
from daybreak_client.service import Daybreak
from daybreak_client.tables import parse_tables, released_tables


def schema(
    *,
    ddl: Annotated[
        str | None,
        Parameter(
            help="Print CREATE TABLE statements for this database: postgresql, duckdb, snowflake, bigquery, redshift, "
            "mysql or tsql."
        ),
    ] = None,
    profile: ProfileName = None,
) -> None:
    """Print the columns of the files, as a Frictionless Data Package (JSON). Needs no token."""
    service = open_service(profile)
    if service is None:
        raise WrongUse("Set DAYBREAK_SERVICE to the URL of the service, or run `daybreak login URL`.")
    with service:
        if ddl is None:
            print_json(service.schema())
        else:
            for line in service.create_tables(ddl).splitlines():
                print_text(line)


def open_service(profile: str | None) -> Daybreak | None:
    """Return the selected service without a token, None if none is selected. Raises WrongUse for a missing profile."""
    address, plain_http = os.environ.get("DAYBREAK_SERVICE"), bool(os.environ.get("DAYBREAK_PLAIN_HTTP"))
    if profile is not None or not address:
        saved = profiles.load(profiles.profile_file(os.environ, profile))
        if saved is None and profiles.selected_name(os.environ, profile) is None:
            return None
        if saved is None:
            raise missing_profile(profile)
        address, plain_http = saved.address, saved.plain_http
    return Daybreak(address, plain_http=plain_http)


def types(
    resource: Annotated[str | None, Parameter(help="One or several, such as members,campaigns. Default: all.")] = None,
    *,
    pandas: Annotated[bool, Parameter(negative="", help="Print Python for pandas.")] = False,
    polars: Annotated[bool, Parameter(negative="", help="Print Python for Polars.")] = False,
    duckdb: Annotated[bool, Parameter(negative="", help="Print SQL for DuckDB.")] = False,
    r: Annotated[bool, Parameter(name="--r", negative="", help="Print R.")] = False,
    profile: ProfileName = None,
) -> None:
    """Print a program that loads the CSV files of the current folder with the types of their columns.

    The columns are those of the service, and of this version of the command if you have not selected one. Needs no
    token.
    """
    chosen = [
        recipe
        for wanted, recipe in ((pandas, pandas_recipe), (polars, polars_recipe), (duckdb, duckdb_recipe), (r, r_recipe))
        if wanted
    ]
    if len(chosen) != 1:
        raise WrongUse("Select one of --pandas, --polars, --duckdb and --r.")
    service = open_service(profile)
    if service is None:
        tables = released_tables()
    else:
        with service:
            tables = parse_tables(service.schema())
    resources = names_of("RESOURCE", None if resource is None else [resource])
    unknown = sorted(set(resources) - {table.name for table in tables})
    if unknown:
        raise WrongUse(f"{unknown[0]!r} is not a resource. Use {', '.join(table.name for table in tables)}.")
    for line in chosen[0](table for table in tables if not resources or table.name in resources).splitlines():
        print_text(line)
