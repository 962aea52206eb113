"""Passkeys (Web Authentication Level 3): options for the browser, and verification of its responses.

The authenticator is not attested: the service trusts the key that the signed-in user registers. User verification (a
PIN or fingerprint) is requested and not required, because the password is the other factor.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

# The library is imported inside functions: it takes 0.15 s, which workers without passkeys need not spend.
if TYPE_CHECKING:
    from webauthn.helpers.structs import PublicKeyCredentialDescriptor

CHALLENGE_BYTES = 32
TIMEOUT_MILLISECONDS = 300_000
_NAME = "Daybreak"
_MAX_CREDENTIAL_ID_BYTES = 1023  # WebAuthn §5.1, credential id
# A host whose last label is a number is an IPv4 address (URL Standard, "ends in a number checker").
_IPV4 = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?")


class InvalidPasskeyResponse(Exception):
    """Response of a browser that is malformed, or does not match the challenge, the service or the key."""


@dataclass(frozen=True, slots=True)
class RelyingParty:
    """The service as browsers see it: the host that passkeys are bound to, and the origin of its pages."""

    host: str
    origin: str


@dataclass(frozen=True, slots=True)
class RegisteredKey:
    """A new credential. `credential_id` and `public_key` are base64url text without padding."""

    credential_id: str
    public_key: str
    sign_count: int


def relying_party(base_url: str) -> RelyingParty | None:
    """Return the relying party of a normalized `base_url`, None where browsers offer no passkeys.

    They need a secure context, which is https or `localhost`, and a host name in place of an address (WebAuthn §5.1.2).
    """
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    if ":" in host or _IPV4.fullmatch(host) or (parts.scheme != "https" and host != "localhost"):
        return None
    return RelyingParty(host, f"{parts.scheme}://{parts.netloc}")


def creation_options(
    party: RelyingParty, *, challenge: bytes, seat_id: str, email: str, existing: Sequence[str]
) -> str:
    """Return the JSON options of `navigator.credentials.create`. `existing` are the seat's credential ids."""
    import webauthn
    from webauthn.helpers.structs import (
        AuthenticatorSelectionCriteria,
        ResidentKeyRequirement,
        UserVerificationRequirement,
    )

    options = webauthn.generate_registration_options(
        rp_id=party.host,
        rp_name=_NAME,
        user_id=_user_handle(seat_id),
        user_name=email,
        challenge=challenge,
        timeout=TIMEOUT_MILLISECONDS,
        authenticator_selection=AuthenticatorSelectionCriteria(
            # Phones and password managers synchronize discoverable credentials only.
            resident_key=ResidentKeyRequirement.PREFERRED,
            user_verification=UserVerificationRequirement.PREFERRED,
        ),
        exclude_credentials=_descriptors(existing),
    )
    return webauthn.options_to_json(options)


def request_options(party: RelyingParty, *, challenge: bytes, accepted: Sequence[str]) -> str:
    """Return the JSON options of `navigator.credentials.get`. `accepted` are the seat's credential ids."""
    import webauthn
    from webauthn.helpers.structs import UserVerificationRequirement

    options = webauthn.generate_authentication_options(
        rp_id=party.host,
        challenge=challenge,
        timeout=TIMEOUT_MILLISECONDS,
        allow_credentials=_descriptors(accepted),
        user_verification=UserVerificationRequirement.PREFERRED,
    )
    return webauthn.options_to_json(options)


def verify_creation(party: RelyingParty, response: str, *, challenge: bytes) -> RegisteredKey:
    """Verify the response of `navigator.credentials.create` (WebAuthn §7.1). Raises InvalidPasskeyResponse."""
    import webauthn
    from webauthn.helpers import (
        bytes_to_base64url,
        decode_credential_public_key,
        decoded_public_key_to_cryptography,
        parse_attestation_object,
        parse_registration_credential_json,
    )
    from webauthn.helpers.structs import AttestationFormat

    with _malformed_is_invalid():
        credential = parse_registration_credential_json(_json_object(response))
        _refuse_frames(credential.response.client_data_json)
        attestation = parse_attestation_object(credential.response.attestation_object)
        # Browsers remove attestation that was not requested. What may remain is self attestation (WebAuthn §5.1.3),
        # which has no certificates.
        if attestation.fmt not in {AttestationFormat.NONE, AttestationFormat.PACKED} or attestation.att_stmt.x5c:
            raise InvalidPasskeyResponse("attestation was not requested")
        verified = webauthn.verify_registration_response(
            credential=credential, expected_challenge=challenge, expected_rp_id=party.host, expected_origin=party.origin
        )
        if len(verified.credential_id) > _MAX_CREDENTIAL_ID_BYTES:
            raise InvalidPasskeyResponse("credential id too long")
        # A key that cannot be loaded could never sign in.
        decoded_public_key_to_cryptography(decode_credential_public_key(verified.credential_public_key))
        return RegisteredKey(
            bytes_to_base64url(verified.credential_id),
            bytes_to_base64url(verified.credential_public_key),
            verified.sign_count,
        )


def claimed_credential_id(response: str) -> str:
    """Return the credential id in a response of `navigator.credentials.get`, which is not verified yet.

    Raises InvalidPasskeyResponse.
    """
    credential_id = _json_object(response).get("id")
    if not isinstance(credential_id, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,1364}", credential_id):
        raise InvalidPasskeyResponse("no credential id")
    return credential_id


def verify_assertion(party: RelyingParty, response: str, *, challenge: bytes, seat_id: str, public_key: str) -> int:
    """Verify the response of `navigator.credentials.get` (WebAuthn §7.2) and return its signature counter.

    The caller compares the counter with the stored one. Raises InvalidPasskeyResponse.
    """
    import webauthn
    from webauthn.helpers import parse_authentication_credential_json

    with _malformed_is_invalid():
        credential = parse_authentication_credential_json(_json_object(response))
        _refuse_frames(credential.response.client_data_json)
        if credential.response.user_handle not in {None, b"", _user_handle(seat_id)}:
            raise InvalidPasskeyResponse("user handle of another seat")
        verified = webauthn.verify_authentication_response(
            credential=credential,
            expected_challenge=challenge,
            expected_rp_id=party.host,
            expected_origin=party.origin,
            credential_public_key=webauthn.base64url_to_bytes(public_key),
            credential_current_sign_count=0,
        )
        return verified.new_sign_count


@contextmanager
def _malformed_is_invalid() -> Iterator[None]:
    """Raise InvalidPasskeyResponse for a response that the library refuses or cannot parse."""
    from webauthn.helpers.exceptions import WebAuthnException

    try:
        yield
    # The library checks neither the types of all values in CBOR maps nor the depth of JSON.
    except (WebAuthnException, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise InvalidPasskeyResponse(str(error)) from error


def _json_object(response: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(response, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        raise InvalidPasskeyResponse("not a JSON object") from None


def _refuse_frames(client_data: bytes) -> None:
    """Refuse a response that was made in a frame of another site. No page of the service may be framed."""
    from webauthn.helpers import parse_client_data_json

    if parse_client_data_json(client_data).cross_origin:
        raise InvalidPasskeyResponse("made in a frame")


def _descriptors(credential_ids: Sequence[str]) -> "list[PublicKeyCredentialDescriptor]":
    from webauthn import base64url_to_bytes
    from webauthn.helpers.structs import PublicKeyCredentialDescriptor

    return [PublicKeyCredentialDescriptor(id=base64url_to_bytes(each)) for each in credential_ids]


def _user_handle(seat_id: str) -> bytes:
    """Return the bytes by which an authenticator knows the seat. They do not reveal the email."""
    return UUID(seat_id).bytes
