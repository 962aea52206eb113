"""Signatures of S3 requests: AWS Signature Version 4, in the Authorization header or in the query (presigned URLs).

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html
"""

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from urllib.parse import quote, unquote, unquote_to_bytes

import msgspec

from daybreak.domain.errors import RequestError

ALGORITHM = "AWS4-HMAC-SHA256"
CLOCK_SKEW = timedelta(minutes=15)
_MAX_PRESIGNED_SECONDS = 7 * 24 * 3600
_SECONDS = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)
_UNSIGNED = "UNSIGNED-PAYLOAD"
_EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
_CREDENTIAL = re.compile(r"([0-9A-Za-z]{1,128})/([0-9]{8})/([0-9A-Za-z_.-]{0,64})/([0-9a-z-]{1,32})/aws4_request")
_DATE = re.compile(r"[0-9]{8}T[0-9]{6}Z", re.ASCII)
_SIGNATURE = re.compile(r"[0-9a-f]{64}", re.ASCII)
_SPACES = re.compile(" +")
# Their names in a presigned URL, and the names of the fields in a header.
_PRESIGNED = {"X-Amz-Credential": "Credential", "X-Amz-SignedHeaders": "SignedHeaders", "X-Amz-Signature": "Signature"}


class SignedRequest(msgspec.Struct, frozen=True):
    """The parts of a request that are signed, as they were sent. Names of headers are in lower case."""

    method: str
    path: bytes
    query: bytes
    headers: Mapping[str, str]


class Claim(msgspec.Struct, frozen=True):
    """A signature, and what it claims. `lifetime` is that of a presigned URL, None for a signature in the header."""

    access_key_id: str
    session_token: str
    date: str
    signed_at: datetime
    region: str
    service: str
    signed_headers: tuple[str, ...]
    payload_sha256: str
    signature: str
    lifetime: timedelta | None = None


class S3Error(RequestError):
    """An error with a code of S3."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message, code=code)


def merged_headers(headers: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the headers of a request, repeated ones joined in their order."""
    merged: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1"), _SPACES.sub(" ", raw_value.decode("latin-1").strip())
        merged[name] = f"{merged[name]},{value}" if name in merged else value
    return merged


def is_signed(query: bytes, authorization: bytes) -> bool:
    """Return whether a request has a signature of any version of AWS."""
    return authorization.startswith(b"AWS") or b"X-Amz-Algorithm=" in query or b"AWSAccessKeyId=" in query


def claim_of(request: SignedRequest, *, service: str = "s3") -> Claim:
    """Return the signature of a request, which is not verified. Raises S3Error if it is malformed or missing."""
    parameters = parameters_of(request.query)
    names = [name for name, _ in parameters]
    authorization = request.headers.get("authorization")
    if "AWSAccessKeyId" in names or (authorization or "").startswith("AWS "):
        raise _unsupported()
    if "X-Amz-Algorithm" not in names:
        return _claim_of_header(request, authorization or "", service)
    if authorization is not None or len(set(names)) != len(names):
        raise _malformed("Sign either the header or the query, and send each parameter once.")
    return _claim_of_query(request, dict(parameters), service)


def is_valid(request: SignedRequest, claim: Claim, secret: str) -> bool:
    """Return whether the request was signed with the secret. Clients sign the path as sent, or encoded again."""
    encoded = quote(unquote_to_bytes(request.path), safe="/-_.~")
    paths = dict.fromkeys((encoded, request.path.decode("latin-1")))
    return any(hmac.compare_digest(_signature(request, claim, secret, path), claim.signature) for path in paths)


def check_time(claim: Claim, now: datetime) -> None:
    """Raise S3Error if a valid signature is too old, or of the future."""
    if claim.signed_at > now + CLOCK_SKEW or (claim.lifetime is None and claim.signed_at < now - CLOCK_SKEW):
        raise S3Error(
            "RequestTimeTooSkewed",
            f"The clock of this computer differs by more than 15 minutes from that of the server, {now:%H:%M:%S} UTC.",
        )
    if claim.lifetime is not None and claim.signed_at + claim.lifetime <= now:
        raise S3Error("AccessDenied", "Request has expired")


def _claim_of_header(request: SignedRequest, authorization: str, service: str) -> Claim:
    algorithm, _, text = authorization.partition(" ")
    if algorithm != ALGORITHM:
        raise _unsupported() if algorithm.startswith("AWS") else S3Error("AccessDenied", "The request is not signed.")
    pairs = [field.strip().partition("=") for field in text.split(",")]
    fields = {name: value for name, _, value in pairs}
    if len(pairs) != 3 or fields.keys() != {"Credential", "SignedHeaders", "Signature"}:
        raise _malformed("Send Credential, SignedHeaders and Signature.")
    date, session_token = request.headers.get("x-amz-date", ""), request.headers.get("x-amz-security-token", "")
    return _claim(request, fields, date, session_token, None, service)


