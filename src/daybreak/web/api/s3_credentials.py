"""S3 credentials that expire, for an API token."""

from datetime import datetime
from typing import Annotated

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from daybreak.access.services import Services
from daybreak.attached_files import issue_session_key
from daybreak.downloads import recorded_request
from daybreak.web.api.examples import field
from daybreak.web.api.operation import API_TOKEN, FILES, ApiRoute, Operation, ResponseType, token_principal
from daybreak.web.request_state import caller_of


class S3Credentials(msgspec.Struct, frozen=True, rename="pascal"):
    """S3 credentials, as `credential_process` of the AWS tools expects them."""

    version: Annotated[int, field("Version of the format.", 1)]
    access_key_id: Annotated[str, field("Access key id.", "DS5c90e1ab2b7d3c6e5a514d0c9a3e0f5d3f0c1a11")]
    secret_access_key: Annotated[str, field("Secret access key.", "2f7Ck1w...")]
    session_token: Annotated[str, field("Session token.", "1795509900.48.3b1f...c07e")]
    expiration: Annotated[datetime, field("When the credentials expire.", "2026-11-24T05:00:00Z")]


ISSUE_S3_CREDENTIALS = Operation(
    operation_id="issueS3Credentials",
    summary="Issue S3 credentials",
    description="Returns credentials for the S3 endpoint, in the format of `credential_process`. Until they expire, "
    "`latest/` contains the version that is current now. They end with the API token.",
    tag=FILES,
    credential=API_TOKEN,
    response=ResponseType("The credentials.", S3Credentials),
    problems=("rate_limited",),
)


def s3_credential_routes(services: Services) -> list[ApiRoute]:
    """Return the route, none unless `attach.s3`."""

    async def issue(request: Request) -> Response:
        principal = await token_principal(request, services)
        async with recorded_request(services, principal, caller_of(request), "token.s3_key_issued", {}):
            key = await issue_session_key(services, principal)
        assert key.expires_at is not None  # session keys expire
        credentials = S3Credentials(1, key.access_key_id, key.secret, key.session_token, key.expires_at)
        return ISSUE_S3_CREDENTIALS.response.create(credentials)

    enabled = services.settings.attach.s3
    return [ApiRoute("/download/v1/s3-credentials", issue, ISSUE_S3_CREDENTIALS, methods=("POST",))] if enabled else []
