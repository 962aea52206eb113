"""Signed URLs with a say in the response's headers: AWS Signature Version 4 by query, Google's V4, its twin, and
Azure's service SAS.

The object store library signs a bare URL only; the name and type a file is handed out with are part of what must be
signed. See "Authenticating Requests: Using Query Parameters" (Amazon S3), "V4 signing process" (Cloud Storage) and
"Create a service SAS" (Azure Storage).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol
from urllib.parse import quote, urlsplit

from daybreak.filestore.cloud_credentials import AwsKeys, GoogleKey


class Signer(Protocol):
    """Signs URLs of one bucket."""

    def url(self, method: str, key: str, seconds: int, answer: Mapping[str, str], now: datetime) -> str:
        """A URL for one object, good for `seconds` from `now`. `answer` are the response headers to ask for:
        `content-type`, `content-disposition`, `content-encoding`.
        """


@dataclass(frozen=True, slots=True)
class _Scheme:
    """What Amazon and Google call the same things."""

    algorithm: str
    prefix: str
    ending: str


_AMAZON = _Scheme("AWS4-HMAC-SHA256", "X-Amz", "aws4_request")
_GOOGLE = _Scheme("GOOG4-RSA-SHA256", "X-Goog", "goog4_request")
_AZURE_VERSION = "2023-11-03"
_AZURE_HEADERS = {
    "cache-control": "rscc",
    "content-disposition": "rscd",
    "content-encoding": "rsce",
    "content-language": "rscl",
    "content-type": "rsct",
}
"""What a link may ask for, in the order in which it is signed."""


def _encoded(text: str, safe: str = "") -> str:
    """RFC 3986 percent-encoding: all but unreserved characters, upper-case hex."""
    return quote(text, safe=safe + "-_.~")


def _signed_url(
    scheme: _Scheme,
    base: str,
    key: str,
    *,
    method: str,
    seconds: int,
    answer: Mapping[str, str],
    now: datetime,
    identity: str,
    scope: str,
    more: Mapping[str, str],
    sign: Callable[[str], str],
) -> str:
    """`base` is the bucket's address, `scope` is `date/region/service/ending`."""
    parts = urlsplit(base)
    path = f"{parts.path.rstrip('/')}/{_encoded(key, '/')}"
    query = {
        f"{scheme.prefix}-Algorithm": scheme.algorithm,
        f"{scheme.prefix}-Credential": f"{identity}/{scope}",
        f"{scheme.prefix}-Date": f"{now:%Y%m%dT%H%M%SZ}",
        f"{scheme.prefix}-Expires": str(seconds),
        f"{scheme.prefix}-SignedHeaders": "host",
        **more,
        **{f"response-{name}": value for name, value in answer.items()},
    }
    canonical_query = "&".join(f"{_encoded(name)}={_encoded(value)}" for name, value in sorted(query.items()))
    canonical = f"{method}\n{path}\n{canonical_query}\nhost:{parts.netloc}\n\nhost\nUNSIGNED-PAYLOAD"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    signature = sign(f"{scheme.algorithm}\n{now:%Y%m%dT%H%M%SZ}\n{scope}\n{digest}")
    return f"{parts.scheme}://{parts.netloc}{path}?{canonical_query}&{scheme.prefix}-Signature={signature}"


@dataclass(frozen=True, slots=True)
class AmazonSigner:
    """Signs for a bucket whose address is `base` (with the bucket in its host name or its path). `keys` gives those
    that are good now.
    """

    base: str
    region: str
    keys: Callable[[], AwsKeys]

    def url(self, method: str, key: str, seconds: int, answer: Mapping[str, str], now: datetime) -> str:
        keys = self.keys()
        scope = f"{now:%Y%m%d}/{self.region}/s3/{_AMAZON.ending}"
        more = {"X-Amz-Security-Token": keys.session_token} if keys.session_token else {}

        def sign(text: str) -> str:
            secret = f"AWS4{keys.secret_access_key}".encode()
            for part in scope.split("/"):
                secret = hmac.digest(secret, part.encode(), "sha256")
            return hmac.digest(secret, text.encode(), "sha256").hex()

        return _signed_url(
            _AMAZON,
            self.base,
            key,
            method=method,
            seconds=seconds,
            answer=answer,
            now=now,
            identity=keys.access_key_id,
            scope=scope,
            more=more,
            sign=sign,
        )


@dataclass(frozen=True, slots=True)
class GoogleSigner:
    """Signs with a service account's own key."""

    base: str
    key: GoogleKey

    def url(self, method: str, key: str, seconds: int, answer: Mapping[str, str], now: datetime) -> str:
        return _signed_url(
            _GOOGLE,
            self.base,
            key,
            method=method,
            seconds=seconds,
            answer=answer,
            now=now,
            identity=self.key.client_email,
            scope=f"{now:%Y%m%d}/auto/storage/{_GOOGLE.ending}",
            more={},
            sign=self.key.sign,
        )


@dataclass(frozen=True, slots=True)
class AzureSigner:
    """Signs with a storage account's key (base64). `base` is the container's address, the container in it.

    Links have no beginning: one that began now would be refused by a store whose clock is behind this machine's.
    """

    base: str
    container: str
    account: str
    account_key: str = field(repr=False)

    def url(self, method: str, key: str, seconds: int, answer: Mapping[str, str], now: datetime) -> str:
        """As the others, but good for GET and HEAD: Azure signs a permission, not a method."""
        expiry = f"{now + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"
        protocol = "https" if self.base.startswith("https://") else "https,http"
        resource = f"/blob/{self.account}/{self.container}/{key}"
        asked = [answer.get(name, "") for name in _AZURE_HEADERS]
        text = "\n".join(["r", "", expiry, resource, "", "", protocol, _AZURE_VERSION, "b", "", "", *asked])
        signature = hmac.digest(base64.b64decode(self.account_key), text.encode(), "sha256")
        query = {"sp": "r", "se": expiry, "spr": protocol, "sv": _AZURE_VERSION, "sr": "b"}
        query |= {_AZURE_HEADERS[name]: value for name, value in answer.items()}
        query["sig"] = base64.b64encode(signature).decode()
        fields = "&".join(f"{name}={_encoded(value)}" for name, value in query.items())
        return f"{self.base}/{_encoded(key, '/')}?{fields}"
