"""Statement packs: statements of some accounts with their signatures, in one stored file.

It begins with MAGIC and the number of accounts (4 bytes), followed by an entry for each account, sorted: its id, the
offset and length of the compressed statement, the length of the signature, and the digest of the statement.
"""

import hashlib
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from isal import isal_zlib

from daybreak.credentials.ssh_signature import SigningKey
from daybreak.domain.errors import FileDamaged
from daybreak.domain.signing import account_namespace

ACCOUNTS_PER_PACK = 512
_MAGIC = b"DBSTMT1\n"
_HEAD = struct.Struct(">8sI")
_ENTRY = struct.Struct(">16sIII32s")
INDEX_BYTES = _HEAD.size + ACCOUNTS_PER_PACK * _ENTRY.size
"""Length of the largest index."""
_COMPRESSION_LEVEL = 1

ReadRange = Callable[[int, int], bytes]
"""Returns a number of bytes from an offset."""


@dataclass(frozen=True, slots=True)
class SignedStatement:
    """A statement, its signature, and its SHA-256."""

    content: bytes
    signature: bytes
    digest: bytes

    @property
    def sha256(self) -> str:
        """The SHA-256 in hexadecimal."""
        return self.digest.hex()


def sign_statement(content: bytes, key: SigningKey, client_id: str) -> SignedStatement:
    """Return the statement of an account with its signature."""
    digest = hashlib.sha256(content).digest()
    return SignedStatement(content, key.sign_digest(digest, account_namespace(client_id)), digest)


def encode_pack(statements: Sequence[tuple[str, SignedStatement]]) -> bytes:
    """Return the pack of these accounts, which are sorted."""
    index, bodies = [], []
    offset = _HEAD.size + len(statements) * _ENTRY.size
    for client_id, signed in statements:
        # A third of the time of zlib.
        compressed = isal_zlib.compress(signed.content, _COMPRESSION_LEVEL)
        index.append(_ENTRY.pack(_id(client_id), offset, len(compressed), len(signed.signature), signed.digest))
        bodies += [compressed, signed.signature]
        offset += len(compressed) + len(signed.signature)
    return b"".join([_HEAD.pack(_MAGIC, len(statements)), *index, *bodies])


def read_statement(read: ReadRange, client_id: str) -> SignedStatement | None:
    """Return the statement of an account from a pack, None if it has none. Raises FileDamaged."""
    found = next((entry for entry in _entries(read(0, INDEX_BYTES)) if entry[0] == _id(client_id)), None)
    if found is None:
        return None
    _, offset, length, signature_length, digest = found
    body = read(offset, length + signature_length)
    try:
        content = zlib.decompress(body[:length])
    except zlib.error:
        content = b""
    if hashlib.sha256(content).digest() != digest or len(body) != length + signature_length:
        raise FileDamaged(f"The stored statement of account {client_id} is damaged.")
    return SignedStatement(content, body[length:], digest)


def read_digests(read: ReadRange) -> Iterator[tuple[str, str]]:
    """Yield the accounts of a pack and the digests of their statements. Raises FileDamaged."""
    for entry in _entries(read(0, INDEX_BYTES)):
        digits = entry[0].hex()
        client_id = "-".join([digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]])
        yield client_id, entry[4].hex()


def _id(client_id: str) -> bytes:
    """Return an account's id as in the index, in a fifth of the time of UUID."""
    return bytes.fromhex(client_id.replace("-", ""))


def _entries(head: bytes) -> Iterator[tuple[bytes, int, int, int, bytes]]:
    magic, count = _HEAD.unpack_from(head) if len(head) >= _HEAD.size else (b"", 0)
    end = _HEAD.size + count * _ENTRY.size
    if magic != _MAGIC or len(head) < end:
        raise FileDamaged("A file of stored statements is damaged.")
    return _ENTRY.iter_unpack(head[_HEAD.size : end])
