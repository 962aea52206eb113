"""Errors of object stores: which setting or permission is wrong, and whether a retry can help."""

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from obstore.exceptions import (
    BaseError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)

from daybreak.domain.errors import FileDamaged, FileStoreError, Unavailable, first_line, is_panic

_MAXIMUM_REASON_LENGTH = 300
_CODE = re.compile(r"<Code>(\w[\w.]*)</Code>|\(code: (\w[\w.]*)\)|\"code\":\s*\"(\w+)\"")
_MESSAGE = re.compile(r"<Message>(.*?)</Message>", re.DOTALL)
_CERTIFICATE = re.compile(r"InvalidCertificate\(\s*(\w+)")
_NO_TLS = "InvalidMessage("
_NOT_CONNECTED = "kind: Connect,"
_REDIRECT = "Received redirect without LOCATION"
_CLIENT_ERROR = re.compile(r"status code: 4\d\d")
# The length comes from the manifest, so the object was cut off or replaced.
_TOO_SHORT = "status code: 416"
_CANNOT_SIGN = "Generating SAS keys with SAS tokens"
# Requests for credentials, as obstore describes them: tokens of Google and Azure; instance metadata, the container
# services of ECS and EKS, and the security token service (whose URL is hidden) of Amazon; and profiles read by boto3.
_CREDENTIAL_REQUEST = re.compile(
    r"Error performing (?:token request|\w+ (?:REDACTED|\S+/latest/\S+|http://(?:169\.254\.170\.|\[fd00:ec2::23\])\S+))"
    r"|Failed to read (?:EKS )?token file|External AWS credential provider"
)
# `Generic S3 error: Error performing PUT URL in 2.3s, after 6 retries, max_retries: 6, retry_timeout: 60s - REASON`.
_RETRIED = re.compile(r"Error performing \w+ (\S+) in \S+, after (\d+) retries, [^-]*- (.*)")
_ROOT_CAUSE = re.compile(r"(?:message|error): \"([^\"]+)\"")
_CONTEXT = re.compile(r"^Generic \w+ error: (?:Error performing token request: )?")
_CREDENTIAL_SOURCES = {
    "Generic S3 ": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, a web identity, a container role and an "
    "instance role",
    "AWS credential": "AWS_PROFILE",
    "Generic GCS ": "GOOGLE_APPLICATION_CREDENTIALS and the service account of this machine",
    "Generic MicrosoftAzure ": "AZURE_STORAGE_ACCOUNT_KEY, AZURE_CLIENT_ID and the identity of this machine",
}

_NO_BUCKET = "the bucket does not exist. Check files.url, files.endpoint and files.region."
_OTHER_REGION = "the bucket is in another region. Check files.region."
_CLOCK = "the clock of this machine differs too much from that of the store. Set the clock."
_EXPIRED = "the temporary credentials have expired or are incomplete. Set AWS_SESSION_TOKEN together with its keys."
_CAUSES = {
    "NoSuchBucket": _NO_BUCKET,
    "InvalidBucketName": _NO_BUCKET,
    "ContainerNotFound": _NO_BUCKET,
    "ContainerBeingDeleted": _NO_BUCKET,
    "ResourceNotFound": _NO_BUCKET,
    "InvalidResourceName": _NO_BUCKET,
    "OutOfRangeInput": _NO_BUCKET,
    "PermanentRedirect": _OTHER_REGION,
    "AuthorizationHeaderMalformed": _OTHER_REGION,
    "AuthorizationQueryParametersError": _OTHER_REGION,
    "IllegalLocationConstraintException": _OTHER_REGION,
    "InvalidAccessKeyId": "the store does not know the access key. Check AWS_ACCESS_KEY_ID.",
    "SignatureDoesNotMatch": "the secret key does not match the access key. Check AWS_SECRET_ACCESS_KEY.",
    "RequestTimeTooSkewed": _CLOCK,
    "RequestExpired": _CLOCK,
    "ExpiredToken": _EXPIRED,
    "InvalidToken": _EXPIRED,
    "TokenRefreshRequired": _EXPIRED,
    "AuthenticationFailed": "the store does not accept the credentials. Check them and the clock of this machine.",
    "AuthorizationFailure": "the store does not accept the credentials or the network address of this machine. Check "
    "the credentials and the network rules of the account.",
    "AuthorizationSourceIPMismatch": "the network rules of the account exclude this machine. Change the rules.",
    "AuthorizationProtocolMismatch": "the account requires https. Check files.endpoint.",
    "KeyBasedAuthenticationNotPermitted": "the account does not permit account keys. Use an identity of this machine.",
    "AccountIsDisabled": "the storage account is disabled.",
}
"""Permanent errors, by the code in the response."""
_DENIED = frozenset({"AccessDenied", "AllAccessDisabled", "AuthorizationPermissionMismatch"})
_PERMANENT = (
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)


