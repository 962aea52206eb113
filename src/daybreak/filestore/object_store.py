"""File store in a bucket: Amazon S3 and compatible servers, Google Cloud Storage, Azure Blob Storage.

Keys in manifests are relative to the prefix of `files.url`. An unchanged file is not copied: the new manifest refers to
the existing object. The object is kept until no manifest refers to it.
"""

import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from datetime import timedelta
from io import FileIO
from typing import Literal
from urllib.parse import urlsplit

import msgspec
import obstore

from daybreak.domain.errors import FileDamaged, FileStoreError, Unavailable
from daybreak.domain.identity import is_id
from daybreak.filestore.bucket import RequestLimits, open_bucket
from daybreak.filestore.file_keys import (
    folder_of,
    is_within,
    mark_key,
    read_mark,
    slice_of,
    split_key,
    split_place,
)
from daybreak.filestore.file_store import (
    FileRevision,
    FileSink,
    FileSlice,
    FreeSpace,
    Kind,
    PublicationMark,
    check_content,
)
from daybreak.filestore.object_sink import PACK_HEADERS, ObjectSink, stored_headers
from daybreak.filestore.objects import READ_BYTES, Objects
from daybreak.filestore.packs import DEFAULT_PACKING, Packing, PackReader, gaps
from daybreak.filestore.store_errors import DELETE, LIST, READ, SIGN, WRITE, translate_errors
from daybreak.settings import FilesSettings

_PARALLEL_UPLOADS = 16
_MAXIMUM_URL_SECONDS = 60
_PROBE_LIFETIME = timedelta(hours=1)
_VERSIONED = (
    "the bucket keeps versions of deleted files, also those of erased Members. Turn versioning off, or add a lifecycle "
    "rule that deletes old versions."
)
_DEFAULT_LIMITS = RequestLimits()


