"""Requests to the S3 endpoint: signature, bucket, key and parameters."""

import base64
import binascii
import re
from collections.abc import Mapping
from urllib.parse import unquote

import msgspec
from starlette.requests import Request

from daybreak.access import api_tokens
from daybreak.access.link_usage import LinkRate
from daybreak.access.services import Services
from daybreak.attached_files import Bucket
from daybreak.credentials.s3_keys import find_key
from daybreak.credentials.sigv4 import (
    S3Error,
    SignedRequest,
    check_time,
    claim_of,
    is_valid,
    merged_headers,
    parameters_of,
)
from daybreak.domain.audit import EventOrigin
from daybreak.domain.errors import NotFound
from daybreak.domain.identity import Principal
from daybreak.web.request_state import caller_of, record_subject

MAX_KEYS = 1000
_MAX_PART_NUMBER = 10_000
_PART_NUMBER = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)
_BARE_ETAG = re.compile(r"[0-9a-f]{32}-1")
_NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Access(msgspec.Struct, frozen=True):
    """The credential of a request, the bucket that it may read, and the origin of its audit events."""

    principal: Principal
    bucket: Bucket
    origin: EventOrigin


class S3Request(msgspec.Struct, frozen=True):
    """A request. `bucket` and `key` are decoded, and empty if the path does not have them."""

    signed: SignedRequest
    bucket: str
    key: str
    parameters: Mapping[str, str]


class ListRequest(msgspec.Struct, frozen=True):
    """Parameters of ListObjects and, if `is_v2`, ListObjectsV2.

    Keys up to `after` are left out. It is `start`, which the client sent, or in the continuation `token`.
    """

    prefix: str
    delimiter: str
    start: str
    token: str
    after: str
    max_keys: int
    is_v2: bool
    url_encoded: bool
    with_owner: bool


def read_request(request: Request) -> S3Request:
    """Return the parts of a request. Raises NotFound for a path that is not UTF-8."""
    path: bytes = request.scope["raw_path"]
    query: bytes = request.scope["query_string"]
    try:
        bucket, _, key = unquote(path.decode("ascii"), errors="strict").removeprefix("/").partition("/")
    except UnicodeDecodeError:
        raise NotFound("The specified key does not exist.") from None
    signed = SignedRequest(request.method, path, query, merged_headers(request.scope["headers"]))
    return S3Request(signed, bucket, key, dict(parameters_of(query)))


async def authenticate(request: Request, signed: SignedRequest, services: Services, rate: LinkRate) -> Access:
    """Return what the credential of a request may read. The signature is verified before anything is looked up.

    Raises S3Error, Unauthenticated, Forbidden, RateLimited, Unavailable.
    """
    now = services.clock()
    claim = claim_of(signed)
    key = find_key(claim.access_key_id, claim.session_token, keyring=services.keyring.current())
    if key is None and claim.session_token:
        raise S3Error("InvalidToken", "The provided token is malformed or otherwise invalid.")
    if key is None:
        raise S3Error("AccessDenied", "Unknown access key id. Use one that was shown with an API token.")
    if not is_valid(signed, claim, key.secret):
        raise S3Error(
            "SignatureDoesNotMatch",
            "The request signature does not match. Check the secret access key, and that proxies leave the path and "
            "the headers Host and Accept-Encoding unchanged.",
        )
    check_time(claim, now)
    if key.expires_at is not None and key.expires_at <= now:
        raise S3Error("ExpiredToken", "The provided token has expired.")
    caller = caller_of(request)
    principal = await api_tokens.authenticate_by_id(services, key.token_id, caller)
    client_id = principal.account.client_id
    record_subject(request, principal.subject, client_id)
    origin = EventOrigin.of(principal, now, caller)
    await rate.count("request", principal.subject, lambda: origin.event("file.fetched", "rate_limited", {"door": "s3"}))
    return Access(principal, Bucket(client_id, key.pinned_version), origin)


def object_headers(read: S3Request) -> Mapping[str, str]:
    """Return the headers that select what is sent of an object. Raises S3Error.

    Several ranges are ignored, as S3 does. Part 1 of an object without parts is the range of the whole object. Like S3,
    accepts entity tags without quotes, which version 1 of the AWS SDK for Java sends, and with it Hadoop before 3.4.
    """
    headers = {
        name: f'"{value}"' if _BARE_ETAG.fullmatch(value) else value for name, value in read.signed.headers.items()
    }
    part = read.parameters.get("partNumber")
    if read.parameters.get("versionId", "null") != "null":
        raise S3Error("NoSuchVersion", "The specified version does not exist.")
    if part is None:
        several = "," in headers.get("range", "")
        return {name: value for name, value in headers.items() if name != "range"} if several else headers
    if not _PART_NUMBER.fullmatch(part) or int(part) > _MAX_PART_NUMBER:
        raise S3Error("InvalidArgument", f"Part number must be an integer between 1 and {_MAX_PART_NUMBER}, inclusive")
    if "range" in headers:
        raise S3Error("InvalidRequest", "Cannot specify both Range header and partNumber query parameter")
    if int(part) > 1:
        raise S3Error("InvalidPartNumber", "The requested partnumber is not satisfiable")
    return {**headers, "range": "bytes=0-"}


def list_request(parameters: Mapping[str, str]) -> ListRequest:
    """Return the parameters of a list. Raises S3Error."""
    is_v2 = parameters.get("list-type") == "2"
    encoding = parameters.get("encoding-type")
    if encoding not in (None, "", "url"):
        raise S3Error("InvalidArgument", "The only value of encoding-type is url.")
    start = "start-after" if is_v2 else "marker"
    for name in () if encoding else ("prefix", "delimiter", start):
        if _NOT_IN_XML.search(parameters.get(name, "")):
            raise S3Error("InvalidArgument", f"XML cannot contain the characters of {name}: use encoding-type=url.")
    token = parameters.get("continuation-token", "") if is_v2 else ""
    return ListRequest(
        prefix=parameters.get("prefix", ""),
        delimiter=parameters.get("delimiter", ""),
        start=parameters.get(start, ""),
        token=token,
        after=_decoded(token) if token else parameters.get(start, ""),
        max_keys=min(_number(parameters.get("max-keys") or str(MAX_KEYS)), MAX_KEYS),
        is_v2=is_v2,
        url_encoded=encoding == "url",
        with_owner=not is_v2 or parameters.get("fetch-owner") == "true",
    )


def continuation_token(last: str) -> str:
    """Return the token of the page after a key or common prefix."""
    return base64.urlsafe_b64encode(last.encode()).decode()


def _decoded(token: str) -> str:
    try:
        return base64.b64decode(token.encode("ascii"), altchars=b"-_", validate=True).decode()
    except (UnicodeError, binascii.Error):
        raise S3Error("InvalidArgument", "The continuation token provided is incorrect") from None


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise S3Error("InvalidArgument", "Provided max-keys not an integer or within integer range")
    return int(text)
