"""Signatures in the format of `ssh-keygen -Y` (OpenSSH PROTOCOL.sshsig), and the certificates of their keys."""

import binascii
import hashlib
import re
import struct
from base64 import b64decode, b64encode
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from daybreak_client.errors import Expired, NotProved

MAX_SIGNATURE_BYTES = 64 << 10
_MAGIC = b"SSHSIG"
_ARMOR = re.compile(
    rb"\s*-----BEGIN SSH SIGNATURE-----\r?\n([A-Za-z0-9+/=\r\n]+)-----END SSH SIGNATURE-----\s*", re.ASCII
)
_HASHES = {b"sha256": hashlib.sha256, b"sha512": hashlib.sha512}
_CURVES = {"ecdsa-sha2-nistp256": "sha256", "ecdsa-sha2-nistp384": "sha384", "ecdsa-sha2-nistp521": "sha512"}
KEY_TYPES = frozenset({"ssh-ed25519", *_CURVES})
"""Types of keys that can sign. Others, such as RSA with SHA-1, are not accepted."""
_CERTIFICATE_ENDING = "-cert-v01@openssh.com"


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key: its type, such as `ssh-ed25519`, and its encoding. Equal keys are equal objects."""

    type: str
    blob: bytes

    @property
    def text(self) -> str:
        """The key as in a file of OpenSSH, without a comment."""
        return f"{self.type} {b64encode(self.blob).decode()}"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate of a key for the service `principals`, from `valid_after` until `valid_before`."""

    key: PublicKey
    ca: PublicKey
    principals: tuple[str, ...]
    valid_after: datetime
    valid_before: datetime

    def check(self, at: datetime, revoked: frozenset[str]) -> None:
        """Check that it is valid at a time, and that neither key is revoked. Raises NotProved, Expired."""
        if revoked & {self.key.text, self.ca.text}:
            raise NotProved("The certificate of the signature is revoked.")
        if at < self.valid_after:
            raise NotProved(
                f"The certificate of the signature is valid from {minute(self.valid_after)}. Check the clock."
            )
        if at >= self.valid_before:
            raise Expired(f"The certificate of the signature expired at {minute(self.valid_before)}.")


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature of a message for a namespace. The `key` is a key, or the blob of a certificate."""

    key: PublicKey
    namespace: str
    reserved: bytes
    hash_name: bytes
    value: bytes

    @property
    def has_certificate(self) -> bool:
        """Whether the key is a certificate."""
        return self.key.type.endswith(_CERTIFICATE_ENDING)

    def check(self, key: PublicKey, message: bytes, namespace: str) -> None:
        """Check that the key signed the message for this namespace. Raises NotProved."""
        if self.namespace != namespace:
            raise NotProved(f"The signature is for {shown(self.namespace)}, not for {namespace}.")
        digest = _HASHES[self.hash_name](message).digest()
        signed = _MAGIC + b"".join(map(_string, (self.namespace.encode(), self.reserved, self.hash_name, digest)))
        if not _is_signature(key, self.value, signed):
            raise NotProved("The signature does not belong to the content. One of them was changed. Fetch both again.")


def parse_signature(armored: bytes) -> Signature:
    """Parse the content of a `.sig` file. Raises NotProved."""
    found = _ARMOR.fullmatch(armored) if len(armored) <= MAX_SIGNATURE_BYTES else None
    try:
        if found is None:
            raise ValueError
        reader = _Reader(b64decode(b"".join(found[1].split()), validate=True))
        if reader.take(len(_MAGIC)) != _MAGIC or reader.number() != 1:
            raise ValueError
        key, namespace, reserved = _key(reader.string()), reader.string().decode(), reader.string()
        hash_name, value = reader.string(), reader.string()
        if not reader.at_end or hash_name not in _HASHES:
            raise ValueError
        return Signature(key, namespace, reserved, hash_name, value)
    except (ValueError, binascii.Error, struct.error):
        raise NotProved("The signature is not one of `ssh-keygen -Y sign`. Fetch it again.") from None


def parse_key(type_name: str, encoded: str) -> PublicKey:
    """Parse a public key in the format of OpenSSH. Raises ValueError."""
    key = _key(b64decode(encoded, validate=True))
    if key.type != type_name or key.type not in KEY_TYPES:
        raise ValueError
    _load(key)
    return key


def parse_certificate(key: PublicKey) -> Certificate:
    """Parse a certificate and check the signature of its CA. Raises NotProved for one that must not sign."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization.ssh import SSHCertificate, SSHCertificateType
    from cryptography.hazmat.primitives.serialization.ssh import load_ssh_public_identity as load

    try:
        found = load(key.text.encode())
        if not isinstance(found, SSHCertificate):
            raise TypeError
        certificate = Certificate(
            key=_public_key(found.public_key()),
            ca=_public_key(found.signature_key()),
            principals=tuple(each.decode() for each in found.valid_principals),
            valid_after=_instant(found.valid_after),
            valid_before=_instant(found.valid_before),
        )
        if not {certificate.key.type, certificate.ca.type} <= KEY_TYPES:
            raise TypeError
        found.verify_cert_signature()
    except (ValueError, TypeError, UnsupportedAlgorithm, NotImplementedError, OverflowError, struct.error):
        raise NotProved("The certificate of the signature is invalid.") from None
    except InvalidSignature:
        raise NotProved("The certificate of the signature was changed: its CA did not sign it.") from None
    if found.type is not SSHCertificateType.USER or found.critical_options:
        raise NotProved("The certificate of the signature is for another purpose.")
    return certificate


