"""What a store's errors mean to an operator: which setting or permission is wrong, and whether waiting helps."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from obstore.exceptions import (
    BaseError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)

from daybreak.domain.errors import FileStoreError, Unavailable

_REASON_LENGTH = 300
_CODE = re.compile(r"<Code>(\w[\w.]*)</Code>|\(code: (\w[\w.]*)\)|\"code\":\s*\"(\w+)\"")
_MESSAGE = re.compile(r"<Message>(.*?)</Message>", re.DOTALL)
_UNTRUSTED = re.compile(r"InvalidCertificate\(\s*(\w+)")
_NO_BUCKET = "there is no such bucket. Check files.url, and files.endpoint and files.region where they are set."
_OTHER_REGION = "the bucket is in another region. Check files.region."
_REDIRECTED = "Received redirect without LOCATION"
_WRONG_PAIR = "the store knows the key's name, but the secret does not belong to it."
_ASKED_FOR = "Error performing token request"
_REFUSED_STATUS = re.compile(r"status code: 4\d\d")
_CANNOT_SIGN = "Generating SAS keys with SAS tokens"
_NETWORK_RULES = (
    "the store does not accept the credentials, or the account's network rules keep this machine out. Check both."
)
_NO_ACCOUNT_KEYS = "the account allows no account keys. Give this machine an identity instead."
_EXPIRED = "the temporary credentials have expired or are incomplete (AWS_SESSION_TOKEN goes with its own two keys)."
_MEANINGS = {
    "NoSuchBucket": _NO_BUCKET,
    "InvalidBucketName": _NO_BUCKET,
    "ContainerNotFound": _NO_BUCKET,
    "ContainerBeingDeleted": _NO_BUCKET,
    "PermanentRedirect": _OTHER_REGION,
    "AuthorizationHeaderMalformed": _OTHER_REGION,
    "AuthorizationQueryParametersError": _OTHER_REGION,
    "IllegalLocationConstraintException": _OTHER_REGION,
    "InvalidAccessKeyId": "the store does not know the access key.",
    "SignatureDoesNotMatch": _WRONG_PAIR,
    "RequestTimeTooSkewed": "this machine's clock is too far from the store's. Set the clock.",
    "RequestExpired": "this machine's clock is too far from the store's. Set the clock.",
    "ExpiredToken": _EXPIRED,
    "InvalidToken": _EXPIRED,
    "TokenRefreshRequired": _EXPIRED,
    "ResourceNotFound": _NO_BUCKET,
    "InvalidResourceName": _NO_BUCKET,
    "OutOfRangeInput": _NO_BUCKET,
    "AuthorizationFailure": _NETWORK_RULES,
    "AuthorizationSourceIPMismatch": _NETWORK_RULES,
    "KeyBasedAuthenticationNotPermitted": _NO_ACCOUNT_KEYS,
    "AccountIsDisabled": "the storage account is disabled.",
    "AuthorizationProtocolMismatch": "the account wants https. Check files.endpoint.",
    "AuthenticationFailed": "the store does not accept the credentials. Check them, and this machine's clock.",
}
"""By the code in the store's answer: what will not get better by itself."""
_DENIED = frozenset({"AccessDenied", "AllAccessDisabled", "AuthorizationPermissionMismatch"})
_TERMINAL = (
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)


@dataclass(frozen=True, slots=True)
class Need:
    """The permission an act takes, in the words of Amazon, Google and Azure."""

    amazon: str
    google: str
    azure: str

    def __str__(self) -> str:
        return f"{self.amazon} (S3), {self.google} (Google) or {self.azure} (Azure)"


READ = Need("s3:GetObject", "storage.objects.get", "blobs/read")
WRITE = Need("s3:PutObject", "storage.objects.create", "blobs/write")
LIST = Need("s3:ListBucket", "storage.objects.list", "blobs/read")
SIGN = Need("s3:GetObject", "iam.serviceAccounts.signBlob", "generateUserDelegationKey")
DELETE = Need("s3:DeleteObject", "storage.objects.delete", "blobs/delete")


@contextlib.contextmanager
def translated(what: str, need: Need) -> Iterator[None]:
    """The library's errors as ours: what will never work, and what may work later. `what` begins the message, `need`
    is what is missing when the store denies. Raises FileStoreError, Unavailable.
    """
    try:
        yield
    except (BaseError, OSError) as error:
        raise _ours(what, need, error) from error


def first_line(error: Exception) -> str:
    """The error's own words without the library's inner life."""
    text = str(error).strip()
    return (text.splitlines()[0] if text else type(error).__name__)[:_REASON_LENGTH]


def _ours(what: str, need: Need, error: Exception) -> FileStoreError | Unavailable:
    text = str(error)
    found, said = _CODE.search(text), _MESSAGE.search(text)
    code = next(filter(None, found.groups())) if found else ""
    words = f" ({code}: {' '.join(said[1].split())[:_REASON_LENGTH]})" if said else f" ({code})" if code else ""
    if untrusted := _UNTRUSTED.search(text):
        return FileStoreError(
            f"{what}: the server's certificate is not accepted ({untrusted[1]}). Whoever vouches for it is named in "
            "AWS_CA_BUNDLE (S3) or SSL_CERT_FILE."
        )
    if _ASKED_FOR in text:
        return _no_token(what, text)
    if _CANNOT_SIGN in text:
        return FileStoreError(f"{what}: a SAS token signs no links. Give an account's key or an identity.")
    if _REDIRECTED in text:
        return FileStoreError(f"{what}: {_OTHER_REGION}")
    if code in _MEANINGS:
        return FileStoreError(f"{what}: {_MEANINGS[code]}{words}")
    if code in _DENIED or (isinstance(error, PermissionDeniedError) and not code):
        return FileStoreError(f"{what}: the credentials lack {need} for files.url.{words}")
    if isinstance(error, FileNotFoundError):
        return FileStoreError(f"{what}: it is not there.{words}")
    if isinstance(error, _TERMINAL):
        return FileStoreError(f"{what}: {first_line(error)} Check the credentials and the bucket's policy.{words}")
    return Unavailable(f"{what}: {first_line(error)}{words}", code="files_unavailable")


def _no_token(what: str, text: str) -> FileStoreError | Unavailable:
    """Azure and Google give tokens to a client with a secret, and to the machine; nobody else is left to ask."""
    looked_at = (
        "no AZURE_STORAGE_ACCOUNT_KEY, and no token for the client AZURE_CLIENT_ID or for the machine's identity"
        if "MicrosoftAzure" in text
        else "no token for GOOGLE_APPLICATION_CREDENTIALS or for the machine's service account"
    )
    reason = " ".join(text[text.index(_ASKED_FOR) :].split("\n\n", maxsplit=1)[0].split())[:_REASON_LENGTH]
    message = f"{what}: there are no credentials for files.url: {looked_at}. ({reason})"
    if _REFUSED_STATUS.search(text):
        return FileStoreError(message)
    return Unavailable(message, code="files_unavailable")
