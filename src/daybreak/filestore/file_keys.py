"""Keys of stored files: the only module that builds and splits them.

A key is `snapshots/{snapshot_id}/{first two of client_id}/{client_id}.{resource}{ending}`, relative to the root folder
or prefix of the store. All Leaders without rows share the file `snapshots/{snapshot_id}/empty/{resource}{ending}`.
Statement packs are in `snapshots/{snapshot_id}/statements/`.
Deltas are below `deltas/{snapshot_id}/`, because they are kept longer than the files of their snapshot. Those without
rows are shared, too.
There is no folder per Leader: on a disk, creating a folder takes longer than writing its files.

Small files share packs, `snapshots/{snapshot_id}/packs/{name}.pack`, or `deltas/...` for deltas. Their key is that of
the pack with `@{offset}+{length}`; `slice_of` splits it.

A file that replaces another one in its snapshot is named `{client_id}.{resource}.{revision}{ending}`, because the bytes
of a key never change.
"""

import re
from functools import lru_cache

import msgspec

from daybreak.catalogue.formats import DELTA_FORMATS, FORMATS, STATEMENTS
from daybreak.domain.errors import FileStoreError
from daybreak.domain.identity import is_id
from daybreak.filestore.file_store import FileSlice, Kind, PublicationMark

_ENDINGS = {format.name: format.ending for format in (*FORMATS, *DELTA_FORMATS, STATEMENTS)}
_DELTA_FORMATS = frozenset(format.name for format in DELTA_FORMATS)
DELTAS = "deltas/"
"""Beginning of the keys of deltas."""

_RESOURCE = re.compile(r"[a-z][a-z0-9_]{0,99}")
_REVISION = re.compile(r"[0-9a-f]{0,32}")
_PART = "[A-Za-z0-9_][A-Za-z0-9._-]{0,199}"
_KEY = re.compile(f"(?:snapshots|deltas)/([^/]+)/({_PART}(?:/{_PART})*)")
_PLACE = re.compile(r"(0|[1-9][0-9]{0,11})\+([1-9][0-9]{0,11})")


def relative_name(client_id: str, resource: str, format: str, revision: str = "") -> str:
    """Return the name of a file in its snapshot.

    An empty `client_id` selects the shared file without rows, or a pack of statements. Raises FileStoreError unless
    the arguments are an id, a resource name, a format and hex digits, so that no name points outside the folder of the
    snapshot.
    """
    last = _file_name(resource, format, revision)
    if client_id == "":
        return f"{'statements' if format == STATEMENTS.name else 'empty'}/{last}"
    if not is_id(client_id):
        raise FileStoreError("A Leader's id must be a lower-case UUID to be part of a file name.")
    return f"{client_id[:2]}/{client_id}.{last}"


@lru_cache(maxsize=64)  # Equal for all Leaders.
def _file_name(resource: str, format: str, revision: str) -> str:
    if format not in _ENDINGS or not _RESOURCE.fullmatch(resource) or not _REVISION.fullmatch(revision):
        raise FileStoreError(f"'{resource}' in format '{format}' is not a valid file name.")
    return f"{resource}.{revision}{_ENDINGS[format]}" if revision else f"{resource}{_ENDINGS[format]}"


@lru_cache(maxsize=64)  # Runs call it for every file.
def folder_of(kind: Kind, snapshot_id: str) -> str:
    """Return the folder of the files or the deltas of a snapshot. Raises FileStoreError for an invalid id."""
    if not is_id(snapshot_id):
        raise FileStoreError("A snapshot's id must be a lower-case UUID.")
    return f"{kind}/{snapshot_id}"


def format_folder(snapshot_id: str, format: str) -> str:
    """Return the folder of a snapshot's files in a format. Raises FileStoreError for an invalid id."""
    return folder_of("deltas" if format in _DELTA_FORMATS else "snapshots", snapshot_id)


def file_key(snapshot_id: str, client_id: str, resource: str, format: str, revision: str = "") -> str:
    """Return the key of a file. Raises FileStoreError as `relative_name` does."""
    return f"{format_folder(snapshot_id, format)}/{relative_name(client_id, resource, format, revision)}"


def mark_key(first_id: str) -> str:
    """Return the key of the mark of the installation whose first publication has that id. Raises FileStoreError."""
    if not is_id(first_id):
        raise FileStoreError("A snapshot's id must be a lower-case UUID.")
    return f"publications/{first_id}.json"


def read_mark(key: str, content: bytes) -> PublicationMark:
    """Return the mark from its content. Raises FileStoreError."""
    try:
        return msgspec.json.decode(content, type=PublicationMark)
    except msgspec.DecodeError as error:
        raise FileStoreError(f"The file {key} is damaged: {error}. Delete it.") from error


def slice_key(pack: str, offset: int, length: int) -> str:
    """Return the key of a file in a pack."""
    return f"{pack}@{offset}+{length}"


def split_place(key: str) -> tuple[str, str]:
    """Return the object that contains a file, and the file's place in it, "" if the object is the file.

    Runs look at each file of every kept snapshot, and `slice_of` takes three times as long.
    """
    object_key, _, place = key.partition("@")
    return object_key, place


def slice_of(key: str) -> FileSlice:
    """Return where the bytes of a file are stored. Raises FileStoreError for an invalid key."""
    object_key, place = split_place(key)
    split_key(object_key)
    if not place:
        return FileSlice(key)
    found = _PLACE.fullmatch(place)
    if found is None:
        raise FileStoreError("This is not the key of a stored file.")
    return FileSlice(object_key, int(found[1]), int(found[2]))


def is_within(place: str, size_bytes: int, pack_bytes: int) -> bool:
    """Return whether a pack contains a file of this size at a place."""
    begin, end = range_of(place)
    return end - begin == size_bytes and end <= pack_bytes


def range_of(place: str) -> tuple[int, int]:
    """Return where a file begins and ends in its pack, in less time than `slice_of`, which checks the key."""
    offset, _, length = place.partition("+")
    begin = int(offset)
    return begin, begin + int(length)


@lru_cache(1024)  # Clients fetch the same file many times.
def split_key(key: str) -> tuple[str, str]:
    """Return the snapshot id and the name in the snapshot of an object. Raises FileStoreError for an invalid key."""
    found = _KEY.fullmatch(key)
    if found is None or not is_id(found[1]):
        raise FileStoreError("This is not the key of a stored file.")
    return found[1], found[2]