class ObjectStore(Objects):
    """File store in a bucket. `FileStore` documents the methods."""

    full_verification = False

    def __init__(
        self, settings: FilesSettings, limits: RequestLimits = _DEFAULT_LIMITS, packing: Packing = DEFAULT_PACKING
    ) -> None:
        """Open the bucket of `files.url` without sending a request. Raises OperatorError."""
        super().__init__(open_bucket(settings, limits))
        self._packing = packing
        self._settings = settings
        self._scheme = urlsplit(settings.url).scheme
        # obstore signs URLs of Cloud Storage for the host storage.googleapis.com, regardless of the endpoint.
        public = settings.model_copy(update={"endpoint": ""})
        self._signing_bucket = open_bucket(public, limits) if self._scheme == "gs" else self._bucket

    def stage(self, snapshot_id: str) -> FileSink:
        """Return the sink of one run. Sends no request."""
        return ObjectSink(self, self._settings, snapshot_id, uploads=_PARALLEL_UPLOADS, packing=self._packing)

    @contextlib.contextmanager
    def revise(self, snapshot_id: str, revision: str) -> Iterator[FileRevision]:
        """Open the destination of objects that replace others of a snapshot. Sends no request."""
        yield ObjectSink(self, self._settings, snapshot_id, revision=revision)

    @contextlib.contextmanager
    def checking(self) -> Iterator[Callable[[str, int, str], None]]:
        packs = PackReader(self.read)
        yield lambda key, bytes, sha256: check_content(key, packs.read(key), bytes, sha256)

    def add(self, key: str, resource: str, format: str, pieces: Iterable[bytes]) -> None:
        is_pack = key.endswith(".pack")
        headers = PACK_HEADERS if is_pack else stored_headers(resource, format, self._settings.serve_gzip_as)
        ObjectSink(self, self._settings, split_key(key)[0]).upload(key, headers, pieces)

    def presence(self) -> Callable[[str, int], bool]:
        listed: dict[str, set[int]] = {}
        packs: dict[str, int] = {}
        checked: set[str] = set()

        def is_stored(key: str, size_bytes: int) -> bool:
            object_key, place = split_place(key)
            folder = "/".join(key.split("/", 2)[:2])
            if folder not in listed:
                listed[folder] = set()
                # One request lists a thousand objects. Hashes take a tenth of the memory of keys.
                for found, found_bytes in self._objects_below(f"{folder}/"):
                    listed[folder].add(hash((found, found_bytes)))
                    if found.endswith(".pack"):
                        packs[found] = found_bytes
            if place:
                is_found = is_within(place, size_bytes, packs.get(object_key, 0))
            else:
                is_found = hash((key, size_bytes)) in listed[folder]
            if not is_found and folder not in checked:
                checked.add(folder)
                self._check_list(object_key, listed[folder])
            return is_found

        return is_stored

    def _check_list(self, key: str, listed: AbstractSet[int]) -> None:
        """Raise Unavailable if a list lacks an object that exists. obstore reads an error in a response 200 as an empty
        list, and some servers list new objects later.
        """
        with contextlib.suppress(FileStoreError), translate_errors(f"The object {key} cannot be read", READ):
            if hash((key, obstore.head(self._bucket, key)["size"])) not in listed:
                raise Unavailable(f"The bucket does not list the object {key}, which exists.", code="files_unavailable")

    def open_local(self, key: str) -> FileIO | None:
        slice_of(key)
        return None

    async def packed(self, key: str) -> bytes | None:
        part = slice_of(key)
        if part.length is None:
            return None
        with translate_errors(f"The object {key} cannot be read", READ):
            return bytes(await obstore.get_range_async(self._bucket, part.key, start=part.offset, length=part.length))

    async def signed_url(self, key: str, *, seconds: int, method: Literal["GET", "HEAD"] = "GET") -> str | None:
        """Return a URL that the store answers with the headers of the upload, valid for at most 60 seconds.

        Raises FileStoreError, Unavailable.
        """
        lifetime = timedelta(seconds=max(1, min(seconds, _MAXIMUM_URL_SECONDS)))
        if self._scheme == "az":
            # obstore grants no permission for HEAD. The read permission of GET includes it.
            method = "GET"
        with translate_errors("The URL cannot be signed", SIGN):
            return await obstore.sign_async(self._signing_bucket, method, key, lifetime)

    async def stream(self, key: str, start: int, length: int, size_bytes: int | None = None) -> AsyncIterator[bytes]:
        """Yield bytes of an object that is not packed, as `read` does, and without a thread for each piece."""
        with translate_errors(f"The object {key} cannot be read", READ):
            found = await obstore.get_async(self._bucket, key, options={"range": (start, start + length)})
            if size_bytes is not None and found.meta["size"] != size_bytes:
                raise FileDamaged(f"The object {key} has {found.meta['size']} bytes instead of {size_bytes}.")
            async for piece in found.stream(min_chunk_size=READ_BYTES):
                yield bytes(piece)

    def remove(self, kind: Kind, snapshot_id: str, kept: AbstractSet[str] = frozenset()) -> int:
        return self.remove_below(f"{folder_of(kind, snapshot_id)}/", kept)

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            split_key(key)
        with translate_errors("Objects cannot be deleted", DELETE):
            self._delete(keys)

    def trim(self, pack: str, slices: Sequence[FileSlice]) -> bool:
        """Replace a pack by one with zeros between the slices. Return whether there were other bytes. A missing pack is
        ignored. Raises FileStoreError, Unavailable.
        """
        with translate_errors(f"The object {pack} cannot be read", READ):
            try:
                content = bytearray(obstore.get(self._bucket, pack).bytes())
            except FileNotFoundError:
                return False
        unused = list(gaps(slices, len(content)))
        if not any(content[start : start + length].strip(b"\0") for start, length in unused):
            return False
        for start, length in unused:
            content[start : start + length] = bytes(length)
        self.put(pack, bytes(content), PACK_HEADERS)
        return True

    def ids(self, kind: Kind) -> list[str]:
        with translate_errors("The bucket cannot be listed", LIST):
            found = obstore.list_with_delimiter(self._bucket, f"{kind}/")["common_prefixes"]
        return sorted(filter(is_id, {name.rstrip("/").rpartition("/")[2] for name in found}))

    def publication_mark(self, first_id: str) -> PublicationMark | None:
        key = mark_key(first_id)
        with translate_errors("The bucket cannot be read", READ):
            try:
                content = bytes(obstore.get(self._bucket, key).bytes())
            except FileNotFoundError:
                return None
        return read_mark(key, content)

    def mark_publication(self, first_id: str, mark: PublicationMark) -> None:
        self.put(mark_key(first_id), msgspec.json.encode(mark), {"Content-Type": "application/json"})

    def free_space(self) -> FreeSpace | None:
        return None

    def probe(self) -> str | None:
        """Sign a URL, then write, read, list and delete a small object. Also delete objects of interrupted probes.

        Return a warning if the bucket keeps what is deleted. Raises FileStoreError, Unavailable.
        """
        key = f"probe/{uuid.uuid4()}"
        with translate_errors("The URL cannot be signed", SIGN):
            obstore.sign(self._signing_bucket, "GET", key, timedelta(seconds=_MAXIMUM_URL_SECONDS))
        with translate_errors(f"The object {key} cannot be written", WRITE):
            version = obstore.put(self._bucket, key, b"daybreak", use_multipart=False)["version"]
        with translate_errors("The bucket cannot be read", READ):
            content = bytes(obstore.get(self._bucket, key).bytes())
        with translate_errors("The bucket cannot be listed", LIST):
            probes = obstore.list_with_delimiter(self._bucket, "probe/")["objects"]
        # Compared with the newest one, because the clock of the store may differ.
        newest = max((each["last_modified"] for each in probes), default=None)
        old = [each["path"] for each in probes if newest and newest - each["last_modified"] > _PROBE_LIFETIME]
        with translate_errors("Objects of the bucket cannot be deleted", DELETE):
            self._delete([key, *old])
        if content != b"daybreak":
            raise FileStoreError("The bucket does not return what was written to it.")
        # "null": versioning is suspended. On Google every object has a version.
        return None if version in {None, "null"} or self._scheme == "gs" else _VERSIONED