@dataclass(frozen=True, slots=True)
class Permission:
    """Permission for an operation, by its name in each cloud."""

    amazon: str
    google: str
    azure: str

    def __str__(self) -> str:
        return f"{self.amazon} (S3), {self.google} (Google) or {self.azure} (Azure)"


READ = Permission("s3:GetObject", "storage.objects.get", "blobs/read")
WRITE = Permission("s3:PutObject", "storage.objects.create", "blobs/write")
LIST = Permission("s3:ListBucket", "storage.objects.list", "blobs/read")
SIGN = Permission("s3:GetObject", "iam.serviceAccounts.signBlob", "generateUserDelegationKey")
DELETE = Permission("s3:DeleteObject", "storage.objects.delete", "blobs/delete")


@contextlib.contextmanager
def translate_errors(failure: str, permission: Permission) -> Iterator[None]:
    """Replace errors of obstore by FileStoreError (permanent) or Unavailable (a retry can help).

    Args:
        failure: What failed, the first part of the message.
        permission: Named in the message if the store denies access.
    """
    try:
        yield
    except (BaseError, OSError) as error:
        raise _translated(failure, permission, error) from error
    except BaseException as error:
        if not is_panic(error):
            raise
        raise FileStoreError(f"{failure}: the library obstore ended with a panic ({first_line(error)}).") from error


def short_reason(error: Exception) -> str:
    """Return the server and the cause of a request that was repeated, otherwise the beginning of the message. The cause
    is in a dump of obstore's internal state, which is left out.
    """
    line = first_line(error)
    if found := _RETRIED.search(line):
        cause = _ROOT_CAUSE.search(str(error))
        server = urlsplit(found[1]).netloc or "the server"
        line = f"{server}: {cause[1] if cause else found[3]} (after {found[2]} retries)."
    return line[:_MAXIMUM_REASON_LENGTH]


def _translated(failure: str, permission: Permission, error: Exception) -> FileStoreError | Unavailable:
    text = str(error)
    if found := _CERTIFICATE.search(text):
        return FileStoreError(f"{failure}: the certificate of the server {_certificate_fault(found[1])}")
    if _NO_TLS in text:
        return FileStoreError(
            f"{failure}: the server does not speak TLS. Check the scheme and the port of files.endpoint."
        )
    if _is_credential_request(text):
        return _no_credentials(failure, text)
    if _CANNOT_SIGN in text:
        return FileStoreError(f"{failure}: a SAS token cannot sign URLs. Use an account key or an identity.")
    if _REDIRECT in text:
        return FileStoreError(f"{failure}: {_OTHER_REGION}")
    code, details = _response_error(text)
    if _TOO_SHORT in text:
        return FileDamaged(f"{failure}: the object is too short.{details}")
    if code in _CAUSES:
        return FileStoreError(f"{failure}: {_CAUSES[code]}{details}")
    if code in _DENIED or (isinstance(error, PermissionDeniedError) and not code):
        return FileStoreError(f"{failure}: the credentials lack {permission} for files.url.{details}")
    if isinstance(error, FileNotFoundError):
        return FileStoreError(f"{failure}: the object does not exist.{details}")
    if isinstance(error, _PERMANENT):
        return FileStoreError(f"{failure}: {short_reason(error)} Check the credentials and the bucket policy.{details}")
    advice = " Check files.endpoint, files.path_style and the network." if _NOT_CONNECTED in text else ""
    return Unavailable(f"{failure}: {short_reason(error)}{details}{advice}", code="files_unavailable")


def _certificate_fault(name: str) -> str:
    if name.startswith("Expired"):
        return "has expired. Renew it, or set the clock of this machine."
    if name.startswith("NotValidForName"):
        return "is for another host name. Set files.endpoint to a name in the certificate."
    return f"is not trusted ({name}). Set AWS_CA_BUNDLE (S3) or SSL_CERT_FILE to the certificate of its authority."


def _response_error(text: str) -> tuple[str, str]:
    """Return the error code in a response, and the text to append to the message. Both are empty without a code."""
    found, message = _CODE.search(text), _MESSAGE.search(text)
    if found is None:
        return "", ""
    code = next(filter(None, found.groups()))
    return code, f" ({code}: {_one_line(message[1])})" if message else f" ({code})"


def _is_credential_request(text: str) -> bool:
    container = os.environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    return _CREDENTIAL_REQUEST.search(text) is not None or (bool(container) and f" {container} " in text)


def _no_credentials(failure: str, text: str) -> FileStoreError | Unavailable:
    sources = next((names for store, names in _CREDENTIAL_SOURCES.items() if store in text), "the environment")
    reason = _one_line(_CONTEXT.sub("", text.split("\n\n", maxsplit=1)[0]))
    message = f"{failure}: no credentials for files.url. Searched: {sources}. ({reason})"
    if _CLIENT_ERROR.search(text) or "Error performing" not in text:
        return FileStoreError(message)
    return Unavailable(message, code="files_unavailable")


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MAXIMUM_REASON_LENGTH]