def minute(instant: datetime) -> str:
    """Return an instant for a message."""
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _instant(seconds: int) -> datetime:
    """Return an instant of a certificate. The largest number means that it never ends."""
    return datetime.fromtimestamp(min(seconds, 253_402_300_799), UTC)


def _public_key(key: Any) -> PublicKey:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    type_name, _, encoded = key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode().partition(" ")
    return PublicKey(type_name, b64decode(encoded))


def _load(key: PublicKey) -> Any:
    """Return a key as an object of the library: EllipticCurvePublicKey or Ed25519PublicKey. Raises ValueError."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    try:
        return load_ssh_public_key(key.text.encode())
    except (UnsupportedAlgorithm, NotImplementedError) as fault:
        raise ValueError from fault


def _is_signature(key: PublicKey, value: bytes, signed: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    try:
        reader = _Reader(value)
        type_name, octets = reader.string().decode(), reader.string()
        if key.type not in KEY_TYPES or type_name != key.type or not reader.at_end:
            return False
        loaded = _load(key)
        if isinstance(loaded, EllipticCurvePublicKey):
            pair = _Reader(octets)
            r, s = (int.from_bytes(pair.string(), "big") for _ in range(2))
            loaded.verify(encode_dss_signature(r, s), signed, ECDSA(getattr(hashes, _CURVES[key.type].upper())()))
        else:
            loaded.verify(octets, signed)
    except (InvalidSignature, ValueError, struct.error):
        return False
    return True


class _Reader:
    """Reads the binary encoding of OpenSSH (RFC 4251 section 5). Raises ValueError or struct.error at its end."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._place = 0

    @property
    def at_end(self) -> bool:
        return self._place == len(self._content)

    def take(self, size: int) -> bytes:
        found = self._content[self._place : self._place + size]
        if len(found) != size:
            raise ValueError
        self._place += size
        return found

    def number(self) -> int:
        return int(struct.unpack(">I", self.take(4))[0])

    def string(self) -> bytes:
        return self.take(self.number())


def _key(blob: bytes) -> PublicKey:
    return PublicKey(_Reader(blob).string().decode("ascii"), blob)


def _string(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


def shown(text: str) -> str:
    """Return a text of the signer for a message, without characters that a terminal interprets."""
    return text if re.fullmatch(r"[!-~]{1,200}", text) else "another purpose"
