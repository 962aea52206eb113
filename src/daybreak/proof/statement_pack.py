"""Statement packs: statements of some accounts with their signatures, in one stored file.

It begins with the magic bytes, the number of accounts and the length of the dictionary (4 bytes each), followed by the
dictionary, and an entry for each account, sorted: its id, the offset and length of the compressed statement and
signature, the length of the signature, and the digest of the statement. The dictionary is the text of the first
account, most of which occurs in the others. Packs of earlier versions have no dictionary, and their signatures are not
compressed.
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
_MAGIC, _MAGIC_WITHOUT_DICTIONARY = b"DBSTMT2\n", b"DBSTMT1\n"
_HEAD = struct.Struct(">8sII")
_HEAD_WITHOUT_DICTIONARY = struct.Struct(">8sI")
_ENTRY = struct.Struct(">16sIII32s")
_DICTIONARY_BYTES = 1 << 14
INDEX_BYTES = _HEAD.size + _DICTIONARY_BYTES + ACCOUNTS_PER_PACK * _ENTRY.size
"""Maximum length of what precedes the statements."""
# Level 1 takes 1.6 times as long and saves a third of the size.
_COMPRESSION_LEVEL = 0

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


@dataclass(frozen=True, slots=True)
class _Index:
    """The beginning of a pack. `entries` are the bytes of the entries."""

    dictionary: bytes
    entries: bytes
    compresses_signatures: bool

    def __iter__(self) -> Iterator[tuple[bytes, int, int, int, bytes]]:
        return _ENTRY.iter_unpack(self.entries)


def encode_pack(statements: Sequence[tuple[str, SignedStatement]]) -> bytes:
    """Return the pack of these accounts, which are sorted."""
    index, bodies = [], []
    first = statements[0][1]
    dictionary = (first.content + first.signature)[:_DICTIONARY_BYTES]
    offset = _HEAD.size + len(dictionary) + len(statements) * _ENTRY.size
    for client_id, signed in statements:
        # A third of the time of zlib.
        compressor = isal_zlib.compressobj(_COMPRESSION_LEVEL, zdict=dictionary)
        body = compressor.compress(signed.content + signed.signature) + compressor.flush()
        index.append(_ENTRY.pack(_id(client_id), offset, len(body), len(signed.signature), signed.digest))
        bodies.append(body)
        offset += len(body)
    return b"".join([_HEAD.pack(_MAGIC, len(statements), len(dictionary)), dictionary, *index, *bodies])


def read_statement(read: ReadRange, client_id: str) -> SignedStatement | None:
    """Return the statement of an account from a pack, None if it has none. Raises FileDamaged."""
    index = _read_index(read)
    found = next((entry for entry in index if entry[0] == _id(client_id)), None)
    if found is None:
        return None
    _, offset, length, signature_length, digest = found
    body = read(offset, length if index.compresses_signatures else length + signature_length)
    try:
        text = zlib.decompressobj(zdict=index.dictionary).decompress(body[:length]) + body[length:]
    except zlib.error:
        text = b""
    content, signature = text[:-signature_length], text[-signature_length:]
    if hashlib.sha256(content).digest() != digest:
        raise FileDamaged(f"The stored statement of account {client_id} is damaged.")
    return SignedStatement(content, signature, digest)


def read_digests(read: ReadRange) -> Iterator[tuple[str, str]]:
    """Yield the accounts of a pack and the digests of their statements. Raises FileDamaged."""
    for entry in _read_index(read):
        digits = entry[0].hex()
        client_id = "-".join([digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]])
        yield client_id, entry[4].hex()


def _id(client_id: str) -> bytes:
    """Return an account's id as in the index, in a fifth of the time of UUID."""
    return bytes.fromhex(client_id.replace("-", ""))


def _read_index(read: ReadRange) -> _Index:
    head = read(0, INDEX_BYTES)
    if len(head) < _HEAD.size:
        raise FileDamaged("A file of stored statements is damaged.")
    magic, count, dictionary_bytes = _HEAD.unpack_from(head)
    start = _HEAD.size
    if magic == _MAGIC_WITHOUT_DICTIONARY:
        start, dictionary_bytes = _HEAD_WITHOUT_DICTIONARY.size, 0
    first = start + dictionary_bytes
    end = first + count * _ENTRY.size
    if magic not in (_MAGIC, _MAGIC_WITHOUT_DICTIONARY) or len(head) < end:
        raise FileDamaged("A file of stored statements is damaged.")
    return _Index(head[start:first], head[first:end], compresses_signatures=magic == _MAGIC)
