"""Keyring: a local file of root keys, from which all other keys are derived.

The states of a key are `next` (accepted, does not sign yet), `signing`, `verify_only` and `gone` (without its secret).
A `next` key is accepted before it signs, so requests keep working during a rotation on every node that has the file.
A revoked key is `decrypt_only` until the values in the state database that it encrypts are re-encrypted, then `gone`.

File: `{"version": 1, "keys": [{"kid", "state", "secret" (hex), "created_at", "retired_at"}]}`, mode 0600. Keys are
derived with HKDF-SHA256 (RFC 5869); the purpose is the `info` parameter.
"""

import fcntl
import hashlib
import hmac
import json
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from daybreak.domain.errors import OperatorError
from daybreak.domain.operator_file import OTHER_USERS, read_bounded, write_private

State = Literal["next", "signing", "verify_only", "decrypt_only", "gone"]
Purpose = Literal[
    "session-jwt",
    "mfa-jwt",
    "signed-link",
    "totp-seed",
    "csrf",
    "dashboard-cookie",
    "oidc-request",
    "webhook-secret",
    "unsubscribe",
    "s3-secret",
    "table-version",
]
SECRET_BYTES = 32
_STORED_PURPOSES = frozenset({"totp-seed", "webhook-secret"})
"""Purposes of values that the state database stores. No client can send such a value."""
_MAX_BYTES = 1_000_000
_SALT = b"daybreak keyring"
# Published binary secrets. Published texts are rejected because they are texts.
_KNOWN_SHA256 = frozenset(
    {
        # Project Wycheproof, JSON Web Signature, HS256
        "343c4d3fb2fea91ae1192f5ca60f918e64bf4683b2c551cd0820c00ed8ec57bc",
        # RFC 7515, appendix A.1
        "c8ecc9361a05e285f04c26f9572131a6deab07e9e2b865053c6f75a4d8bd2b32",
    }
)


@dataclass(frozen=True, slots=True)
class Key:
    """Root key. The secret of a `gone` key is empty."""

    kid: str
    state: State
    secret: bytes = field(repr=False)
    created_at: datetime
    retired_at: datetime | None = None


@dataclass(frozen=True, eq=False)
class Keyring:
    """Keys of the file, oldest first: exactly one is `signing`, exactly one is `next`.

    Keyrings are equal only if they are the same object, so that results can be cached by keyring.
    """

    keys: tuple[Key, ...]

    @cached_property
    def signing_kid(self) -> str:
        """Id of the key that signs and encrypts. Empty if the keys that could sign were revoked."""
        return next((key.kid for key in self.keys if key.state == "signing"), "")

    @property
    def fingerprint(self) -> str:
        """Digest of the ids and states of all keys, which is equal on nodes with the same file."""
        return hashlib.sha256(" ".join(f"{key.kid}:{key.state}" for key in self.keys).encode()).hexdigest()[:16]

    def derive(self, kid: str, purpose: Purpose) -> bytes | None:
        """Return the 32-byte key of a purpose, None if there is no such key or its state does not allow the purpose."""
        for key in self.keys:
            if key.kid == kid and key.secret and (key.state != "decrypt_only" or purpose in _STORED_PURPOSES):
                return _derive(key.secret, purpose)
        return None

    def signing_key(self, purpose: Purpose) -> tuple[str, bytes]:
        """Return the id of the key that signs and the key derived from it. Raises OperatorError."""
        kid = self.signing_kid
        key = self.derive(kid, purpose)
        if key is None:
            raise OperatorError("The keyring has no signing key. Copy the keyring from the node that revoked the key.")
        return kid, key

    def usable(self, kids: Collection[str]) -> list[str]:
        """Return which of these keys have their secret."""
        return [key.kid for key in self.keys if key.kid in kids and key.secret]

    def without(self, kids: Collection[str]) -> "Keyring":
        """Return the keyring after a revocation of these keys: they only decrypt stored values.

        The next key signs in the place of a revoked one.
        """
        if not any(key.kid in kids and key.state not in ("decrypt_only", "gone") for key in self.keys):
            return self
        keys = [replace(key, state="decrypt_only") if key.kid in self.usable(kids) else key for key in self.keys]
        if not any(key.state == "signing" for key in keys):
            keys = [replace(key, state="signing") if key.state == "next" else key for key in keys]
        return Keyring(tuple(keys))

    def revoke(self, kid: str, now: datetime, random: Callable[[int], bytes]) -> "Keyring":
        """Return the keyring without a key, and with a new next key if it has none."""
        keys = list(self.without({kid}).keys)
        for state in ("signing", "next"):
            if not any(key.state == state for key in keys):
                keys.append(_new_key(state, now, random, {key.kid for key in keys}))
        return Keyring(tuple(keys))

    def destroy(self, kid: str) -> "Keyring":
        """Return the keyring without the secret of a key."""
        return Keyring(tuple(replace(key, state="gone", secret=b"") if key.kid == kid else key for key in self.keys))

    def rotate(
        self,
        now: datetime,
        random: Callable[[int], bytes],
        *,
        lifetime: timedelta,
        kids_in_use: frozenset[str] | None = None,
    ) -> "Keyring":
        """Return the keyring after one rotation: `next` signs, `signing` verifies only, a new key is `next`.

        A key that stopped signing longer ago than `lifetime`, the longest one of a signed value, becomes `gone`, unless
        it encrypts stored values: `kids_in_use`. None keeps every key.
        """
        rotated: list[Key] = []
        for key in self.keys:
            if key.state == "next":
                rotated.append(replace(key, state="signing"))
            elif key.state == "signing":
                rotated.append(replace(key, state="verify_only", retired_at=now))
            elif kids_in_use is not None and key.kid not in kids_in_use and _has_expired(key, lifetime, now):
                rotated.append(replace(key, state="gone", secret=b""))
            else:
                rotated.append(key)
        rotated.append(_new_key("next", now, random, {key.kid for key in rotated}))
        return Keyring(tuple(rotated))


