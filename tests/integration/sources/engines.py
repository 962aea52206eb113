"""What an engine makes of a platform, kept in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from threading import Lock

from daybreak.catalogue.resources import RESOURCES
from daybreak.domain.snapshot import ManifestEntry
from daybreak.export import export_resource
from daybreak.ports.files import WrittenFile
from daybreak.ports.sources import EmbeddedReading

AS_OF = datetime(2026, 11, 20, 3, 12, tzinfo=UTC)


@dataclass
class KeptFiles:
    """A FileSink that keeps the bytes in memory."""

    files: dict[str, bytes] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def write(self, client_id: str, resource: str, format: str, pieces: Iterable[bytes | memoryview]) -> WrittenFile:
        content = b"".join(pieces)
        key = f"{client_id}/{resource}.{format}"
        with self._lock:
            self.files[key] = content
        return WrittenFile(key, len(content), sha256(content).hexdigest())

    def carry(self, key: str) -> str:
        return key

    def seal(self) -> None:
        """Nothing to make durable."""

    def discard(self) -> None:
        self.files.clear()


def all_entries(reading: EmbeddedReading, formats: tuple[str, ...] = ("csv", "json")) -> list[ManifestEntry]:
    """The manifest of everything in a reading, sorted."""
    entries: list[ManifestEntry] = []
    for resource in RESOURCES:
        export_resource(reading, resource, formats, KeptFiles(), on_entries=entries.extend)
    return sorted(entries, key=lambda entry: (entry.resource, entry.client_id))
