"""Signed URLs against the clouds' own examples and keys."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from daybreak.domain.errors import OperatorError
from daybreak.filestore.cloud_credentials import AwsKeys, AzureAccount, GoogleKey, aws_keys, aws_region, google_key
from daybreak.filestore.presign import AmazonSigner, AzureSigner, GoogleSigner

NOW = datetime(2026, 11, 20, 4, 0, 30, tzinfo=UTC)


def test_amazons_own_example() -> None:
    """Amazon S3 API reference, "Authenticating Requests: Using Query Parameters", the example at its end."""
    keys = AwsKeys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    signer = AmazonSigner("https://examplebucket.s3.amazonaws.com", "us-east-1", lambda: keys)
    url = signer.url("GET", "test.txt", 86400, {}, datetime(2013, 5, 24, tzinfo=UTC))
    assert url == (
        "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256"
        "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
        "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
        "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    )


def test_a_temporary_key_sends_its_token_and_no_secret_shows() -> None:
    keys = AwsKeys("AKIA", "very-secret", "a/token==")
    url = AmazonSigner("https://b.example", "eu-central-1", lambda: keys).url("GET", "k", 60, {}, NOW)
    assert "X-Amz-Security-Token=a%2Ftoken%3D%3D" in url
    assert "very-secret" not in url
    assert "very-secret" not in repr(keys)
    assert "a/token" not in repr(keys)


def test_no_account_key_shows() -> None:
    signer = AzureSigner("https://account.example/c", "c", "account", "dmVyeS1zZWNyZXQ=")
    shown = signer.url("GET", "k", 60, {}, NOW) + repr(signer) + repr(AzureAccount("account", "", "dmVyeS1zZWNyZXQ="))
    assert "dmVyeS1zZWNyZXQ" not in shown


def test_googles_signature_is_good_under_the_accounts_public_key() -> None:
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    key = GoogleKey("daybreak@project.iam.example", pem)
    answer = {"content-type": "text/csv; charset=utf-8", "content-disposition": 'attachment; filename="a.csv"'}
    url = GoogleSigner("https://storage.googleapis.com/bucket", key).url("GET", "pre fix/ä.csv.gz", 60, answer, NOW)
    parts = urlsplit(url)
    query = parse_qs(parts.query, strict_parsing=True)
    signature = bytes.fromhex(query.pop("X-Goog-Signature")[0])
    assert query["X-Goog-Expires"] == ["60"]
    assert query["response-content-disposition"] == [answer["content-disposition"]]
    assert parts.path == "/bucket/pre%20fix/%C3%A4.csv.gz"
    # As the verifier builds it: parameters in order of their names, encoded, the host, and no payload digest.
    canonical_query = "&".join(
        f"{quote(name, safe='-_.~')}={quote(values[0], safe='-_.~')}" for name, values in sorted(query.items())
    )
    canonical = f"GET\n{parts.path}\n{canonical_query}\nhost:storage.googleapis.com\n\nhost\nUNSIGNED-PAYLOAD"
    text = (
        "GOOG4-RSA-SHA256\n20261120T040030Z\n20261120/auto/storage/goog4_request\n"
        + hashlib.sha256(canonical.encode()).hexdigest()
    )
    private.public_key().verify(signature, text.encode(), padding.PKCS1v15(), hashes.SHA256())


def test_amazon_keys_come_from_the_environment_or_the_profile(tmp_path: Path) -> None:
    assert aws_keys({}, tmp_path) is None
    assert aws_region({}, tmp_path) is None
    folder = tmp_path / ".aws"
    folder.mkdir()
    (folder / "credentials").write_text(
        "[default]\naws_access_key_id = A\naws_secret_access_key = B%x\n[other]\naws_access_key_id=C\n"
        "aws_secret_access_key=D\naws_session_token=E\n"
    )
    (folder / "config").write_text("[default]\nregion = eu-west-1\n[profile other]\nregion = eu-north-1\n")
    assert aws_keys({}, tmp_path) == AwsKeys("A", "B%x")
    assert aws_keys({"AWS_PROFILE": "other"}, tmp_path) == AwsKeys("C", "D", "E")
    assert aws_region({"AWS_PROFILE": "other"}, tmp_path) == "eu-north-1"
    given = {"AWS_ACCESS_KEY_ID": "X", "AWS_SECRET_ACCESS_KEY": "Y", "AWS_REGION": "eu-south-1"}
    assert aws_keys(given, tmp_path) == AwsKeys("X", "Y")
    assert aws_region(given, tmp_path) == "eu-south-1"
    with pytest.raises(OperatorError, match="nobody"):
        aws_keys({"AWS_PROFILE": "nobody"}, tmp_path)
    with (folder / "config").open("a") as config:
        config.write("[profile keys]\naws_access_key_id = F\naws_secret_access_key = G\nca_bundle = ca.pem\n")
        config.write("[profile single-sign-on]\nsso_session = x\n")
    assert aws_keys({"AWS_PROFILE": "keys"}, tmp_path) == AwsKeys("F", "G")
    with pytest.raises(OperatorError, match="export-credentials"):
        aws_keys({"AWS_PROFILE": "single-sign-on"}, tmp_path)


def test_google_keys_come_from_the_file_that_is_named(tmp_path: Path) -> None:
    assert google_key({}) is None
    file = tmp_path / "key.json"
    file.write_text('{"type": "authorized_user"}')
    assert google_key({"GOOGLE_APPLICATION_CREDENTIALS": str(file)}) is None
    file.write_text('{"type": "service_account", "client_email": "a@b", "private_key": "no key"}')
    found = google_key({"GOOGLE_APPLICATION_CREDENTIALS": str(file)})
    assert found is not None
    with pytest.raises(OperatorError, match="cannot be read"):
        found.sign("text")
    file.write_text("{")
    with pytest.raises(OperatorError, match="cannot be read"):
        google_key({"GOOGLE_APPLICATION_CREDENTIALS": str(file)})