@lru_cache(64)
def _derive(secret: bytes, purpose: Purpose) -> bytes:
    return HKDF(SHA256(), length=32, salt=_SALT, info=purpose.encode()).derive(secret)


def create(path: Path, now: datetime, random: Callable[[int], bytes]) -> "Keyring":
    """Write a new keyring with a `signing` and a `next` key. Raises OperatorError if the file exists."""
    first = _new_key("signing", now, random, set())
    keyring = Keyring((first, _new_key("next", now, random, {first.kid})))
    try:
        write_private(path, _content(keyring))
    except FileExistsError:
        raise OperatorError(f"{path} exists. A keyring is never overwritten.") from None
    except OSError as fault:
        raise OperatorError(f"{path} cannot be written: {fault.strerror}.") from fault
    with _open_folder(path.parent) as folder:
        os.fsync(folder)
    return keyring


def load(path: Path) -> Keyring:
    """Read and check the keyring of the setting keys.file. Raises OperatorError."""
    name = f"keys.file: {path}"
    try:
        content, mode = read_bounded(path, _MAX_BYTES)
    except FileNotFoundError:
        raise OperatorError(
            f"{name} does not exist. Restore it from a backup or copy it from another node. Without a copy, "
            "use the keyring.json that `daybreakd init FOLDER` creates; all users must then sign in again."
        ) from None
    except OSError as fault:
        raise OperatorError(f"{name} cannot be read: {fault.strerror}.") from fault
    # Parsed first: the mode of a file that is not a keyring must not be changed.
    keyring = _parse(content, name)
    if mode & OTHER_USERS:
        raise OperatorError(
            f"{name} is readable by other users (mode {mode:04o}). Run `chmod 600 {path}`. "
            "If another user may have read it, run `daybreakd keys rotate` too."
        )
    return keyring


def save(path: Path, keyring: Keyring) -> None:
    """Replace the file atomically. Raises OSError."""
    # One name, under a lock: the next call removes the secrets that a killed process has left.
    temporary = path.with_name(f".{path.name}.new")
    with _open_folder(path.parent) as folder:
        # Some network file systems have no locks.
        with suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_EX)
        temporary.unlink(missing_ok=True)
        write_private(temporary, _content(keyring))
        try:
            temporary.replace(path)
        except OSError:
            temporary.unlink()
            raise
        os.fsync(folder)


