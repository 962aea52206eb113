"""Buckets of the three clouds: addresses, signed URLs and credentials, without a request to a store."""

import asyncio
import base64
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from daybreak.domain.errors import FileStoreError, OperatorError, Unavailable
from daybreak.filestore.bucket import RequestLimits
from daybreak.filestore.object_store import ObjectStore
from daybreak.settings import FilesSettings
from tests.parts.certificates import own_certificate
from tests.parts.credential_server import CredentialServer, credential_server
from tests.parts.waiting import wait_until

KEY = "snapshots/d90cd8fe-ecce-4b28-b5b4-cded8d7e46f7/d9/d90cd8fe-ecce-4b28-b5b4-cded8d7e46f7.members.csv.gz"
AWS = {"AWS_ACCESS_KEY_ID": "access", "AWS_SECRET_ACCESS_KEY": "very-secret", "AWS_REGION": "eu-west-1"}
ACCOUNT_KEY = base64.b64encode(b"k" * 32).decode()
AZURE = {"AZURE_STORAGE_ACCOUNT_NAME": "account", "AZURE_STORAGE_ACCOUNT_KEY": ACCOUNT_KEY}
S3 = FilesSettings(url="s3://bucket")
LIMITS = RequestLimits(retry_seconds=0.2)

Environment = Callable[[Mapping[str, str]], None]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Environment:
    def set_all(variables: Mapping[str, str]) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_all


def signed_url(store: ObjectStore) -> str:
    """Return a URL requested for 15 minutes."""
    url = asyncio.run(store.signed_url(KEY, seconds=900))
    assert url is not None
    return url


def parsed(url: str) -> tuple[str, str, dict[str, list[str]]]:
    """Return host, path and query."""
    parts = urlsplit(url)
    return parts.netloc, parts.path, parse_qs(parts.query, strict_parsing=True)


@pytest.mark.parametrize(
    ("settings", "more", "host", "path"),
    [
        (FilesSettings(url="s3://b/pre"), {}, "b.s3.eu-west-1.amazonaws.com", f"/pre/{KEY}"),
        (FilesSettings(url="s3://b", region="us-west-2"), {}, "b.s3.us-west-2.amazonaws.com", f"/{KEY}"),
        (FilesSettings(url="s3://b/pre", path_style=True), {}, "s3.eu-west-1.amazonaws.com", f"/b/pre/{KEY}"),
        (
            FilesSettings(url="s3://b/pre", endpoint="http://127.0.0.1:9000", path_style=True),
            {},
            "127.0.0.1:9000",
            f"/b/pre/{KEY}",
        ),
        (FilesSettings(url="s3://b/pre/", endpoint="https://store.example/"), {}, "b.store.example", f"/pre/{KEY}"),
        (FilesSettings(url="s3://b"), {"AWS_ENDPOINT_URL": "https://store.example"}, "b.store.example", f"/{KEY}"),
        (
            FilesSettings(url="s3://b", endpoint="https://store.example"),
            {"AWS_ENDPOINT_URL_S3": "https://other.example"},
            "b.store.example",
            f"/{KEY}",
        ),
    ],
)
def test_s3_url_has_the_configured_host_and_path(
    environment: Environment, settings: FilesSettings, more: dict[str, str], host: str, path: str
) -> None:
    environment(AWS | more)
    found_host, found_path, query = parsed(signed_url(ObjectStore(settings)))
    assert (found_host, found_path) == (host, path)
    assert query["X-Amz-Expires"] == ["60"]


def test_session_token_is_sent_and_no_secret_is_shown(environment: Environment) -> None:
    environment(AWS | {"AWS_SESSION_TOKEN": "a/token=="})
    store = ObjectStore(S3, LIMITS)
    url = signed_url(store)
    assert parsed(url)[2]["X-Amz-Security-Token"] == ["a/token=="]
    assert "very-secret" not in url + repr(store) + repr(store._bucket)


@pytest.mark.parametrize(
    ("endpoint", "setting"),
    [
        ("http://10.0.0.5:9000", r"files\.path_style"),
        ("http://[::1]:9000", r"files\.path_style"),
        ("store.example:9000", r"files\.endpoint"),
        ("store.example", r"files\.endpoint"),
        ("http://", r"files\.endpoint"),
        ("http://store.example:port", r"files\.endpoint"),
        ("http://store example", r"files\.endpoint"),
    ],
)
def test_invalid_s3_endpoint_is_rejected(environment: Environment, endpoint: str, setting: str) -> None:
    environment(AWS)
    with pytest.raises(OperatorError, match=setting):
        ObjectStore(FilesSettings(url="s3://bucket", endpoint=endpoint))
    environment({"AWS_ENDPOINT_URL": endpoint})
    with pytest.raises(OperatorError, match=setting):
        ObjectStore(FilesSettings(url="s3://bucket"))


