"""Signatures of S3 requests: published test vectors, requests of botocore, and damaged ones."""

from datetime import UTC, datetime, timedelta
from urllib.parse import quote, urlsplit

import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from daybreak.credentials.sigv4 import (
    ALGORITHM,
    S3Error,
    SignedRequest,
    check_time,
    claim_of,
    is_signed,
    is_valid,
    merged_headers,
)

# https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
S3_SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
S3_VECTORS = [
    ("/test.txt", "", "host;range;x-amz-content-sha256;x-amz-date", {"range": "bytes=0-9"},
     "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
    ("/", "lifecycle", "host;x-amz-content-sha256;x-amz-date", {},
     "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
    ("/", "max-keys=2&prefix=J", "host;x-amz-content-sha256;x-amz-date", {},
     "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
]  # fmt: skip
# The test suite of Signature Version 4, whose service is named `service`.
SUITE_SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
UNRESERVED = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
SUITE = [
    ("/", "", [], "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    ("/", "Param2=value2&Param1=value1", [], "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"),
    ("/", "Param1=value2&Param1=Value1", [], "eedbc4e291e521cf13422ffca22be7d2eb8146eecf653089df300a15b2382bd1"),
    ("/", f"{UNRESERVED}={UNRESERVED}", [], "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"),
    ("/", "", [("my-header1", "value1"), ("my-header2", ' "a   b   c"')],
     "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"),
    ("/", "", [("my-header1", "value2"), ("my-header1", "value2"), ("my-header1", "value1")],
     "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"),
    ("/ሴ", "", [], "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"),
    ("/", "ሴ=bar", [], "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"),
]  # fmt: skip

KEY, SECRET, SESSION = "DBaa012b7d3c6e5a514d0c9a3e0f5d3f0c1a11", "c2VjcmV0", "1795509900.48.00"
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)


def signed_by_botocore(
    path: str, query: str = "", headers: dict[str, str] | None = None, session: str | None = None, expires: int = 0
) -> SignedRequest:
    """Sign a request as clients do, now. `expires` makes a presigned URL."""
    credentials = Credentials(KEY, SECRET, session)
    url = "https://s3.example.org" + quote(path) + (f"?{query}" if query else "")
    request = AWSRequest("GET", url, headers=headers or {})
    request.context["payload_signing_enabled"] = True
    signer = S3SigV4QueryAuth(credentials, "s3", "eu-west-1", expires) if expires else None
    (signer or S3SigV4Auth(credentials, "s3", "eu-west-1")).add_auth(request)
    parts = urlsplit(request.url)
    sent = [(b"host", b"s3.example.org"), *((n.lower().encode(), v.encode()) for n, v in request.headers.items())]
    return SignedRequest("GET", parts.path.encode(), parts.query.encode(), merged_headers(sent))


def accepted(request: SignedRequest) -> bool:
    """Whether the request passes all checks."""
    try:
        claim = claim_of(request)
        check_time(claim, datetime.now(UTC))
    except S3Error:
        return False
    known = (claim.access_key_id, claim.session_token) in {(KEY, ""), (KEY, SESSION)}
    return known and is_valid(request, claim, SECRET)


@pytest.mark.parametrize(("path", "query", "names", "headers", "signature"), S3_VECTORS)
def test_published_s3_signatures_are_valid(
    path: str, query: str, names: str, headers: dict[str, str], signature: str
) -> None:
    credential = "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request"
    sent = {
        "host": "examplebucket.s3.amazonaws.com",
        "x-amz-content-sha256": EMPTY,
        "x-amz-date": "20130524T000000Z",
        "authorization": f"{ALGORITHM} Credential={credential},SignedHeaders={names},Signature={signature}",
    }
    request = SignedRequest("GET", path.encode(), query.encode(), sent | headers)
    assert is_valid(request, claim_of(request), S3_SECRET)


def test_published_presigned_url_is_valid_for_a_day() -> None:
    query = (
        b"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2F"
        b"aws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature="
        b"aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    )
    request = SignedRequest("GET", b"/test.txt", query, {"host": "examplebucket.s3.amazonaws.com"})
    claim = claim_of(request)
    assert is_valid(request, claim, S3_SECRET)
    end = datetime(2013, 5, 25, tzinfo=UTC)
    check_time(claim, end - timedelta(seconds=1))
    with pytest.raises(S3Error, match="Request has expired") as refused:
        check_time(claim, end)
    assert refused.value.code == "AccessDenied"


@pytest.mark.parametrize(("path", "query", "headers", "signature"), SUITE)
def test_signatures_of_the_test_suite_are_valid(
    path: str, query: str, headers: list[tuple[str, str]], signature: str
) -> None:
    credential = "AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
    names = ";".join(sorted({"host", "x-amz-date", *(name for name, _ in headers)}))
    sent = {
        "host": "example.amazonaws.com",
        "x-amz-date": "20150830T123600Z",
        "authorization": f"{ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}",
        **merged_headers([(name.encode(), value.encode()) for name, value in headers]),
    }
    request = SignedRequest("GET", path.encode(), query.encode(), sent)
    assert is_valid(request, claim_of(request, service="service"), SUITE_SECRET)


@given(NAMES, NAMES, st.sampled_from([None, SESSION]), st.sampled_from([0, 60]))
def test_requests_of_botocore_are_accepted(path: str, value: str, session: str | None, expires: int) -> None:
    assert accepted(signed_by_botocore(f"/{path}", f"prefix={quote(value, safe='')}", {}, session, expires))


def test_path_may_be_signed_as_sent() -> None:
    request = signed_by_botocore("/tables/members/v=48/members.parquet")
    assert request.path == b"/tables/members/v%3D48/members.parquet"
    assert accepted(request)
    assert accepted(replace(request, path=b"/tables/members/v=48/members.parquet"))
    signed_as_sent = replace(request, path=b"/a%3db")
    claim = claim_of(signed_as_sent)
    assert not is_valid(signed_as_sent, claim, SECRET)


def test_clock_may_differ_by_15_minutes() -> None:
    claim = claim_of(signed_by_botocore("/"))
    for sign in (1, -1):
        check_time(claim, claim.signed_at + sign * timedelta(minutes=14))
        with pytest.raises(S3Error) as refused:
            check_time(claim, claim.signed_at + sign * timedelta(minutes=16))
        assert refused.value.code == "RequestTimeTooSkewed"


@pytest.mark.parametrize(
    ("query", "authorization", "code"),
    [
        (b"", None, "AccessDenied"),
        (b"", "Bearer service_api_x", "AccessDenied"),
        (b"AWSAccessKeyId=x&Expires=1&Signature=y", None, "InvalidRequest"),
        (b"", "AWS AKIA:signature", "InvalidRequest"),
        (b"X-Amz-Algorithm=AWS4-ECDSA-P256-SHA256", None, "InvalidRequest"),
        (b"", f"{ALGORITHM} Credential=x", "AuthorizationHeaderMalformed"),
    ],
)
def test_other_authorization_is_refused(query: bytes, authorization: str | None, code: str) -> None:
    headers = {"host": "s3.example.org"} | ({} if authorization is None else {"authorization": authorization})
    with pytest.raises(S3Error) as refused:
        claim_of(SignedRequest("GET", b"/", query, headers))
    assert refused.value.code == code
    assert is_signed(query, (authorization or "").encode()) == (code != "AccessDenied")


def test_damaged_requests_are_refused() -> None:
    headers = {"x-amz-checksum-mode": "ENABLED", "range": "bytes=0-9"}
    for request in (
        signed_by_botocore("/b/latest/members.csv.gz", "list-type=2&prefix=a", headers),
        signed_by_botocore("/b/latest/members.csv.gz", "list-type=2&prefix=a", headers, SESSION),
        signed_by_botocore("/b/latest/members.csv.gz", "response-expires=1", {}, None, 60),
        signed_by_botocore("/b/latest/members.csv.gz", "response-expires=1", {}, SESSION, 60),
    ):
        assert accepted(request)
        variants = list(damaged(request))
        assert len(variants) > 50
        for name, variant in variants:
            assert variant != request
            assert not accepted(variant), name


def damaged(request: SignedRequest) -> list[tuple[str, SignedRequest]]:
    """Return requests with one difference each, with its name."""
    found = [
        ("method", replace(request, method="HEAD")),
        ("path", replace(request, path=request.path + b"x")),
        ("slash", replace(request, path=b"/" + request.path)),
        ("dots", replace(request, path=request.path.replace(b"/latest", b"/x/../latest"))),
        ("parameter", replace(request, query=request.query + b"&prefix=b")),
        ("flag", replace(request, query=request.query + b"&acl")),
        ("security token", replace(request, query=request.query + b"&X-Amz-Security-Token=x")),
        ("amz header", replace(request, headers={**request.headers, "x-amz-acl": "private"})),
        ("token header", replace(request, headers={**request.headers, "x-amz-security-token": "1795509900.49.00"})),
        ("payload", replace(request, headers={**request.headers, "x-amz-content-sha256": "0" * 64})),
    ]
    for field in request.query.split(b"&") if b"X-Amz-Algorithm" in request.query else []:
        others = request.query.replace(field, b"", 1)
        found += [
            (f"without {field!r}", replace(request, query=others)),
            (f"repeated {field!r}", replace(request, query=request.query + b"&" + field)),
            (f"longer {field!r}", replace(request, query=request.query.replace(field, field + b"0", 1))),
            (f"empty {field!r}", replace(request, query=others + b"&" + field.partition(b"=")[0] + b"=")),
            (f"encoded {field!r}", replace(request, query=others + b"&" + field.replace(b"=", b"%3D"))),
            (f"shorter {field!r}", replace(request, query=request.query.replace(field, field[:-1], 1))),
        ]
    text = request.headers.get("authorization", "")
    signed = (text.partition("SignedHeaders=")[2].partition(",")[0] or "host").split(";")
    for name in signed:
        value = request.headers[name]
        others_headers = {other: text for other, text in request.headers.items() if other != name}
        found += [
            (f"without {name}", replace(request, headers=others_headers)),
            (f"longer {name}", replace(request, headers={**request.headers, name: value + "0"})),
            (f"shorter {name}", replace(request, headers={**request.headers, name: value[:-1]})),
            (f"empty {name}", replace(request, headers={**request.headers, name: ""})),
        ]
        for unsigned in (f"{name};", f";{name}"):
            if unsigned in text:
                shorter = text.replace(unsigned, "", 1)
                found.append(
                    (f"unsigned {name}", replace(request, headers={**request.headers, "authorization": shorter}))
                )
    for position in range(0, len(text), 12):
        other = "0" if text[position] != "0" else "1"
        changed = text[:position] + other + text[position + 1 :]
        found.append((f"header {position}", replace(request, headers={**request.headers, "authorization": changed})))
    return found