class KeyringFile:
    """Keyring on disk, read again when the file changes."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises OperatorError."""
        self._path = path
        self._name = str(path)
        self._seen = self._identity()
        self._loaded = load(path)
        self._keyring = self._loaded
        self._revoked: frozenset[str] = frozenset()
        self.fault: str | None = None

    @property
    def revoked_count(self) -> int:
        """Number of the keys that `revoke` received."""
        return len(self._revoked)

    def revoke(self, kids: frozenset[str]) -> None:
        """Treat these keys as revoked, whatever their state in the file."""
        self._revoked = kids
        self._keyring = self._loaded.without(kids)

    def current(self) -> Keyring:
        """Return the keyring, read again if the file has changed.

        If the changed file is invalid, the last valid keyring stays in use and `fault` holds the error message.
        """
        seen = self._identity()
        if seen != self._seen:
            try:
                self._loaded = load(self._path)
                self._keyring = self._loaded.without(self._revoked)
                self.fault = None
            except OperatorError as fault:
                self.fault = fault.message
            self._seen = seen
        return self._keyring

    def _identity(self) -> tuple[int, int, int, int]:
        try:
            found = os.stat(self._name)  # noqa: PTH116 - called twice in a request
        except OSError:
            return (0, 0, 0, 0)
        return (found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode)


def weakness(secret: bytes) -> str | None:
    """Return why a secret is too weak to sign with, or None."""
    if len(secret) < SECRET_BYTES:
        return f"has {len(secret)} bytes instead of at least {SECRET_BYTES}"
    if all(0x20 <= byte < 0x7F for byte in secret):
        return "is text instead of random bytes"
    if len(set(secret)) < 12:
        return "is a repetition"
    if len({(after - before) % 256 for before, after in pairwise(secret)}) < 3:
        return "is a sequence"
    if hashlib.sha256(secret).hexdigest() in _KNOWN_SHA256:
        return "is a published example"
    return None


def _has_expired(key: Key, lifetime: timedelta, now: datetime) -> bool:
    return key.state == "verify_only" and key.retired_at is not None and key.retired_at + lifetime < now


def _new_key(state: State, now: datetime, random: Callable[[int], bytes], taken: set[str]) -> Key:
    kid = random(4).hex()
    while kid in taken:
        kid = random(4).hex()
    return Key(kid=kid, state=state, secret=random(SECRET_BYTES), created_at=now)


def _content(keyring: Keyring) -> bytes:
    """Return the content of the file."""
    keys = [{**asdict(key), "secret": key.secret.hex()} for key in keyring.keys]
    return json.dumps({"version": 1, "keys": keys}, indent=1, default=datetime.isoformat).encode() + b"\n"


class _StoredKey(msgspec.Struct):
    kid: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{4,32}\Z")]
    state: State
    created_at: datetime
    secret: str = ""
    retired_at: datetime | None = None


class _Document(msgspec.Struct):
    version: Literal[1]
    keys: list[_StoredKey]


def _parse(content: bytes, name: str) -> Keyring:
    try:
        document = msgspec.json.decode(content, type=_Document)
    except msgspec.DecodeError as error:
        raise OperatorError(
            f"{name} is not a keyring: {error}. Restore it from a backup, or correct the setting."
        ) from None
    keys = tuple(_parse_key(stored, name) for stored in document.keys)
    if len({key.kid for key in keys}) != len(keys):
        raise OperatorError(f"{name}: two keys have the same kid.")
    secrets = [key.secret for key in keys if key.secret]
    if len(set(secrets)) != len(secrets):
        raise OperatorError(f"{name}: two keys have the same secret.")
    for state in ("signing", "next"):
        if sum(key.state == state for key in keys) != 1:
            raise OperatorError(f"{name} must contain exactly one key with the state {state}.")
    return Keyring(keys)


def _parse_key(stored: _StoredKey, name: str) -> Key:
    secret = b""
    if stored.state != "gone":
        try:
            secret = bytes.fromhex(stored.secret)
        except ValueError:
            raise OperatorError(f"{name}: the secret of key {stored.kid} is not hex.") from None
        fault = weakness(secret)
        if fault is not None:
            raise OperatorError(
                f"{name}: the secret of key {stored.kid} {fault}. Create a new keyring with `daybreakd init`."
            )
    return Key(stored.kid, stored.state, secret, stored.created_at, stored.retired_at)


@contextmanager
def _open_folder(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)


def mac_of(key: bytes, *fields: str) -> str:
    """Return the HMAC-SHA256 (RFC 2104) of the fields as 64 lower-case hex digits.

    Each field has a prefix with its length, so two different lists of fields have different messages.
    """
    message = b"".join([len(field).to_bytes(4, "big") + field for field in map(str.encode, fields)])
    return hmac.digest(key, message, "sha256").hex()


def is_mac(mac: str, key: bytes, *fields: str) -> bool:
    """Return whether the MAC is that of the fields. Takes constant time."""
    return hmac.compare_digest(mac_of(key, *fields).encode(), mac.encode("utf-8", "surrogatepass"))
