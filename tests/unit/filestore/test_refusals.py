"""What an operator reads when a store refuses: the setting or the permission, whatever the act."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from daybreak.domain.errors import FileStoreError, OperatorError, Unavailable
from daybreak.filestore.clouds import BucketAddress
from daybreak.filestore.object_store import ObjectStore
from tests.parts.certificates import own_certificate

KEY = "snapshots/00000000-0000-4000-8000-000000000001/empty/members.csv.gz"
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "eu-west-1"}


@dataclass
class Refusing:
    """A server that answers everything with this; with several bodies, one after the other."""

    url: str = ""
    status: int = 403
    bodies: list[str] = field(default_factory=list)
    requests: int = 0


@pytest.fixture
def refusing() -> Iterator[Refusing]:
    with refusing_server() as found:
        yield found


@contextmanager
def refusing_server(certificate: Path | None = None) -> Iterator[Refusing]:
    found = Refusing()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            body = found.bodies[min(found.requests, len(found.bodies) - 1)].encode()
            found.requests += 1
            self.send_response(found.status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815 - the names the server looks for

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}"
        if certificate is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()


def store_at(refusing: Refusing, folder: Path, **environment: str) -> ObjectStore:
    address = BucketAddress("s3://bucket/prefix", refusing.url, path_style=True, patience_seconds=0.2)
    return ObjectStore(address, environment=KEYS | environment, home=folder)


def amazon(code: str, message: str) -> str:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>'


ACTS: dict[str, Callable[[ObjectStore], object]] = {
    "s3:PutObject": lambda store: store.put(KEY, b"rows", {}),
    "s3:GetObject": lambda store: b"".join(store.read(KEY)),
    "s3:ListBucket": lambda store: store.snapshot_ids(),
}


@pytest.mark.parametrize("permission", ACTS)
def test_a_denial_names_the_permission_that_the_act_takes(refusing: Refusing, tmp_path: Path, permission: str) -> None:
    refusing.bodies = [amazon("AccessDenied", "User: arn:aws:iam::1:user/x is not authorized")]
    with pytest.raises(FileStoreError) as caught:
        ACTS[permission](store_at(refusing, tmp_path))
    assert f"lack {permission} (S3)" in caught.value.message
    assert "arn:aws:iam::1:user/x is not authorized" in caught.value.message
    assert refusing.requests == 1


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize(
    ("status", "code", "named"),
    [
        (404, "NoSuchBucket", "no such bucket. Check files.url"),
        (400, "AuthorizationHeaderMalformed", "Check files.region"),
        (301, "PermanentRedirect", "Check files.region"),
        (403, "InvalidAccessKeyId", "does not know the access key"),
        (403, "SignatureDoesNotMatch", "the secret does not belong to it"),
        (403, "RequestTimeTooSkewed", "Set the clock"),
        (400, "ExpiredToken", "have expired"),
    ],
)
def test_what_will_not_get_better_is_told_by_its_cause(
    refusing: Refusing, tmp_path: Path, act: str, status: int, code: str, named: str
) -> None:
    refusing.status, refusing.bodies = status, [amazon(code, "the store's own words")]
    with pytest.raises(FileStoreError) as caught:
        ACTS[act](store_at(refusing, tmp_path))
    assert named in caught.value.message
    # The library keeps the words of a redirect to itself.
    assert "the store's own words" in caught.value.message or status == 301
    assert refusing.requests == 1


def google_store_at(refusing: Refusing, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """One whose token lies here, so that only the store is asked."""
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "token")
    return ObjectStore(BucketAddress("gs://bucket/prefix", refusing.url, patience_seconds=0.2), environment={})


def azure_store_at(refusing: Refusing, **environment: str) -> ObjectStore:
    address = BucketAddress("az://container/prefix", f"{refusing.url}/account", patience_seconds=0.2)
    return ObjectStore(address, environment={"AZURE_STORAGE_ACCOUNT_NAME": "account"} | environment)


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize(
    ("status", "code", "named"),
    [
        (404, "ContainerNotFound", "no such bucket. Check files.url"),
        (404, "ResourceNotFound", "no such bucket. Check files.url"),
        (400, "InvalidResourceName", "no such bucket. Check files.url"),
        (400, "OutOfRangeInput", "no such bucket. Check files.url"),
        (403, "AuthenticationFailed", "does not accept the credentials"),
        (403, "AuthorizationFailure", "network rules"),
        (403, "KeyBasedAuthenticationNotPermitted", "allows no account keys"),
        (403, "AuthorizationPermissionMismatch", "the credentials lack s3:"),
    ],
)
def test_azure_is_told_by_its_own_codes(refusing: Refusing, act: str, status: int, code: str, named: str) -> None:
    refusing.status, refusing.bodies = status, [amazon(code, "the store's own words")]
    with pytest.raises(FileStoreError) as caught:
        ACTS[act](azure_store_at(refusing, AZURE_STORAGE_ACCOUNT_KEY="a2V5"))
    assert named in caught.value.message
    assert "the store's own words" in caught.value.message
    assert refusing.requests == 1


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize(
    ("status", "code", "named"),
    [(404, "NoSuchBucket", "no such bucket. Check files.url"), (403, "AccessDenied", "the credentials lack s3:")],
)
def test_google_is_told_by_its_own_codes(
    refusing: Refusing, monkeypatch: pytest.MonkeyPatch, act: str, status: int, code: str, named: str
) -> None:
    refusing.status, refusing.bodies = status, [amazon(code, "the store's own words")]
    with pytest.raises(FileStoreError) as caught:
        ACTS[act](google_store_at(refusing, monkeypatch))
    assert named in caught.value.message
    assert refusing.requests == 1


@pytest.mark.parametrize(("status", "error"), [(400, FileStoreError), (403, FileStoreError), (500, Unavailable)])
def test_azure_without_credentials_says_what_was_looked_for(
    refusing: Refusing, monkeypatch: pytest.MonkeyPatch, status: int, error: type[Exception]
) -> None:
    monkeypatch.setenv("AZURE_MSI_ENDPOINT", refusing.url)
    refusing.status, refusing.bodies = status, ["Identity not found"]
    with pytest.raises(error, match=r"no AZURE_STORAGE_ACCOUNT_KEY, and no token .*Identity not found"):
        azure_store_at(refusing).put(KEY, b"rows", {})


def test_a_sas_token_that_cannot_sign_links_is_told_at_once(
    refusing: Refusing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=2023-11-03&sig=a")
    link = azure_store_at(refusing).store_link(
        KEY, seconds=60, file_name="members.csv", content_type="text/csv", content_encoding=None
    )
    with pytest.raises(FileStoreError, match="a SAS token signs no links"):
        asyncio.run(link)
    with pytest.raises(FileStoreError, match="a SAS token signs no links"):
        azure_store_at(refusing).probe()
    assert refusing.requests == 0


def test_one_object_of_a_bulk_delete_that_is_denied_fails_the_delete(refusing: Refusing, tmp_path: Path) -> None:
    listing = (
        f"<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>prefix/{KEY}</Key><ETag>e</ETag>"
        "<LastModified>2026-11-20T04:00:00.000Z</LastModified><Size>1</Size></Contents></ListBucketResult>"
    )
    error = f"<Error><Key>prefix/{KEY}</Key><Code>AccessDenied</Code><Message>no</Message></Error>"
    result = f"<DeleteResult>{error}</DeleteResult>"
    refusing.status, refusing.bodies = 200, [listing, result]
    with pytest.raises(FileStoreError, match="lack s3:DeleteObject"):
        store_at(refusing, tmp_path).remove_below("snapshots/", frozenset())


def test_a_store_that_is_busy_is_tried_again(refusing: Refusing, tmp_path: Path) -> None:
    refusing.status, refusing.bodies = 503, [amazon("SlowDown", "Please reduce your request rate.")]
    with pytest.raises(Unavailable, match="SlowDown"):
        store_at(refusing, tmp_path).put(KEY, b"rows", {})
    assert refusing.requests > 1


def test_a_certificate_that_nobody_vouches_for_is_told_and_a_bundle_helps(tmp_path: Path) -> None:
    own_certificate(tmp_path / "own.pem")
    with refusing_server(tmp_path / "own.pem") as refusing:
        refusing.bodies = [amazon("AccessDenied", "no")]
        with pytest.raises(FileStoreError, match="AWS_CA_BUNDLE"):
            store_at(refusing, tmp_path).put(KEY, b"rows", {})
        with pytest.raises(FileStoreError, match="lack s3:PutObject"):
            store_at(refusing, tmp_path, AWS_CA_BUNDLE=str(tmp_path / "own.pem")).put(KEY, b"rows", {})
    with pytest.raises(OperatorError, match="AWS_CA_BUNDLE"):
        store_at(refusing, tmp_path, AWS_CA_BUNDLE="nowhere.pem")
