"""Access keys of the S3 endpoint, derived from API tokens. Nothing about them is stored.

An access key id is `DB` (static key) or `DS` (session key), the id of a key of the keyring, and the id of the API
token. A static key ends with its token. A session key also has a session token: its expiry, and the version of the
files that it reads as the latest ones, with a MAC. Secrets are derived with HKDF-SHA256 (RFC 5869) from the token id,
or from the session token.
"""

import base64
import re
from datetime import UTC, datetime
from uuid import UUID

import msgspec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from daybreak.credentials.keyring import Keyring, is_mac, mac_of

_ACCESS_KEY_ID = re.compile(r"D([BS])([0-9a-f]{4,32})([0-9a-f]{32})", re.ASCII)
_SESSION_TOKEN = re.compile(r"([1-9][0-9]{8,11})\.(0|[1-9][0-9]{0,17})\.([0-9a-f]{64})", re.ASCII)


class AccessKey(msgspec.Struct, frozen=True):
    """What a client of S3 needs. Static keys have neither a session token nor an expiry."""

    access_key_id: str
    secret: str
    session_token: str = ""
    expires_at: datetime | None = None

    def __repr__(self) -> str:
        """Leave the secrets out of logs."""
        return f"AccessKey({self.access_key_id})"


class KnownKey(msgspec.Struct, frozen=True):
    """The API token that an access key belongs to, and the secret to verify with.

    `pinned_version` is the version that a session key reads as the latest one, 0 for none.
    """

    token_id: str
    secret: str
    expires_at: datetime | None = None
    pinned_version: int | None = None


def static_key(token_id: str, *, keyring: Keyring) -> AccessKey:
    """Return the key that is valid as long as the API token. It must be shown when the token is created, because the
    keyring keeps the keys that signed at that time.
    """
    kid, key = keyring.signing_key("s3-secret")
    return AccessKey(f"DB{kid}{UUID(token_id).hex}", _secret(key, token_id))


def session_key(token_id: str, *, version: int, expires_at: datetime, keyring: Keyring) -> AccessKey:
    """Return a key that expires, for which `version` stays the latest one. `expires_at` has whole seconds."""
    kid, key = keyring.signing_key("s3-secret")
    fields = (str(int(expires_at.timestamp())), str(version))
    session_token = ".".join((*fields, mac_of(key, token_id, *fields)))
    return AccessKey(f"DS{kid}{UUID(token_id).hex}", _secret(key, session_token), session_token, expires_at)


def find_key(access_key_id: str, session_token: str, *, keyring: Keyring) -> KnownKey | None:
    """Return the key that an id and a session token ("" without one) belong to, None if they are invalid.

    The caller must check the signature of the request, the expiry and the API token.
    """
    found = _ACCESS_KEY_ID.fullmatch(access_key_id)
    key = None if found is None else keyring.derive(found[2], "s3-secret")
    if found is None or key is None:
        return None
    token_id = str(UUID(found[3]))
    if found[1] == "B":
        return None if session_token else KnownKey(token_id, _secret(key, token_id))
    parts = _SESSION_TOKEN.fullmatch(session_token)
    if parts is None or not is_mac(parts[3], key, token_id, parts[1], parts[2]):
        return None
    expires_at = datetime.fromtimestamp(int(parts[1]), UTC)
    return KnownKey(token_id, _secret(key, session_token), expires_at, int(parts[2]))


def _secret(key: bytes, info: str) -> str:
    derived = HKDFExpand(SHA256(), length=32, info=info.encode()).derive(key)
    return base64.urlsafe_b64encode(derived).rstrip(b"=").decode()
