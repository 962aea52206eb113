"""Addresses that have passkeys, and responses of browsers that are not valid."""

import base64
import contextlib
import hashlib
import json
from datetime import UTC, datetime, timedelta

import cbor2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import example, given
from hypothesis import strategies as st

from daybreak.credentials import passkeys
from daybreak.credentials.passkeys import InvalidPasskeyResponse, RelyingParty, relying_party
from tests.parts.software_authenticator import SoftwareAuthenticator, encode

ORIGIN = "https://data.example.org"
PARTY = RelyingParty("data.example.org", ORIGIN)
SEAT_ID = "00000000-0000-4000-8000-0000000000a1"
CHALLENGE = bytes(range(32))
KEY = SoftwareAuthenticator(ORIGIN, PARTY.host)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
CBOR = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64), 2**64 - 1) | st.binary() | st.text() | st.floats(),
    lambda inner: st.lists(inner) | st.dictionaries(st.integers(-260, 10) | st.text(), inner),
)


@pytest.mark.parametrize(
    ("base_url", "party"),
    [
        ("https://data.example.org", PARTY),
        ("https://data.example.org/exports", PARTY),
        ("https://data.example.org:8443", RelyingParty("data.example.org", "https://data.example.org:8443")),
        ("http://localhost:8400", RelyingParty("localhost", "http://localhost:8400")),
        ("https://localhost", RelyingParty("localhost", "https://localhost")),
        ("https://exports", RelyingParty("exports", "https://exports")),
        ("http://data.example.org", None),
        ("http://127.0.0.1:8400", None),
        ("https://192.0.2.7", None),
        ("https://127.1", None),
        ("https://0x7f000001", None),
        ("https://2130706433", None),
        ("https://[2001:db8::7]:8400", None),
    ],
)
def test_only_secure_host_names_have_passkeys(base_url: str, party: RelyingParty | None) -> None:
    assert relying_party(base_url) == party


def test_options_have_the_expected_values() -> None:
    options = json.loads(
        passkeys.creation_options(
            PARTY, challenge=CHALLENGE, seat_id=SEAT_ID, email="ana@example.org", existing=["bGFwdG9w"]
        )
    )
    assert options["rp"] == {"name": "Daybreak", "id": "data.example.org"}
    assert options["challenge"] == encode(CHALLENGE)
    assert options["attestation"] == "none"
    assert options["authenticatorSelection"] == {
        "residentKey": "preferred",
        "requireResidentKey": False,
        "userVerification": "preferred",
    }
    assert [each["id"] for each in options["excludeCredentials"]] == ["bGFwdG9w"]
    assert [each["alg"] for each in options["pubKeyCredParams"]] == [-8, -7, -257]
    requested = json.loads(passkeys.request_options(PARTY, challenge=CHALLENGE, accepted=["bGFwdG9w"]))
    assert requested["rpId"] == "data.example.org"
    assert requested["userVerification"] == "preferred"
    assert [each["id"] for each in requested["allowCredentials"]] == ["bGFwdG9w"]


def test_created_key_verifies_its_signatures() -> None:
    created = passkeys.verify_creation(PARTY, KEY.create(encode(CHALLENGE)), challenge=CHALLENGE)
    assert created.credential_id == encode(KEY.credential_id)
    assert verify(KEY.get(encode(CHALLENGE), sign_count=9), created.public_key) == 9


def verify(response: str, public_key: str | None = None) -> int:
    return passkeys.verify_assertion(
        PARTY, response, challenge=CHALLENGE, seat_id=SEAT_ID, public_key=public_key or encode(KEY.public_key)
    )


@given(JSON | st.fixed_dictionaries({}, optional={"id": JSON, "rawId": JSON, "type": JSON, "response": JSON}))
def test_arbitrary_json_is_invalid(content: object) -> None:
    text = json.dumps(content)
    for attempt in (
        lambda: verify(text),
        lambda: passkeys.verify_creation(PARTY, text, challenge=CHALLENGE),
    ):
        with pytest.raises(InvalidPasskeyResponse):
            attempt()
    with contextlib.suppress(InvalidPasskeyResponse):
        assert passkeys.claimed_credential_id(text)


@given(st.sampled_from(["clientDataJSON", "authenticatorData", "signature"]), st.binary(max_size=200))
@example("clientDataJSON", b"[" * 9000)
@example("clientDataJSON", b'{"type":[],"challenge":7,"origin":{}}')
def test_arbitrary_parts_of_an_assertion_are_invalid(part: str, content: bytes) -> None:
    response = json.loads(KEY.get(encode(CHALLENGE)))
    response["response"][part] = encode(content)
    with pytest.raises(InvalidPasskeyResponse):
        verify(json.dumps(response))


