"""A CA key in a hardware token, which signs through PKCS#11 and never leaves it.

The file of the CA then contains a PKCS#11 URI (RFC 7512) in place of a private key. python-pkcs11 is the extra `hsm`.
"""

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast
from urllib.parse import quote, unquote

from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurve,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    EllipticCurveSignatureAlgorithm,
)
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import load_der_public_key

from daybreak.domain.errors import OperatorError
from daybreak.domain.operator_file import read_private

if TYPE_CHECKING:
    import pkcs11

SCHEME = "pkcs11:"
_EXAMPLE = "pkcs11:token=daybreak;object=ca?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=/etc/daybreak/pin"
_COORDINATE_BYTES = 32


@dataclass(frozen=True, slots=True)
class TokenUri:
    """A key in a token: labels of token and key, the library of the token, and the file with its PIN, if it has one."""

    token: str
    label: str
    module: str
    pin_file: Path | None

    @classmethod
    def parse(cls, text: str) -> "TokenUri":
        """Raises OperatorError."""
        path, _, query = text.strip().removeprefix(SCHEME).partition("?")
        found = _attributes(path, ";") | _attributes(query, "&")
        unknown = found.keys() - {"token", "object", "type", "module-path", "pin-source"}
        if unknown or not found.get("token") or not found.get("module-path"):
            reason = f"has the unknown attribute {min(unknown)}" if unknown else "needs token and module-path"
            raise OperatorError(f"The PKCS#11 URI of the CA {reason}. Use {_EXAMPLE}")
        pin = found.get("pin-source", "").removeprefix("file:").removeprefix("//")
        return cls(found["token"], found.get("object", "daybreak-ca"), found["module-path"], Path(pin) if pin else None)

    def __str__(self) -> str:
        pin = f"&pin-source={quote(str(self.pin_file))}" if self.pin_file else ""
        path = f"token={quote(self.token, safe='')};object={quote(self.label, safe='')}"
        return f"{SCHEME}{path}?module-path={quote(self.module)}{pin}"


class HardwareKey(EllipticCurvePrivateKey):
    """An ECDSA P-256 key in a token, with the interface of cryptography."""

    def __init__(self, uri: TokenUri) -> None:
        """Find the key. Raises OperatorError."""
        from pkcs11 import Attribute, ObjectClass
        from pkcs11.util.ec import encode_ec_public_key

        self.uri = uri
        with _session(uri) as session:
            public = cast("pkcs11.PublicKey", session.get_key(object_class=ObjectClass.PUBLIC_KEY, label=uri.label))
            session.get_key(object_class=ObjectClass.PRIVATE_KEY, label=uri.label)
            is_p256 = public[Attribute.EC_PARAMS] == _p256_parameters()
            key = load_der_public_key(encode_ec_public_key(public)) if is_p256 else None
        if not isinstance(key, EllipticCurvePublicKey):
            raise OperatorError(f"The key {uri.label} in the token {uri.token} is not an ECDSA P-256 key.")
        self._public = key

    def public_key(self) -> EllipticCurvePublicKey:
        return self._public

    @property
    def curve(self) -> EllipticCurve:
        return SECP256R1()

    @property
    def key_size(self) -> int:
        return 256

    def sign(
        self,
        data: bytes | bytearray | memoryview,
        signature_algorithm: EllipticCurveSignatureAlgorithm,  # noqa: ARG002 - of the interface
    ) -> bytes:
        """Sign with SHA-256, the hash of all certificates of P-256 keys (RFC 5656 §6.2.1). Raises OperatorError."""
        from pkcs11 import Mechanism, ObjectClass

        with _session(self.uri) as session:
            found = session.get_key(object_class=ObjectClass.PRIVATE_KEY, label=self.uri.label)
            pair = cast("pkcs11.SignMixin", found).sign(hashlib.sha256(data).digest(), mechanism=Mechanism.ECDSA)
        first, second = pair[:_COORDINATE_BYTES], pair[_COORDINATE_BYTES:]
        return encode_dss_signature(int.from_bytes(first, "big"), int.from_bytes(second, "big"))

    def _stays_in_the_token(self, *_: object, **__: object) -> NoReturn:
        raise OperatorError(f"The key {self.uri.label} does not leave the token {self.uri.token}.")

    exchange = private_numbers = private_bytes = __copy__ = __deepcopy__ = _stays_in_the_token


def create_hardware_key(uri: TokenUri) -> HardwareKey:
    """Create a key in a token, with a new label. Raises OperatorError."""
    from pkcs11 import Attribute, KeyType

    new = replace(uri, label=f"daybreak-ca-{secrets.token_hex(4)}")
    with _session(uri, writes=True) as session:
        parameters = session.create_domain_parameters(KeyType.EC, {Attribute.EC_PARAMS: _p256_parameters()}, local=True)
        parameters.generate_keypair(store=True, label=new.label, id=secrets.token_bytes(8))
    return HardwareKey(new)


@contextmanager
def _session(uri: TokenUri, *, writes: bool = False) -> "Iterator[pkcs11.Session]":
    """Open a session. Raises OperatorError for every failure of the token."""
    try:
        import pkcs11
    except ImportError:
        raise OperatorError("A CA in a hardware token needs python-pkcs11. Install the extra hsm.") from None
    pin = None if uri.pin_file is None else read_private(uri.pin_file).decode("utf-8", "replace").strip()
    try:
        token = pkcs11.lib(uri.module).get_token(token_label=uri.token)
        with token.open(user_pin=pin, rw=writes) as session:
            yield session
    except pkcs11.NoSuchKey:
        raise OperatorError(f"The token {uri.token} has no key {uri.label}. Check the file of the CA.") from None
    except (pkcs11.PKCS11Error, RuntimeError, OSError) as error:
        reason = str(error) or type(error).__name__
        raise OperatorError(f"The token {uri.token} does not sign: {reason}. Check {uri.module} and the PIN.") from None


def _p256_parameters() -> bytes:
    from pkcs11.util.ec import encode_named_curve_parameters

    return encode_named_curve_parameters("secp256r1")


def _attributes(text: str, separator: str) -> dict[str, str]:
    parts = (part.partition("=") for part in text.split(separator) if part)
    return {name: unquote(value) for name, _, value in parts}