@pytest.fixture
def google_key(tmp_path: Path, environment: Environment) -> rsa.RSAPrivateKey:
    """Return the private key of the service account in the environment."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {
        "type": "service_account",
        "client_email": "daybreak@project.example",
        "client_id": "1",
        "private_key": pem.decode(),
        "private_key_id": "1",
        "token_uri": "https://oauth2.googleapis.com/token",
    }
    file = tmp_path / "key.json"
    file.write_text(json.dumps(account))
    environment({"GOOGLE_APPLICATION_CREDENTIALS": str(file)})
    return private


@pytest.mark.parametrize("endpoint", ["", "https://private.example/", "http://[::1]:8080"])
def test_google_url_is_signed_with_the_key_of_the_account(google_key: rsa.RSAPrivateKey, endpoint: str) -> None:
    """URLs have the public host, because obstore signs URLs only for that host."""
    host, path, query = parsed(signed_url(ObjectStore(FilesSettings(url="gs://bucket/pre fix", endpoint=endpoint))))
    assert (host, path) == ("storage.googleapis.com", f"/bucket/pre%20fix/{KEY}")
    assert query["X-Goog-Expires"] == ["60"]
    signature = bytes.fromhex(query.pop("X-Goog-Signature")[0])
    # https://cloud.google.com/storage/docs/authentication/canonical-requests
    parameters = sorted(query.items())
    canonical_query = "&".join(f"{quote(name, safe='')}={quote(values[0], safe='')}" for name, values in parameters)
    canonical = f"GET\n{path}\n{canonical_query}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD"
    date = query["X-Goog-Date"][0]
    scope = query["X-Goog-Credential"][0].partition("/")[2]
    text = f"GOOG4-RSA-SHA256\n{date}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    google_key.public_key().verify(signature, text.encode(), padding.PKCS1v15(), hashes.SHA256())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file"),
        ("{", "decode"),
        ('{"type": "external_account"}', "external_account"),
        (
            json.dumps(dict.fromkeys(("client_email", "client_id", "private_key_id", "private_key"), "none"))[:-1]
            + ', "type": "service_account"}',
            "pem",
        ),
    ],
)
def test_unusable_google_credentials_are_rejected(
    environment: Environment, tmp_path: Path, content: str | None, reason: str
) -> None:
    file = tmp_path / "key.json"
    if content is not None:
        file.write_text(content)
    environment({"GOOGLE_APPLICATION_CREDENTIALS": str(file)})
    with pytest.raises(OperatorError, match=rf"files\.url: .*{reason}"):
        ObjectStore(FilesSettings(url="gs://bucket"))


@pytest.mark.parametrize(
    ("more", "endpoint", "host"),
    [
        ({}, "", "account.blob.core.windows.net"),
        ({"AZURE_STORAGE_ENDPOINT": "https://of.example"}, "", "of.example"),
        ({"AZURE_STORAGE_ENDPOINT": "https://of.example"}, "https://mine.example/", "mine.example"),
    ],
)
def test_azure_url_has_the_configured_host(
    environment: Environment, more: dict[str, str], endpoint: str, host: str
) -> None:
    environment(AZURE | more)
    url = signed_url(ObjectStore(FilesSettings(url="az://container/pre", endpoint=endpoint)))
    found_host, path, query = parsed(url)
    assert (found_host, path) == (host, f"/container/pre/{KEY}")
    assert query["sp"] == ["r"]
    assert ACCOUNT_KEY not in url


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "AZURE_STORAGE_ACCOUNT_NAME"),
        ({"AZURE_STORAGE_CONNECTION_STRING": "AccountName=account"}, "AZURE_STORAGE_ACCOUNT_NAME"),
        (AZURE | {"AZURE_STORAGE_ACCOUNT_KEY": "not whole!"}, "Invalid Access Key"),
    ],
)
def test_unusable_azure_account_is_rejected(environment: Environment, variables: dict[str, str], message: str) -> None:
    environment(variables)
    with pytest.raises(OperatorError, match=message) as caught:
        ObjectStore(FilesSettings(url="az://container"))
    assert "not whole!" not in caught.value.message


@pytest.mark.parametrize("endpoint", ["store.example:9000", "http://", "http://store.example:port"])
def test_invalid_google_or_azure_endpoint_is_rejected(
    environment: Environment, google_key: rsa.RSAPrivateKey, endpoint: str
) -> None:
    environment(AZURE)
    for url in ("gs://bucket", "az://container"):
        with pytest.raises(OperatorError, match=f"files.endpoint: '{endpoint}'"):
            ObjectStore(FilesSettings(url=url, endpoint=endpoint))


PROFILES = """
[default]
aws_access_key_id = DEFAULT
aws_secret_access_key = very-secret
[other]
aws_access_key_id = OTHER
aws_secret_access_key = very-secret
aws_session_token = session
region = eu-north-1
[empty]
region = eu-north-1
"""


@pytest.fixture
def profiles(tmp_path: Path, environment: Environment) -> None:
    pytest.importorskip("boto3", reason="boto3 is an extra: run make setup")
    (tmp_path / "credentials").write_text(PROFILES)
    environment({"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"), "AWS_EC2_METADATA_DISABLED": "true"})


@pytest.mark.usefixtures("profiles")
def test_aws_profile_is_used_unless_keys_are_set(environment: Environment) -> None:
    environment({"AWS_PROFILE": "other"})
    host, _, query = parsed(signed_url(ObjectStore(S3, LIMITS)))
    assert host == "bucket.s3.eu-north-1.amazonaws.com"
    assert query["X-Amz-Credential"][0].startswith("OTHER/")
    assert query["X-Amz-Security-Token"] == ["session"]
    with_region = parsed(signed_url(ObjectStore(FilesSettings(url="s3://bucket", region="us-west-2"))))
    assert with_region[0] == "bucket.s3.us-west-2.amazonaws.com"
    environment(AWS)
    assert parsed(signed_url(ObjectStore(S3, LIMITS)))[2]["X-Amz-Credential"][0].startswith("access/")


@pytest.mark.usefixtures("profiles")
@pytest.mark.parametrize("profile", ["missing", "empty"])
def test_unusable_aws_profile_is_rejected(environment: Environment, profile: str) -> None:
    environment({"AWS_PROFILE": profile})
    with pytest.raises(OperatorError, match="AWS_PROFILE"):
        ObjectStore(S3, LIMITS)


def test_aws_profile_without_boto3_is_rejected(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    environment({"AWS_PROFILE": "other"})
    monkeypatch.setitem(sys.modules, "botocore.exceptions", None)
    with pytest.raises(OperatorError, match="pip install boto3"):
        ObjectStore(S3, LIMITS)


@pytest.fixture
def credentials() -> Iterator[CredentialServer]:
    with credential_server() as found:
        yield found


def instance(server: CredentialServer, _: Path) -> dict[str, str]:
    return {"AWS_METADATA_ENDPOINT": server.url}


def container(server: CredentialServer, folder: Path) -> dict[str, str]:
    (folder / "token").write_text("container-token")
    return {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{server.url}/container",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(folder / "token"),
    }


@pytest.mark.parametrize("source", [instance, container])
def test_role_credentials_are_requested_once(
    environment: Environment,
    credentials: CredentialServer,
    tmp_path: Path,
    source: Callable[[CredentialServer, Path], dict[str, str]],
) -> None:
    environment(source(credentials, tmp_path))
    store = ObjectStore(S3, LIMITS)
    query = parsed(signed_url(store))[2]
    assert query["X-Amz-Credential"][0].startswith("ACCESS/")
    assert query["X-Amz-Security-Token"] == ["token"]
    requests = len(credentials.requests)
    signed_url(store)
    assert len(credentials.requests) == requests


def test_role_credentials_are_renewed_before_they_expire(
    environment: Environment, credentials: CredentialServer, tmp_path: Path
) -> None:
    environment(container(credentials, tmp_path))
    store = ObjectStore(S3, LIMITS)
    credentials.lifetime = timedelta(minutes=4)
    signed_url(store)
    credentials.access_key = "SECOND"
    credentials.lifetime = timedelta(hours=1)
    wait_until(lambda: "SECOND" in signed_url(store), 10, what="renewed credentials")


def test_web_identity_is_exchanged_for_role_credentials(environment: Environment, tmp_path: Path) -> None:
    own_certificate(tmp_path / "own.pem")
    (tmp_path / "token").write_text("web-token")
    with credential_server(tmp_path / "own.pem") as server:
        environment(
            {
                "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"),
                "AWS_ROLE_ARN": "arn:role",
                "AWS_ENDPOINT_URL_STS": server.url,
                "AWS_CA_BUNDLE": str(tmp_path / "own.pem"),
            }
        )
        assert parsed(signed_url(ObjectStore(S3, LIMITS)))[2]["X-Amz-Credential"][0].startswith("ACCESS/")
        environment({"AWS_ROLE_ARN": "arn:other"})
        with pytest.raises(FileStoreError, match=r"no credentials .* web identity"):
            signed_url(ObjectStore(S3, LIMITS))
        (tmp_path / "token").unlink()
        with pytest.raises(FileStoreError, match="token file"):
            signed_url(ObjectStore(S3, LIMITS))


@pytest.mark.parametrize("source", [instance, container])
@pytest.mark.parametrize(("status", "error"), [(404, FileStoreError), (500, Unavailable)])
def test_missing_credentials_name_every_source(
    environment: Environment,
    credentials: CredentialServer,
    tmp_path: Path,
    source: Callable[[CredentialServer, Path], dict[str, str]],
    status: int,
    error: type[Exception],
) -> None:
    environment(source(credentials, tmp_path))
    credentials.error_status = status
    message = r"AWS_ACCESS_KEY_ID .* AWS_PROFILE, a web identity, a container role and an instance role.* not now"
    with pytest.raises(error, match=message):
        signed_url(ObjectStore(S3, LIMITS))
    with pytest.raises(error, match=message):
        ObjectStore(S3, LIMITS).put(KEY, b"rows", {})
