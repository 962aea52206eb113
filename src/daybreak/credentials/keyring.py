"""The keyring: one local file of root keys, from which every other key is derived.

A key is `next` (known everywhere, signs nothing yet), then `signing`, then `verify_only`, then
`gone` (a tombstone without its secret). Because `next` is accepted before it signs, a rotation
makes no request fail, in any worker or on any node that holds the file.

The file: `{"version": 1, "keys": [{"kid", "state", "secret" (hex), "created_at", "retired_at"}]}`,
mode 0600. Derived keys are HKDF-SHA256 (RFC 5869) of a root key with the purpose as its info.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Literal

from daybreak.domain.errors import OperatorError

State = Literal["next", "signing", "verify_only", "gone"]
Purpose = Literal["session-jwt", "mfa-jwt", "signed-link", "totp-seed", "csrf", "dashboard-cookie"]
SECRET_BYTES = 32
_STATES = ("next", "signing", "verify_only", "gone")
_SALT = b"daybreak keyring"
# Secrets that stand in tutorials and test vectors; texts in general are caught by their alphabet.
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
    """One root key. `secret` is empty when the key is gone."""

    kid: str
    state: State
    secret: bytes = field(repr=False)
    created_at: datetime
    retired_at: datetime | None = None


@dataclass(frozen=True, eq=False)
class Keyring:
    """All keys of the file, newest last. Exactly one signs, exactly one is next. Each reading of the file is a keyring
    of its own: what is remembered of one says nothing of another.
    """

    keys: tuple[Key, ...]
    _derived: dict[tuple[str, str], bytes] = field(default_factory=dict, repr=False)

    @cached_property
    def signing_kid(self) -> str:
        """The key that signs and seals now."""
        return next(key.kid for key in self.keys if key.state == "signing")

    def derive(self, kid: str, purpose: Purpose) -> bytes | None:
        """The 32-byte key of a purpose; None when the kid is unknown or gone."""
        cached = self._derived.get((kid, purpose))
        if cached is not None:
            return cached
        for key in self.keys:
            if key.kid == kid and key.secret:
                derived = hkdf_sha256(key.secret, salt=_SALT, info=purpose.encode(), length=32)
                self._derived[kid, purpose] = derived
                return derived
        return None

    def signing_key(self, purpose: Purpose) -> tuple[str, bytes]:
        """The kid that signs now and its derived key."""
        kid = self.signing_kid
        key = self.derive(kid, purpose)
        if key is None:
            raise OperatorError("the keyring has no key that signs")
        return kid, key

    def rotate(
        self,
        now: datetime,
        random: Callable[[int], bytes],
        *,
        lifetime: timedelta,
        kids_in_use: frozenset[str] | None = None,
    ) -> Keyring:
        """The keyring after one step: next signs, signing only verifies, a new next is made.

        A key that stopped signing longer than `lifetime` ago (the longest life of what it signed)
        becomes gone, unless `kids_in_use` names it; None keeps every key.
        """
        moved: list[Key] = []
        for key in self.keys:
            if key.state == "next":
                moved.append(replace(key, state="signing"))
            elif key.state == "signing":
                moved.append(replace(key, state="verify_only", retired_at=now))
            elif (
                key.state == "verify_only"
                and key.retired_at is not None
                and key.retired_at + lifetime < now
                and kids_in_use is not None
                and key.kid not in kids_in_use
            ):
                moved.append(replace(key, state="gone", secret=b""))
            else:
                moved.append(key)
        moved.append(_new_key("next", now, random, {key.kid for key in moved}))
        return Keyring(tuple(moved))


def hkdf_sha256(secret: bytes, *, salt: bytes, info: bytes, length: int) -> bytes:
    """HKDF with SHA-256 (RFC 5869 §2): extract, then expand to `length` bytes (at most 8,160)."""
    pseudo_random_key = hmac.digest(salt, secret, "sha256")
    output, block = b"", b""
    for counter in range(1, -(-length // 32) + 1):
        block = hmac.digest(pseudo_random_key, block + info + bytes([counter]), "sha256")
        output += block
    return output[:length]


def create(path: Path, now: datetime, random: Callable[[int], bytes]) -> Keyring:
    """Writes a new keyring (one signing key, one next). Raises OperatorError when one is there."""
    first = _new_key("signing", now, random, set())
    keyring = Keyring((first, _new_key("next", now, random, {first.kid})))
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise OperatorError(f"{path} exists: a keyring is never overwritten") from None
    except OSError as fault:
        raise OperatorError(f"{path} cannot be written: {fault.strerror}") from fault
    with os.fdopen(handle, "wb") as file:
        file.write(_dump(keyring))
        file.flush()
        os.fsync(file.fileno())
    _sync_folder(path.parent)
    return keyring


def load(path: Path) -> Keyring:
    """Reads and checks a keyring. Raises OperatorError that names the fault and the fix."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        raise OperatorError(
            f"keys.file: {path} is not there: put its copy there, or another node's. When there is none left, take the "
            "keyring.json of a folder that `daybreakd init FOLDER` makes: everybody then signs in anew."
        ) from None
    except OSError as fault:
        raise OperatorError(f"{path} cannot be read: {fault.strerror}") from fault
    with os.fdopen(handle, "rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if mode & 0o077:
            raise OperatorError(
                f"{path} can be read by others (mode {mode:04o}): run `chmod 600 {path}`; "
                "when others may have read it, rotate the keys"
            )
        content = file.read(1_000_000)
    return _parse(content, path)


def save(path: Path, keyring: Keyring) -> None:
    """Puts a keyring in the place of the file: readers see the whole old or the whole new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_dump(keyring))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


class KeyringFile:
    """The keyring as it is on disk now: read again whenever the file is another one."""

    def __init__(self, path: Path) -> None:
        """Reads the file. Raises OperatorError when it is not good."""
        self._path = path
        self._name = str(path)
        self._seen = self._identity()
        self._keyring = load(path)
        self.fault: str | None = None

    def current(self) -> Keyring:
        """One `stat`, and the file again when it changed. When the new file is not good the keys
        of the last good one stay, and `fault` says why.
        """
        seen = self._identity()
        if seen != self._seen:
            try:
                self._keyring = load(self._path)
                self.fault = None
            except OperatorError as fault:
                self.fault = fault.message
            self._seen = seen
        return self._keyring

    def _identity(self) -> tuple[int, int, int, int]:
        try:
            found = os.stat(self._name)  # noqa: PTH116 - twice a request
        except OSError:
            return (0, 0, 0, 0)
        return (found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode)


def weakness(secret: bytes) -> str | None:
    """Why a secret is not fit to sign with; None when nothing speaks against it."""
    if len(secret) < SECRET_BYTES:
        return f"is {len(secret)} bytes long; at least {SECRET_BYTES} are needed"
    if all(0x20 <= byte < 0x7F for byte in secret):
        return "is a text, not random bytes"
    if len(set(secret)) < 12:
        return "repeats itself"
    if len({(after - before) % 256 for before, after in pairwise(secret)}) < 3:
        return "is a plain sequence"
    if hashlib.sha256(secret).hexdigest() in _KNOWN_SHA256:
        return "is a published example"
    return None


def _new_key(state: State, now: datetime, random: Callable[[int], bytes], taken: set[str]) -> Key:
    kid = random(4).hex()
    while kid in taken:
        kid = random(4).hex()
    return Key(kid=kid, state=state, secret=random(SECRET_BYTES), created_at=now)


def _dump(keyring: Keyring) -> bytes:
    keys = [
        {
            "kid": key.kid,
            "state": key.state,
            "secret": key.secret.hex(),
            "created_at": key.created_at.isoformat(),
            "retired_at": key.retired_at.isoformat() if key.retired_at else None,
        }
        for key in keyring.keys
    ]
    return json.dumps({"version": 1, "keys": keys}, indent=1).encode() + b"\n"


def _parse(content: bytes, path: Path) -> Keyring:
    try:
        document = json.loads(content)
    except ValueError:
        raise OperatorError(f"{path} is not JSON: restore it from its backup") from None
    if not isinstance(document, dict) or document.get("version") != 1:
        raise OperatorError(f"{path} is not a keyring of version 1")
    rows = document.get("keys")
    if not isinstance(rows, list):
        raise OperatorError(f"{path} has no list of keys")
    keys = tuple(_parse_key(row, path) for row in rows)
    if len({key.kid for key in keys}) != len(keys):
        raise OperatorError(f"{path}: two keys have the same kid")
    secrets = [key.secret for key in keys if key.secret]
    if len(set(secrets)) != len(secrets):
        raise OperatorError(f"{path}: two keys have the same secret")
    for state in ("signing", "next"):
        if sum(key.state == state for key in keys) != 1:
            raise OperatorError(f"{path} must hold exactly one key whose state is {state}")
    return Keyring(keys)


def _parse_key(row: object, path: Path) -> Key:
    if not isinstance(row, Mapping):
        raise OperatorError(f"{path}: a key is not an object")
    kid, state = row.get("kid"), row.get("state")
    if not (isinstance(kid, str) and 4 <= len(kid) <= 32 and set(kid) <= set("0123456789abcdef")):
        raise OperatorError(f"{path}: a kid is 4 to 32 lower-case hex digits")
    if state not in _STATES:
        raise OperatorError(f"{path}: key {kid} has an unknown state")
    try:
        secret = bytes.fromhex(str(row.get("secret") or ""))
        created_at = _instant(row.get("created_at"))
        retired_at = _instant(row["retired_at"]) if row.get("retired_at") else None
    except ValueError:
        raise OperatorError(f"{path}: key {kid} has a malformed secret or instant") from None
    if state == "gone":
        return Key(kid, "gone", b"", created_at, retired_at)
    fault = weakness(secret)
    if fault is not None:
        raise OperatorError(f"{path}: the secret of key {kid} {fault}; make a new keyring with `daybreakd init`")
    return Key(kid, state, secret, created_at, retired_at)


def _instant(text: object) -> datetime:
    return datetime.fromisoformat(str(text)).astimezone(UTC)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
