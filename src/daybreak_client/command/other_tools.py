"""`daybreak share-profile` and `daybreak s3-credentials`: access for other tools, with an API token."""

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from daybreak_client.command.options import Credential
from daybreak_client.command.output import print_json, print_note
from daybreak_client.command.profile import Profile
from daybreak_client.command.sign_in import connect, current_profile
from daybreak_client.errors import WrongUse
from daybreak_client.folder import expanded, replace_private
from daybreak_client.service import API_TOKEN_PREFIX

_SHARING_PATH = "/sharing/v1"


def share_profile(
    file: Annotated[Path, Parameter(help="File to write. An existing file is replaced.")] = Path("daybreak.share"),
    *,
    credential: Credential = Credential(),
) -> None:
    """Write a Delta Sharing profile with the API token in use, for pandas, Spark, Power BI and other clients."""
    file, profile = expanded(file), _profile_with_api_token(credential, "Delta Sharing needs")
    content = {
        "shareCredentialsVersion": 1,
        "endpoint": profile.address.rstrip("/") + _SHARING_PATH,
        "bearerToken": profile.token,
    }
    replace_private(file, json.dumps(content))
    print_note(f"{file} contains the token. Store it like a password.")


def s3_credentials(*, credential: Credential = Credential()) -> None:
    """Print credentials for the S3 endpoint, as `credential_process` of the AWS tools expects them.

    They expire after an hour. Until then, `latest/` contains the version that is current now.
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
