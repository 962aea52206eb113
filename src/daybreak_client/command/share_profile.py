"""`daybreak share-profile`."""

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from daybreak_client.command.options import Credential
from daybreak_client.command.output import print_note
from daybreak_client.command.sign_in import current_profile
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
    file, profile = expanded(file), current_profile(credential)
    if not profile.token.startswith(API_TOKEN_PREFIX):
        raise WrongUse(
            "Delta Sharing needs an API token. Create one in the dashboard. Then set DAYBREAK_TOKEN, or run "
            "`daybreak login --api-token`."
        )
    content = {
        "shareCredentialsVersion": 1,
        "endpoint": profile.address.rstrip("/") + _SHARING_PATH,
        "bearerToken": profile.token,
    }
    replace_private(file, json.dumps(content))
    print_note(f"{file} contains the token. Store it like a password.")
