"""Files of the keys that sign: the CA of the service, and the recovery key, which signs trust files.

`ca` and `recovery` are private keys in the format of OpenSSH, mode 0600; `recovery.pub` is a public key. `ca` may also
be the URI of a key in a hardware token. The CA is needed only where the builder runs. Operators move `recovery` to a
safe place, and name it when they change the trust file.
"""

from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_ssh_private_key,
    load_ssh_public_key,
)

from daybreak.credentials.hardware_key import SCHEME, HardwareKey, TokenUri, create_hardware_key
from daybreak.credentials.ssh_signature import CertificateAuthority, SigningKey, public_text
from daybreak.domain.errors import OperatorError
from daybreak.domain.operator_file import read_private, write_private

CA_FILE = "ca"
_NEXT_CA_FILE = "ca.next"
RECOVERY_FILE = "recovery"
RECOVERY_PUBLIC_FILE = "recovery.pub"


def create_keys(folder: Path) -> None:
    """Create the CA and the recovery key in a new folder. Does nothing if the folder has a CA, which is created last.
    Raises OSError, OperatorError.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (folder / CA_FILE).exists():
        return
    path = folder / RECOVERY_FILE
    if not path.exists():
        write_private(path, _openssh(Ed25519PrivateKey.generate()))
    (folder / RECOVERY_PUBLIC_FILE).write_text(f"{load_recovery(path).public}\n", "utf-8")
    write_private(folder / CA_FILE, _openssh(generate_private_key(SECP256R1())))


def create_next_ca(folder: Path, token: str | None = None) -> str:
    """Create another CA next to the one in use, and return its public key.

    It is in the token of a PKCS#11 URI, or without one in the token of the CA in use, or else in a file. Raises
    OSError, OperatorError.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path, used = folder / _NEXT_CA_FILE, folder / CA_FILE
    if token is None and used.exists() and _is_uri(content := read_private(used)):
        token = content.decode()
    path.unlink(missing_ok=True)
    if token is None:
        key = generate_private_key(SECP256R1())
        write_private(path, _openssh(key))
        return public_text(key)
    hardware_key = create_hardware_key(TokenUri.parse(token))
    write_private(path, f"{hardware_key.uri}\n".encode())
    return public_text(hardware_key)


def activate_next_ca(folder: Path) -> None:
    """Replace the CA by the next one. Raises OSError."""
    (folder / _NEXT_CA_FILE).replace(folder / CA_FILE)


def load_ca(folder: Path) -> CertificateAuthority | None:
    """Return the CA, None without a file. Raises OperatorError for a file that cannot be read, that others can read, or
    of another key.
    """
    path = folder / CA_FILE
    try:
        if not path.exists():
            return None
    except OSError as error:
        raise OperatorError(f"signing.folder: {path} cannot be read: {error.strerror}.") from error
    content = read_private(path)
    key = HardwareKey(TokenUri.parse(content.decode())) if _is_uri(content) else _load(path, content)
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise OperatorError(f"{path} is not an ECDSA P-256 key. Restore it from a backup.")
    return CertificateAuthority(key)


def load_recovery(path: Path) -> SigningKey:
    """Return the recovery key. Raises OperatorError."""
    key = _load(path, read_private(path))
    if not isinstance(key, Ed25519PrivateKey):
        raise OperatorError(f"{path} is not an Ed25519 key. Name the file that `daybreakd init` created as recovery.")
    return SigningKey(key)


def recovery_public(folder: Path) -> str:
    """Return the public recovery key. Raises OperatorError."""
    path = folder / RECOVERY_PUBLIC_FILE
    try:
        words = path.read_text("utf-8").split()
        load_ssh_public_key(" ".join(words[:2]).encode())
    except (OSError, ValueError, UnsupportedAlgorithm):
        raise OperatorError(f"{path} is not a public key. Restore it from a backup.") from None
    return " ".join(words[:2])


def _is_uri(content: bytes) -> bool:
    return content.startswith(SCHEME.encode())


def _load(path: Path, content: bytes) -> object:
    try:
        return load_ssh_private_key(content, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise OperatorError(
            f"{path} is not a private key of OpenSSH without a passphrase. Restore it from a backup."
        ) from None


def _openssh(key: EllipticCurvePrivateKey | Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
