"""Values that the service returns: accounts, and the published files of an account."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from daybreak_client import wire
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
    overdue, for `reason`. `incomplete` are the resources that lack rows, because the platform has malformed ones.
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
    incomplete: tuple[str, ...] = ()

    @property
    def incomplete_note(self) -> str:
        """Which resources are incomplete, as a sentence, "" if none is."""
        if not self.incomplete:
            return ""
        return f"Incomplete: {', '.join(self.incomplete)}. The platform has malformed rows. Ask your operator."

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
            "incomplete": list(self.incomplete),
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


def parse_link(response: Mapping[str, Any], base: str) -> Issued:
    """Parse the response to a download request. `base` is the URL of the service."""
    data = wire.mapping(wire.mapping(response)["data"])
    return Issued(wire.link(data["url"], base), wire.digest(data["sha256"]))


def parse_accounts(response: Mapping[str, Any]) -> list[Account]:
    """Parse a list of contexts."""
    return list(wire.items(wire.mapping(response)["data"], _account))


def _account(value: Mapping[str, Any]) -> Account:
    return Account(
        client_id=wire.uuid(value["client_id"]),
        name=" ".join(f"{wire.text(value['first_name'])} {wire.text(value['last_name'])}".split()),
        current=wire.flag(value["current_context"]),
        roles=tuple(map(wire.code, value["roles"])),
    )


def parse_manifest(response: Mapping[str, Any]) -> PublishedSnapshot:
    data = wire.mapping(wire.mapping(response)["data"])
    client_id = wire.uuid(data["client_id"])
    resources = wire.items(data["resources"], lambda entry: tuple(_files_of(client_id, entry)))
    files = tuple(file for found in resources for file in found)
    if len({file.name for file in files}) != len(files):
        raise wire.InvalidValue("a file is listed twice")
    return PublishedSnapshot(
        client_id=client_id,
        snapshot_id=wire.uuid(data["snapshot_id"]),
        version=wire.count(data["version"]),
        as_of=wire.instant(data["as_of"]),
        published_at=wire.instant(data["published_at"]),
        next_expected_at=wire.instant(data["next_expected_at"]),
        late=wire.flag(data["late"]),
        reason=None if data["reason"] is None else wire.text(data["reason"]),
        files=files,
        incomplete=tuple(name for name in wire.items(data["resources"], _incomplete_resource) if name),
    )


def _incomplete_resource(entry: Mapping[str, Any]) -> str:
    """Return the name of a resource that is incomplete, "" for another one. Earlier services do not say it."""
    return wire.resource(entry["resource"]) if wire.flag(entry.get("incomplete", False)) else ""


def _files_of(client_id: str, entry: Mapping[str, Any]) -> Iterator[PublishedFile]:
    """Yield the files of a resource. Names and paths are made here, not taken from the service."""
    resource, title, rows = wire.resource(entry["resource"]), wire.text(entry["title"]), wire.count(entry["rows"])
    for file in wire.items(entry["files"], lambda each: each):
        format_name = wire.format_name(file["format"])
        if format_name is None:
            continue
        name = resource + wire.ENDINGS[format_name]
        yield PublishedFile(
            resource=resource,
            title=title,
            format=format_name,
            name=name,
            path=f"/download/v1/files/{client_id}/{name}",
            rows=rows,
            size_bytes=wire.size_bytes(file["bytes"]),
            sha256=wire.digest(file["sha256"]),
            content_sha256=wire.digest(file["content_sha256"]),
        )
