"""Error messages of object stores: each names the setting or permission to correct."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from daybreak.domain.errors import FileStoreError, OperatorError, Unavailable
from daybreak.filestore.bucket import RequestLimits
from daybreak.filestore.object_store import ObjectStore
from daybreak.settings import FilesSettings
from tests.parts.certificates import own_certificate
from tests.parts.scripted_service import Reply, Request, scripted_service

KEY = "snapshots/00000000-0000-4000-8000-000000000001/empty/members.csv.gz"
LIMITS = RequestLimits(retry_seconds=0.2)
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "eu-west-1",
    "GOOGLE_BEARER_TOKEN": "token",
    "AZURE_STORAGE_ACCOUNT_NAME": "account",
    "AZURE_STORAGE_ACCOUNT_KEY": "a2V5",
}


@dataclass
class ErrorServer:
    """Server that answers every request with one status. It sends each body once, then repeats the last one.

    `deleted` are the numbers of objects in requests of bulk deletes.
    """

    url: str = ""
    status: int = 403
    bodies: list[str] = field(default_factory=list)
    requests: int = 0
    deleted: list[int] = field(default_factory=list)

    def answer(self, request: Request) -> Reply:
        self.deleted.append(request.body.count(b"<Key>"))
        body = self.bodies[min(self.requests, len(self.bodies) - 1)].encode()
        self.requests += 1
        return Reply(self.status, body)


@pytest.fixture
def server() -> Iterator[ErrorServer]:
    with error_server() as found:
        yield found


@contextmanager
def error_server(certificate: Path | None = None) -> Iterator[ErrorServer]:
    found = ErrorServer()
    with scripted_service(certificate) as service:
        service.script, found.url = found.answer, service.url
        yield found


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


def s3_store_at(server: ErrorServer) -> ObjectStore:
    return ObjectStore(FilesSettings(url="s3://bucket/prefix", endpoint=server.url, path_style=True), LIMITS)


def google_store_at(server: ErrorServer) -> ObjectStore:
    return ObjectStore(FilesSettings(url="gs://bucket/prefix", endpoint=server.url), LIMITS)


def azure_store_at(server: ErrorServer) -> ObjectStore:
    return ObjectStore(FilesSettings(url="az://container/prefix", endpoint=f"{server.url}/account"), LIMITS)


def error_body(code: str, message: str) -> str:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>'


OPERATIONS: dict[str, Callable[[ObjectStore], object]] = {
    "s3:PutObject": lambda store: store.put(KEY, b"rows", {}),
    "s3:GetObject": lambda store: b"".join(store.read(KEY)),
    "s3:ListBucket": lambda store: store.ids("snapshots"),
}


@pytest.mark.parametrize("permission", OPERATIONS)
def test_denied_operation_names_its_permission(server: ErrorServer, permission: str) -> None:
    server.bodies = [error_body("AccessDenied", "User: arn:aws:iam::1:user/x is not authorized")]
    with pytest.raises(FileStoreError) as caught:
        OPERATIONS[permission](s3_store_at(server))
    assert f"lack {permission} (S3)" in caught.value.message
    assert "arn:aws:iam::1:user/x is not authorized" in caught.value.message
    assert server.requests == 1


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    ("store_at", "status", "code", "message"),
    [
        (s3_store_at, 404, "NoSuchBucket", "the bucket does not exist. Check files.url"),
        (s3_store_at, 400, "AuthorizationHeaderMalformed", "Check files.region"),
        (s3_store_at, 301, "PermanentRedirect", "Check files.region"),
        (s3_store_at, 403, "InvalidAccessKeyId", "Check AWS_ACCESS_KEY_ID"),
        (s3_store_at, 403, "SignatureDoesNotMatch", "Check AWS_SECRET_ACCESS_KEY"),
        (s3_store_at, 403, "RequestTimeTooSkewed", "Set the clock"),
        (s3_store_at, 400, "ExpiredToken", "have expired"),
        (azure_store_at, 404, "ContainerNotFound", "the bucket does not exist. Check files.url"),
        (azure_store_at, 404, "ResourceNotFound", "the bucket does not exist. Check files.url"),
        (azure_store_at, 400, "InvalidResourceName", "the bucket does not exist. Check files.url"),
        (azure_store_at, 400, "OutOfRangeInput", "the bucket does not exist. Check files.url"),
        (azure_store_at, 403, "AuthenticationFailed", "does not accept the credentials"),
        (azure_store_at, 403, "AuthorizationFailure", "network rules"),
        (azure_store_at, 403, "KeyBasedAuthenticationNotPermitted", "does not permit account keys"),
        (azure_store_at, 403, "AuthorizationPermissionMismatch", "the credentials lack s3:"),
        (google_store_at, 404, "NoSuchBucket", "the bucket does not exist. Check files.url"),
        (google_store_at, 403, "AccessDenied", "the credentials lack s3:"),
    ],
)
def test_permanent_error_names_its_cause(
    server: ErrorServer,
    operation: str,
    store_at: Callable[[ErrorServer], ObjectStore],
    status: int,
    code: str,
    message: str,
) -> None:
    server.status, server.bodies = status, [error_body(code, "message of the store")]
    with pytest.raises(FileStoreError) as caught:
        OPERATIONS[operation](store_at(server))
    assert message in caught.value.message
    # obstore drops the body of a redirect.
    assert "message of the store" in caught.value.message or status == 301
    assert server.requests == 1


@pytest.mark.parametrize(("status", "error"), [(400, FileStoreError), (403, FileStoreError), (500, Unavailable)])
def test_missing_azure_credentials_name_every_source(
    server: ErrorServer, monkeypatch: pytest.MonkeyPatch, status: int, error: type[Exception]
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    monkeypatch.setenv("AZURE_MSI_ENDPOINT", server.url)
    server.status, server.bodies = status, ["Identity not found"]
    with pytest.raises(
        error, match=r"AZURE_STORAGE_ACCOUNT_KEY, AZURE_CLIENT_ID and the identity .*Identity not found"
    ):
        azure_store_at(server).put(KEY, b"rows", {})


async def test_azure_sas_token_is_rejected_before_a_request(
    server: ErrorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=2023-11-03&sig=a")
    with pytest.raises(FileStoreError, match="a SAS token cannot sign URLs"):
        await azure_store_at(server).signed_url(KEY, seconds=60)
    with pytest.raises(FileStoreError, match="a SAS token cannot sign URLs"):
        azure_store_at(server).probe()
    assert server.requests == 0


def test_one_denied_object_fails_a_bulk_delete(server: ErrorServer) -> None:
    listing = (
        f"<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>prefix/{KEY}</Key><ETag>e</ETag>"
        "<LastModified>2026-11-20T04:00:00.000Z</LastModified><Size>1</Size></Contents></ListBucketResult>"
    )
    error = f"<Error><Key>prefix/{KEY}</Key><Code>AccessDenied</Code><Message>no</Message></Error>"
    server.status, server.bodies = 200, [listing, f"<DeleteResult>{error}</DeleteResult>"]
    with pytest.raises(FileStoreError, match="lack s3:DeleteObject"):
        s3_store_at(server).remove_below("snapshots/", frozenset())


def test_bulk_deletes_are_split(server: ErrorServer) -> None:
    """S3 deletes at most 1,000 objects in a request, and some servers take longer for them than requests may take."""
    server.status, server.bodies = 200, ["<DeleteResult><Deleted><Key>key</Key></Deleted></DeleteResult>"]
    s3_store_at(server).delete([KEY.replace("000001", f"{number:06}") for number in range(2300)])
    assert server.deleted == [*[250] * 9, 50]


def test_repeated_key_is_deleted_once(server: ErrorServer) -> None:
    server.status, server.bodies = 200, ["<DeleteResult><Deleted><Key>key</Key></Deleted></DeleteResult>"]
    s3_store_at(server).delete([KEY, KEY])
    assert server.deleted == [1]


def test_busy_store_is_retried(server: ErrorServer) -> None:
    server.status, server.bodies = 503, [error_body("SlowDown", "Please reduce your request rate.")]
    with pytest.raises(Unavailable, match="SlowDown"):
        s3_store_at(server).put(KEY, b"rows", {})
    assert server.requests > 1


def test_untrusted_certificate_names_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_certificate(tmp_path / "own.pem")
    with error_server(tmp_path / "own.pem") as server:
        server.bodies = [error_body("AccessDenied", "no")]
        with pytest.raises(FileStoreError, match="AWS_CA_BUNDLE"):
            s3_store_at(server).put(KEY, b"rows", {})
        monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "own.pem"))
        with pytest.raises(FileStoreError, match="lack s3:PutObject"):
            s3_store_at(server).put(KEY, b"rows", {})
        monkeypatch.setenv("AWS_CA_BUNDLE", "missing.pem")
        with pytest.raises(OperatorError, match="AWS_CA_BUNDLE"):
            s3_store_at(server)


@pytest.mark.parametrize(
    ("certificate", "fault"),
    [
        ({"expired": True}, "has expired. Renew it"),
        ({"address": "127.0.0.9"}, "is for another host name. Set files.end"),
    ],
)
def test_invalid_certificate_names_the_fix(
    certificate: dict[str, Any], fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_certificate(tmp_path / "own.pem", **certificate)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "own.pem"))
    with error_server(tmp_path / "own.pem") as server, pytest.raises(FileStoreError, match=fault):
        s3_store_at(server).put(KEY, b"rows", {})


def test_server_without_tls_names_the_setting(server: ErrorServer) -> None:
    store = s3_store_at(replace(server, url=server.url.replace("http:", "https:")))
    with pytest.raises(FileStoreError, match=r"does not speak TLS. Check the scheme and the port of files.endpoint"):
        store.put(KEY, b"rows", {})


@pytest.mark.release
@pytest.mark.parametrize(
    ("endpoint", "cause"),
    [
        ("http://127.0.0.1:1", "127.0.0.1:1: Connection refused"),
        ("http://nowhere.invalid", "nowhere.invalid: failed to lookup address information"),
    ],
)
def test_unreachable_store_names_server_and_cause_once(endpoint: str, cause: str) -> None:
    store = ObjectStore(
        FilesSettings(url="s3://bucket", endpoint=endpoint, path_style=True), RequestLimits(retry_seconds=1)
    )
    with pytest.raises(Unavailable) as caught:
        store.put("key", b"", {})
    assert caught.value.message.startswith(f"The object key cannot be written: {cause}")
    assert "error" not in caught.value.message