@given(st.binary(max_size=200) | CBOR.map(cbor2.dumps))
@example(b"\x81" * 9000)
@example(cbor2.dumps({"fmt": [], "attStmt": [], "authData": 7}))
def test_arbitrary_attestation_is_invalid(content: bytes) -> None:
    response = json.loads(KEY.create(encode(CHALLENGE)))
    response["response"]["attestationObject"] = encode(content)
    with pytest.raises(InvalidPasskeyResponse):
        passkeys.verify_creation(PARTY, json.dumps(response), challenge=CHALLENGE)


@given(CBOR | st.dictionaries(st.sampled_from([1, 3, -1, -2, -3]), CBOR))
@example({1: 2, 3: -7, -1: 1, -2: "x", -3: 7})
@example({1: 3, 3: -257, -1: b"", -2: []})
@example({1: 1, 3: -8, -1: 6, -2: b"\x00"})
@example({1: 7, 3: -8, -1: b"\x00"})
def test_arbitrary_keys_are_invalid(key: object) -> None:
    response = KEY.create(encode(CHALLENGE), public_key=cbor2.dumps(key))
    with pytest.raises(InvalidPasskeyResponse):
        passkeys.verify_creation(PARTY, response, challenge=CHALLENGE)


@given(st.sampled_from(["none", "packed", "fido-u2f", "tpm", "apple", "android-key"]), CBOR)
@example("packed", {"alg": -7, "sig": 7})
@example("packed", {"alg": [], "sig": b""})
@example("none", {"sig": b""})
def test_arbitrary_attestation_statements_are_no_crash(fmt: str, statement: object) -> None:
    response = KEY.create(encode(CHALLENGE), attestation={"fmt": fmt, "attStmt": statement})
    with contextlib.suppress(InvalidPasskeyResponse):
        passkeys.verify_creation(PARTY, response, challenge=CHALLENGE)
        assert fmt == "none"


def test_credential_ids_in_another_alphabet_are_invalid() -> None:
    for credential_id in ("", "a+b/", "a=", "ä", "a" * 1365, base64.b64encode(bytes(3)).decode() + "\n"):
        with pytest.raises(InvalidPasskeyResponse):
            passkeys.claimed_credential_id(json.dumps({"id": credential_id}))


def test_long_credential_id_is_invalid() -> None:
    for length, valid in ((1023, True), (1024, False)):
        key = SoftwareAuthenticator(ORIGIN, PARTY.host, credential_id=bytes(length))
        response = key.create(encode(CHALLENGE))
        if valid:
            assert passkeys.verify_creation(PARTY, response, challenge=CHALLENGE).credential_id == encode(bytes(length))
        else:
            with pytest.raises(InvalidPasskeyResponse):
                passkeys.verify_creation(PARTY, response, challenge=CHALLENGE)


def test_attestation_with_a_certificate_is_invalid() -> None:
    name = x509.Name(
        [
            x509.NameAttribute(x509.NameOID.COUNTRY_NAME, "US"),
            x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "Maker"),
            x509.NameAttribute(x509.NameOID.ORGANIZATIONAL_UNIT_NAME, "Authenticator Attestation"),
            x509.NameAttribute(x509.NameOID.COMMON_NAME, "Key"),
        ]
    )
    start = datetime(2026, 1, 1, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(KEY.private_key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=36500))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(KEY.private_key, hashes.SHA256())
        .public_bytes(serialization.Encoding.DER)
    )
    response = json.loads(KEY.create(encode(CHALLENGE)))["response"]
    client_data, attestation = (
        base64.urlsafe_b64decode(response[part] + "==") for part in ("clientDataJSON", "attestationObject")
    )
    signed = cbor2.loads(attestation)["authData"] + hashlib.sha256(client_data).digest()
    statement = {"alg": -7, "sig": KEY.private_key.sign(signed, ec.ECDSA(hashes.SHA256()))}
    for fields, valid in (({}, True), ({"x5c": [certificate]}, False)):
        attested = KEY.create(encode(CHALLENGE), attestation={"fmt": "packed", "attStmt": {**statement, **fields}})
        with contextlib.nullcontext() if valid else pytest.raises(InvalidPasskeyResponse):
            passkeys.verify_creation(PARTY, attested, challenge=CHALLENGE)
