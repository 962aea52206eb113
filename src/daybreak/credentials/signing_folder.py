"""Files of the keys that sign: the CA of the service, and the recovery key, which signs trust files.

`ca` and `recovery` are private keys in the format of OpenSSH, mode 0600; `recovery.pub` is a public key. The CA is
needed only where the builder runs. Operators move `recovery` to a safe place, and name it when they change the trust
file.
"""

from __future__ import annotations

import os
import stat
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

from daybreak.credentials.ssh_signature import CertificateAuthority, SigningKey, public_text
from daybreak.domain.errors import OperatorError

CA_FILE = "ca"
_NEXT_CA_FILE = "ca.next"
RECOVERY_FILE = "recovery"
RECOVERY_PUBLIC_FILE = "recovery.pub"
_FORBIDDEN_BITS = stat.S_IRWXG | stat.S_IRWXO


def create_keys(folder: Path) -> None:
    """Create the CA and the recovery key in a new folder. Does nothing if the folder has a CA."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (folder / CA_FILE).exists():
        return
    recovery = Ed25519PrivateKey.generate()
    _write_private(folder / RECOVERY_FILE, recovery)
    (folder / RECOVERY_PUBLIC_FILE).write_text(f"{public_text(recovery)}\n", "utf-8")
    _write_private(folder / CA_FILE, generate_private_key(SECP256R1()))


def create_next_ca(folder: Path) -> str:
    """Create another CA next to the one in use, and return its public key. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key, path = generate_private_key(SECP256R1()), folder / _NEXT_CA_FILE
    path.unlink(missing_ok=True)
    _write_private(path, key)
    return public_text(key)


def activate_next_ca(folder: Path) -> None:
    """Replace the CA by the next one. Raises OSError."""
    (folder / _NEXT_CA_FILE).replace(folder / CA_FILE)


def load_ca(folder: Path) -> CertificateAuthority | None:
    """Return the CA, None without a file. Raises OperatorError for a file that others can read, or of another key."""
    path = folder / CA_FILE
    if not path.exists():
        return None
    key = _load(path)
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise OperatorError(f"{path} is not an ECDSA P-256 key. Restore it from a backup.")
    return CertificateAuthority(key)


def load_recovery(path: Path) -> SigningKey:
    """Return the recovery key. Raises OperatorError."""
    key = _load(path)
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


def _load(path: Path) -> object:
    try:
        if path.stat().st_mode & _FORBIDDEN_BITS:
            raise OperatorError(f"Other users can read {path}. Run `chmod 600 {path}`.")
        return load_ssh_private_key(path.read_bytes(), None)
    except OSError as error:
        raise OperatorError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise OperatorError(f"{path} is not a private key of OpenSSH without a passphrase.") from None


def _write_private(path: Path, key: EllipticCurvePrivateKey | Ed25519PrivateKey) -> None:
    content = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
