"""An authenticator in software, and the browser's part of WebAuthn, for responses that no browser would send."""

import base64
import hashlib
import json
import os
from dataclasses import dataclass, field
from typing import Any

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

USER_PRESENT = 0x01
ATTESTED = 0x40


def encode(content: bytes) -> str:
    """Return base64url text without padding."""
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


@dataclass
class SoftwareAuthenticator:
    """A credential on P-256 for one origin. Its counter increases by 1 with each signature."""

    origin: str
    rp_id: str
    private_key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    credential_id: bytes = field(default_factory=lambda: os.urandom(32))
    sign_count: int = 0

    @property
    def public_key(self) -> bytes:
        """The public key as a COSE key (RFC 9053 §7.1.1)."""
        numbers = self.private_key.public_key().public_numbers()
        return cbor2.dumps({1: 2, 3: -7, -1: 1, -2: numbers.x.to_bytes(32, "big"), -3: numbers.y.to_bytes(32, "big")})

    def create(self, challenge: str, /, **changes: Any) -> str:
        """Return the response of `navigator.credentials.create` as JSON.

        `changes` replace `type`, `origin`, `challenge`, `crossOrigin`, `rp_id`, `flags`, `public_key`, `attestation`.
        """
        key = changes.get("public_key", self.public_key)
        attested = bytes(16) + len(self.credential_id).to_bytes(2, "big") + self.credential_id + key
        data = self._authenticator_data(changes, USER_PRESENT | ATTESTED) + attested
        attestation = changes.get("attestation", {"fmt": "none", "attStmt": {}})
        return self._credential(
            clientDataJSON=encode(self._client_data("webauthn.create", challenge, changes)),
            attestationObject=encode(cbor2.dumps({**attestation, "authData": data})),
        )

    def get(self, challenge: str, /, **changes: Any) -> str:
        """Return the response of `navigator.credentials.get` as JSON.

        `changes` replace `type`, `origin`, `challenge`, `crossOrigin`, `rp_id`, `flags`, `sign_count`, `user_handle`.
        """
        self.sign_count += 1
        client_data = self._client_data("webauthn.get", challenge, changes)
        data = self._authenticator_data(changes, USER_PRESENT)
        signature = self.private_key.sign(data + hashlib.sha256(client_data).digest(), ec.ECDSA(hashes.SHA256()))
        return self._credential(
            clientDataJSON=encode(client_data),
            authenticatorData=encode(data),
            signature=encode(signature),
            userHandle=changes.get("user_handle"),
        )

    def _client_data(self, kind: str, challenge: str, changes: dict[str, Any]) -> bytes:
        content = {"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": False}
        return json.dumps({name: changes.get(name, value) for name, value in content.items()}).encode()

    def _authenticator_data(self, changes: dict[str, Any], flags: int) -> bytes:
        rp_id = hashlib.sha256(changes.get("rp_id", self.rp_id).encode()).digest()
        sign_count = changes.get("sign_count", self.sign_count)
        return rp_id + bytes([changes.get("flags", flags)]) + int(sign_count).to_bytes(4, "big")

    def _credential(self, **response: Any) -> str:
        name = encode(self.credential_id)
        return json.dumps({"id": name, "rawId": name, "type": "public-key", "response": response})