def _claim_of_query(request: SignedRequest, values: Mapping[str, str], service: str) -> Claim:
    if values["X-Amz-Algorithm"] != ALGORITHM:
        raise _unsupported()
    fields = {field: values.get(name, "") for name, field in _PRESIGNED.items()}
    seconds = values.get("X-Amz-Expires", "")
    if not _SECONDS.fullmatch(seconds) or int(seconds) > _MAX_PRESIGNED_SECONDS:
        raise _malformed("X-Amz-Expires must be between 1 second and 7 days.")
    date, session_token = values.get("X-Amz-Date", ""), values.get("X-Amz-Security-Token", "")
    return _claim(request, fields, date, session_token, timedelta(seconds=int(seconds)), service)


def _claim(
    request: SignedRequest,
    fields: Mapping[str, str],
    date: str,
    session_token: str,
    lifetime: timedelta | None,
    service: str,
) -> Claim:
    credential = _CREDENTIAL.fullmatch(fields["Credential"])
    if credential is None or credential[4] != service or not _SIGNATURE.fullmatch(fields["Signature"]):
        raise _malformed(f"The credential must end with /DATE/REGION/{service}/aws4_request.")
    signed_at = _instant(date)
    if signed_at is None or date[:8] != credential[2]:
        raise _malformed("X-Amz-Date must be a time such as 20261124T040000Z, on the day of the credential.")
    signed_headers = tuple(fields["SignedHeaders"].split(";"))
    if "host" not in signed_headers:
        raise _malformed("Sign the Host header.")
    if any(name.startswith("x-amz-") and name not in signed_headers for name in request.headers):
        raise S3Error("AccessDenied", "There were headers present in the request which were not signed")
    default = _EMPTY_SHA256 if lifetime is None else _UNSIGNED
    return Claim(
        access_key_id=credential[1],
        session_token=session_token,
        date=date,
        signed_at=signed_at,
        region=credential[3],
        service=service,
        signed_headers=signed_headers,
        payload_sha256=request.headers.get("x-amz-content-sha256", default),
        signature=fields["Signature"],
        lifetime=lifetime,
    )


def _signature(request: SignedRequest, claim: Claim, secret: str, path: str) -> str:
    headers = [f"{name}:{request.headers.get(name, '')}\n" for name in claim.signed_headers]
    canonical = "\n".join(
        (
            request.method,
            path or "/",
            _canonical_query(request.query),
            "".join(headers),
            ";".join(claim.signed_headers),
            claim.payload_sha256,
        )
    )
    scope = f"{claim.date[:8]}/{claim.region}/{claim.service}/aws4_request"
    digest = hashlib.sha256(canonical.encode("latin-1")).hexdigest()
    text = f"{ALGORITHM}\n{claim.date}\n{scope}\n{digest}"
    return _hmac(_signing_key(secret, claim.date[:8], claim.region, claim.service), text).hex()


@lru_cache(4096)
def _signing_key(secret: str, day: str, region: str, service: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = _hmac(key, part)
    return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode("latin-1"), "sha256")


def _canonical_query(query: bytes) -> str:
    pairs = sorted(
        (quote(unquote_to_bytes(name), safe="-_.~"), quote(unquote_to_bytes(value), safe="-_.~"))
        for name, _, value in (field.partition(b"=") for field in query.split(b"&") if field)
    )
    return "&".join(f"{name}={value}" for name, value in pairs if name != "X-Amz-Signature")


def parameters_of(query: bytes) -> list[tuple[str, str]]:
    """Return the names and values of a query. A plus sign is not a space: clients encode spaces as %20."""
    fields = (field.partition("=") for field in query.decode("latin-1").split("&") if field)
    return [(unquote(name), unquote(value)) for name, _, value in fields]


def _instant(date: str) -> datetime | None:
    try:
        return datetime.fromisoformat(date) if _DATE.fullmatch(date) else None
    except ValueError:
        return None


def _malformed(message: str) -> S3Error:
    return S3Error("AuthorizationHeaderMalformed", message)


def _unsupported() -> S3Error:
    mechanism = "The authorization mechanism you have provided"
    return S3Error("InvalidRequest", f"{mechanism} is not supported. Please use {ALGORITHM}.")
