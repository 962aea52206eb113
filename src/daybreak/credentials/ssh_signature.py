"""Signatures in the format of `ssh-keygen -Y sign` (OpenSSH, PROTOCOL.sshsig), and certificates of the keys that sign.

Every consumer has the command that verifies them. A publication key is an Ed25519 key that a CA certifies for one
service, without options or extensions.
"""

import base64
import hashlib
import struct
from datetime import datetime

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.hazmat.primitives.serialization.ssh import SSHCertificateBuilder, SSHCertificateType

_MAGIC = b"SSHSIG"
_ARMOR_COLUMNS = 70


class SigningKey:
    """An Ed25519 key that signs. `public` is its public key as in a file of OpenSSH. Signatures name the encoded
    certificate `identity`, or without one the key.
    """

    def __init__(self, key: Ed25519PrivateKey, identity: bytes | None = None) -> None:
        self._key = key
        self.public = public_text(key)
        encoded_key = base64.b64decode(self.public.split()[1])
        head = _MAGIC + struct.pack(">I", 1) + _string(identity or encoded_key)
        # All signatures begin with the lines of the certificate. Three bytes are four characters.
        encoded, self._head = base64.b64encode(head[: len(head) // 3 * 3]), head[len(head) // 3 * 3 :]
        *lines, self._line = _lines(encoded)
        self._begin = b"\n".join([b"-----BEGIN SSH SIGNATURE-----", *lines, b""])

    def sign(self, message: bytes, namespace: str) -> bytes:
        """Return the signature of a message, as `ssh-keygen -Y sign` writes it."""
        return self.sign_digest(hashlib.sha256(message).digest(), namespace)

    def sign_digest(self, digest: bytes, namespace: str) -> bytes:
        """Return the signature of the message with this SHA-256."""
        name = _string(namespace.encode()) + _RESERVED_AND_HASH
        signature = self._key.sign(_MAGIC + name + _DIGEST_HEAD + digest)
        text = self._line + base64.b64encode(b"".join([self._head, name, _VALUE_HEAD, signature]))
        return self._begin + b"\n".join([*_lines(text), b"-----END SSH SIGNATURE-----", b""])


class CertificateAuthority:
    """The key that certifies others. `public` is its public key as in a file of OpenSSH."""

    def __init__(self, key: EllipticCurvePrivateKey) -> None:
        self._key = key
        self.public = public_text(key)

    def certify(self, service: str, serial: int, valid_after: datetime, valid_before: datetime) -> SigningKey:
        """Return a new key with a certificate for a service. Its private part is only in memory."""
        key = Ed25519PrivateKey.generate()
        certificate = (
            SSHCertificateBuilder()
            .public_key(key.public_key())
            .serial(serial)
            .type(SSHCertificateType.USER)
            .key_id(f"{service} {serial}".encode())
            .valid_principals([service.encode()])
            .valid_after(int(valid_after.timestamp()))
            .valid_before(int(valid_before.timestamp()))
            .sign(self._key)
        )
        return SigningKey(key, base64.b64decode(certificate.public_bytes().split()[1]))


def public_text(key: EllipticCurvePrivateKey | Ed25519PrivateKey) -> str:
    """Return the public key of a private key as in a file of OpenSSH, without a comment."""
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def _lines(text: bytes) -> list[bytes]:
    return [text[start : start + _ARMOR_COLUMNS] for start in range(0, len(text), _ARMOR_COLUMNS)]


def _string(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


_RESERVED_AND_HASH = _string(b"") + _string(b"sha256")
# The lengths of a SHA-256 digest and of a signature of Ed25519 are always the same.
_DIGEST_HEAD = struct.pack(">I", 32)
_VALUE_HEAD = struct.pack(">I", 83) + _string(b"ssh-ed25519") + struct.pack(">I", 64)
