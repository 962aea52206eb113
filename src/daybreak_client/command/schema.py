"""`daybreak schema`."""

import os
from typing import Annotated

from cyclopts import Parameter

from daybreak_client.command import profile as profiles
from daybreak_client.command.options import ProfileName
from daybreak_client.command.output import print_json, print_text
from daybreak_client.command.sign_in import missing_profile
from daybreak_client.errors import WrongUse
from daybreak_client.service import Daybreak


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
