"""Values that the service returns: accounts, and the published files of an account."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from daybreak_client.errors import WrongUse


@dataclass(frozen=True, slots=True)
class Account:
    """An account that the user has access to. `current` is the account of the session."""

    client_id: str
    name: str
    current: bool
    roles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """One resource in one format.

    `name` is the file name, such as `members.csv.gz`. `path` is its path on the service, with a leading `/`. `sha256`
    is the digest of the compressed file in lower-case hex, `content_sha256` that of its uncompressed content.
    """

    resource: str
    title: str
    format: str
    name: str
    path: str
    rows: int
    size_bytes: int
    sha256: str
    content_sha256: str

    @property
    def is_delta(self) -> bool:
        """Whether the file contains changes instead of all rows."""
        return ".delta." in self.name


@dataclass(frozen=True, slots=True)
class PublishedSnapshot:
    """The files of one account in the current snapshot.

    `version` grows by one with each publication. `as_of` is the instant of the data. `late`: the next publication is
    overdue, for `reason`.
    """

    client_id: str
    snapshot_id: str
    version: int
    as_of: datetime
    published_at: datetime
    next_expected_at: datetime
    late: bool
    reason: str | None
    files: tuple[PublishedFile, ...]

    def description(self) -> dict[str, object]:
        """Return all values but the files, for JSON."""
        return {
            "client_id": self.client_id,
            "snapshot_id": self.snapshot_id,
            "version": self.version,
            "as_of": self.as_of.isoformat(),
            "published_at": self.published_at.isoformat(),
            "next_expected_at": self.next_expected_at.isoformat(),
            "late": self.late,
            "reason": self.reason,
        }

    def select(self, resources: Sequence[str] = (), formats: Sequence[str] = ("csv",)) -> tuple[PublishedFile, ...]:
        """Return the files of these resources (default: all) in these formats. Raises WrongUse."""
        files = {(file.resource, file.format): file for file in self.files}
        known_resources = dict.fromkeys(resource for resource, _ in files)
        known_formats = dict.fromkeys(format_name for _, format_name in files)
        for kind, wanted, known in (("resource", resources, known_resources), ("format", formats, known_formats)):
            unknown = [name for name in wanted if name not in known]
            if unknown:
                raise WrongUse(f"Unknown {kind} {unknown[0]!r}. Use one of {', '.join(known)}.")
        pairs = dict.fromkeys((resource, each) for resource in resources or known_resources for each in formats)
        missing = [f"{resource} as {each}" for resource, each in pairs if (resource, each) not in files]
        if missing:
            raise WrongUse(f"{missing[0]} is not available.")
        return tuple(files[pair] for pair in pairs)


@dataclass(frozen=True, slots=True)
class Issued:
    """A signed link and the digest of its file."""

    url: str
    sha256: str


def parse_link(response: Mapping[str, Any]) -> Issued:
    """Parse the response to a download request."""
    return Issued(str(response["data"]["url"]), str(response["data"]["sha256"]))


def parse_accounts(response: Mapping[str, Any]) -> list[Account]:
    """Parse a list of contexts."""
    return [
        Account(
            client_id=each["client_id"],
            name=" ".join(f"{each['first_name']} {each['last_name']}".split()),
            current=each["current_context"],
            roles=tuple(each["roles"]),
        )
        for each in response["data"]
    ]


def parse_manifest(response: Mapping[str, Any]) -> PublishedSnapshot:
    """Parse a manifest."""
    data = response["data"]
    return PublishedSnapshot(
        client_id=data["client_id"],
        snapshot_id=data["snapshot_id"],
        version=data["version"],
        as_of=datetime.fromisoformat(data["as_of"]),
        published_at=datetime.fromisoformat(data["published_at"]),
        next_expected_at=datetime.fromisoformat(data["next_expected_at"]),
        late=data["late"],
        reason=data["reason"],
        files=tuple(_files_of(data["resources"])),
    )


def _files_of(resources: Sequence[Mapping[str, Any]]) -> Iterator[PublishedFile]:
    for entry in resources:
        for file in entry["files"]:
            yield PublishedFile(
                resource=entry["resource"],
                title=entry["title"],
                format=file["format"],
                name=_file_name(file["path"], entry["resource"]),
                path=file["path"],
                rows=entry["rows"],
                size_bytes=file["bytes"],
                sha256=file["sha256"],
                content_sha256=file["content_sha256"],
            )


def is_file_name(text: str) -> bool:
    """Return whether text is possible as the name of a published file, so that it is safe to write and delete."""
    return re.fullmatch(r"[a-z_]+(\.[a-z]+){1,2}", text) is not None


def _file_name(path: str, resource: str) -> str:
    """Return the segment of a path that is the file name. Raises WrongUse when none is safe as a file name."""
    for part in path.split("/"):
        if part.startswith(f"{resource}.") and is_file_name(part):
            return part
    raise WrongUse(f"The service returned the path {path!r} without a valid file name. Check the URL of the service.")
