"""Files in a file store, to write, and those on disk, in packs or not, to read and to damage."""

import uuid
from pathlib import Path

from daybreak.filestore.file_keys import slice_of
from daybreak.filestore.file_store import FileStore, WrittenFile

LEADER = "d90cd8fe-ecce-4b28-b5b4-cded8d7e46f7"


def store_file(store: FileStore, content: bytes = b"rows", snapshot_id: str = "") -> WrittenFile:
    """Store the only file of a snapshot: of a new one, without its id."""
    sink = store.stage(snapshot_id or str(uuid.uuid4()))
    written = sink.write(LEADER, "members", "csv", [content])
    sink.commit()
    return written


def read_stored(root: Path, key: str) -> bytes:
    """Return the bytes of a file of the store in a folder."""
    part = slice_of(key)
    content = (root / part.key).read_bytes()
    return content if part.length is None else content[part.offset : part.offset + part.length]


def overwrite_stored(root: Path, key: str, content: bytes | bytearray) -> None:
    """Replace the bytes of a file by others of the same length."""
    path = root / slice_of(key).key
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.seek(slice_of(key).offset)
        file.write(content)


def lose_stored(root: Path, key: str) -> None:
    """Delete a file, or overwrite it by zeros if it is in a pack."""
    part = slice_of(key)
    if part.length is None:
        (root / key).unlink()
    else:
        overwrite_stored(root, key, bytes(part.length))


def is_stored(root: Path, key: str) -> bool:
    """Return whether any byte of a file is left."""
    return (root / slice_of(key).key).exists() and any(read_stored(root, key))


def parquet_file(root: Path, key: str, folder: Path) -> Path:
    """Return the path of a Parquet file with the bytes of a stored one."""
    if slice_of(key).length is None:
        return root / key
    path = folder / f"{key.replace('/', '-')}.parquet"
    path.write_bytes(read_stored(root, key))
    return path
