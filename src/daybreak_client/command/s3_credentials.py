"""`daybreak s3-credentials`."""

from daybreak_client.command.options import Credential
from daybreak_client.command.output import print_json
from daybreak_client.command.sign_in import connect, current_profile
from daybreak_client.errors import WrongUse
from daybreak_client.service import API_TOKEN_PREFIX


def s3_credentials(*, credential: Credential = Credential()) -> None:
    """Print credentials for the S3 endpoint, as `credential_process` of the AWS tools expects them.

    They expire after an hour. Until then, `latest/` contains the version that is current now.
    """
    profile = current_profile(credential)
    if not profile.token.startswith(API_TOKEN_PREFIX):
        raise WrongUse(
            "S3 credentials need an API token. Create one in the dashboard. Then set DAYBREAK_TOKEN, or run "
            "`daybreak login --api-token`."
        )
    with connect(profile) as service:
        print_json(service.s3_credentials())
