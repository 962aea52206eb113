"""Names of files in a store: the only place that makes keys, and the only one that takes them apart.

A key is `snapshots/{snapshot_id}/{first two of client_id}/{client_id}.{resource}{ending}`; the shared header-only
file lies at `snapshots/{snapshot_id}/empty/{resource}{ending}`. Keys are relative to the store's root or prefix.
A Leader has no folder of its own: on a disk, making one costs more than making its files.
"""

from __future__ import annotations

import re
from functools import lru_cache

from daybreak.catalogue.formats import FORMATS
from daybreak.domain.errors import FileStoreError
from daybreak.domain.identity import is_id

_ENDINGS = {format.name: format.ending for format in FORMATS}

_RESOURCE = re.compile(r"[a-z][a-z0-9_]{0,99}")
_PART = "[A-Za-z0-9_][A-Za-z0-9._-]{0,199}"
_KEY = re.compile(f"snapshots/([^/]+)/({_PART}(?:/{_PART})*)")


def relative_name(client_id: str, resource: str, format: str) -> str:
    """The name of a file inside its snapshot. Raises FileStoreError for anything that is not plainly a client id, a
    resource and a format: a name can never leave the snapshot's folder.
    """
    last = _last_part(resource, format)
    if client_id == "":
        return f"empty/{last}"
    if not is_id(client_id):
        raise FileStoreError("A Leader's id must be a lower-case UUID to become a file name.")
    return f"{client_id[:2]}/{client_id}.{last}"


@lru_cache(maxsize=64)
def _last_part(resource: str, format: str) -> str:
    """The same for every Leader, of whom a run names thousands in a second."""
    if format not in _ENDINGS or not _RESOURCE.fullmatch(resource):
        raise FileStoreError(f"'{resource}' in format '{format}' cannot be a file name.")
    return f"{resource}{_ENDINGS[format]}"


def snapshot_folder(snapshot_id: str) -> str:
    """The folder of a snapshot. Raises FileStoreError when the id is not one."""
    if not is_id(snapshot_id):
        raise FileStoreError("A snapshot's id must be a lower-case UUID.")
    return f"snapshots/{snapshot_id}"


@lru_cache(1024)  # a file is fetched again and again
def split_key(key: str) -> tuple[str, str]:
    """A key as (snapshot id, name inside the snapshot). Raises FileStoreError for a key this module does not make."""
    found = _KEY.fullmatch(key)
    if found is None or not is_id(found[1]):
        raise FileStoreError("This is not the key of a stored file.")
    return found[1], found[2]
