"""`daybreak files` and `daybreak link`, and access for other tools: `share-profile` and `s3-credentials`."""

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from daybreak_client.command.options import Access, AsJson, Credential, Format
from daybreak_client.command.output import (
    format_count,
    format_size,
    freshness,
    print_json,
    print_note,
    print_table,
    print_text,
)
from daybreak_client.command.profile import Profile, connect, current_profile, selected_account
from daybreak_client.errors import WrongUse
from daybreak_client.folder import expanded, replace_private
from daybreak_client.service import API_TOKEN_PREFIX

_SHARING_PATH = "/sharing/v1"


def files(*, access: Access = Access(), as_json: AsJson = False) -> None:
    """List the files of the account and their freshness. In a pipe, sizes are in bytes."""
    profile = current_profile(access)
    with connect(profile) as service:
        published = service.account(selected_account(access, profile)).published()
    if as_json:
        listed = [
            {"file": file.name, "resource": file.resource, "format": file.format, "rows": file.rows,
             "bytes": file.size_bytes, "sha256": file.sha256, "content_sha256": file.content_sha256}
            for file in published.files
        ]  # fmt: skip
        print_json({**published.description(), "files": listed})
        return
    print_table(
        ("file", "rows", "size"),
        [(file.name, format_count(file.rows), format_size(file.size_bytes)) for file in published.files],
        frozenset({"rows", "size"}),
    )
    print_note(freshness(published))
    if published.incomplete:
        print_note(published.incomplete_note)


def link(
    resource: Annotated[str, Parameter(help="Resource, such as members.")],
    format: Format = "csv",
    *,
    access: Access = Access(),
) -> None:
    """Print a signed link to a file. Anyone with the link can download the file for some minutes."""
    profile = current_profile(access)
    with connect(profile) as service:
        print_text(service.account(selected_account(access, profile)).link(resource, format))


def share_profile(
    file: Annotated[Path, Parameter(help="File to write. An existing file is replaced.")] = Path("daybreak.share"),
    *,
    credential: Credential = Credential(),
) -> None:
    """Write a Delta Sharing profile with the API token in use, for pandas, Spark, Power BI and other clients."""
    file, profile = expanded(file), _profile_with_api_token(credential, "Delta Sharing needs")
    with connect(profile) as service:
        endpoint = service.address + _SHARING_PATH
    content = {"shareCredentialsVersion": 1, "endpoint": endpoint, "bearerToken": profile.token}
    replace_private(file, json.dumps(content))
    print_note(f"{file} contains the token. Store it like a password.")


def s3_credentials(*, credential: Credential = Credential()) -> None:
    """Print credentials for the S3 endpoint, as `credential_process` of the AWS tools expects them.

    They expire after an hour. Until then, `latest/` contains the version that is
    current now.
    """
    with connect(_profile_with_api_token(credential, "S3 credentials need")) as service:
        print_json(service.s3_credentials())


def _profile_with_api_token(credential: Credential, who_needs: str) -> Profile:
    profile = current_profile(credential)
    if not profile.token.startswith(API_TOKEN_PREFIX):
        raise WrongUse(
            f"{who_needs} an API token. Create one in the dashboard. Then set DAYBREAK_TOKEN, or run "
            "`daybreak login --api-token`."
        )
    return profile
