"""Values that the service returns: accounts, the published files of an account, and the feed of deltas: what changed
between consecutive publications.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from daybreak_client import wire
from daybreak_client.errors import WrongUse


class SnapshotChanged(Exception):
    """Another snapshot was published, or a delta was withdrawn, between two requests that must agree."""


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

    def older_note(self, previous: int | None) -> str:
        """Return a sentence if the snapshot is older than the `previous` version of a copy, else ""."""
        if previous is None or previous <= self.version:
            return ""
        return f"Version {self.version} replaces version {previous}: the service was restored from a backup."

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
        """Return the files of these resources (default: all that are listed) in these formats. Raises WrongUse."""
        files = {(file.resource, file.format): file for file in self.files}
        known_resources = dict.fromkeys(resource for resource, _ in files)
        check_names("resource", resources, wire.RESOURCES)
        check_names("format", formats, dict.fromkeys(format_name for _, format_name in files))
        pairs = dict.fromkeys((resource, each) for resource in resources or known_resources for each in formats)
        missing = [f"{resource} as {each}" for resource, each in pairs if (resource, each) not in files]
        if missing:
            raise WrongUse(f"The service does not list {missing[0]}. Ask its operator.")
        return tuple(files[pair] for pair in pairs)


def check_names(kind: str, wanted: Iterable[str], known: Collection[str]) -> None:
    """Check that all names are known. Raises WrongUse."""
    for name in wanted:
        if name not in known:
            raise WrongUse(f"Unknown {kind} {name!r}. Use one of {', '.join(known)}.")


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
    if not files:
        raise wire.InvalidValue("no file of a known format is listed")
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
        # Earlier services do not say it.
        incomplete=tuple(each["resource"] for each in data["resources"] if wire.flag(each.get("incomplete", False))),
    )


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


@dataclass(frozen=True, slots=True)
class ResourceDelta:
    """Change of one resource between two publications.

    `state` is `changed`, `unchanged` or `full_required`, then for `reason`. `inserted` and `deleted` are rows. `file`
    is the delta as CSV, None if no row changed. `constants` are the values after of columns that are the same in all
    rows. The digests are those of the decompressed full CSV files.
    """

    state: str
    reason: str = ""
    inserted: int = 0
    deleted: int = 0
    rows_after: int = 0
    content_sha256_before: str = ""
    content_sha256_after: str = ""
    constants: Mapping[str, str | None] | None = None
    file: PublishedFile | None = None


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """One publication, and its changes by resource. A resource without a change may be left out."""

    version: int
    from_version: int
    resources: Mapping[str, ResourceDelta]


@dataclass(frozen=True, slots=True)
class Feed:
    """Chain of publications of an account, and the `entries` after the version that was requested, in order.

    `etag` identifies this response. `closed_reason` is set when the requested version is not in the chain.
    """

    client_id: str = ""
    chain_id: str = ""
    version: int = 0
    snapshot_id: str = ""
    entries: tuple[FeedEntry, ...] = ()
    etag: str = ""
    closed_reason: str = ""


def parse_feed(response: Mapping[str, Any], etag: str) -> Feed:
    data = wire.mapping(wire.mapping(response)["data"])
    client_id = wire.uuid(data["client_id"])
    entries = wire.items(data["entries"], lambda entry: _entry(client_id, entry))
    return Feed(
        client_id=client_id,
        chain_id=wire.uuid(data["chain_id"]),
        version=wire.count(data["version"]),
        snapshot_id=wire.uuid(data["snapshot_id"]),
        entries=tuple(sorted(entries, key=lambda entry: entry.version)),
        etag=etag,
    )


def _entry(client_id: str, entry: Mapping[str, Any]) -> FeedEntry:
    version = wire.count(entry["version"])
    changes = {
        wire.resource(name): _resource_delta(client_id, version, name, wire.mapping(change))
        for name, change in wire.mapping(entry["resources"]).items()
    }
    return FeedEntry(version, wire.count(entry["from_version"]), changes)


def _resource_delta(client_id: str, version: int, resource: str, change: Mapping[str, Any]) -> ResourceDelta:
    state = wire.code(change["state"])
    if state != "changed":
        return ResourceDelta(state, reason=wire.text(change.get("reason", "")))
    file = wire.mapping(change.get("files", {})).get("csv")
    return ResourceDelta(
        state,
        inserted=wire.count(change["inserted"]),
        deleted=wire.count(change["deleted"]),
        rows_after=wire.count(change["rows_after"]),
        content_sha256_before=wire.digest(change["content_sha256_before"]),
        content_sha256_after=wire.digest(change["content_sha256_after"]),
        constants={
            wire.name(name): wire.cell(value) for name, value in wire.mapping(change.get("constants") or {}).items()
        },
        file=None if file is None else _delta_file(client_id, version, resource, wire.mapping(file)),
    )


def _delta_file(client_id: str, version: int, resource: str, file: Mapping[str, Any]) -> PublishedFile:
    name = f"{resource}.delta{wire.ENDINGS['csv']}"
    return PublishedFile(
        resource=resource,
        title=f"{resource}, version {version}",
        format="csv",
        name=f"{version}.{name}",
        path=f"/download/v1/files/{client_id}/deltas/{version}/{name}",
        rows=0,
        size_bytes=wire.size_bytes(file["bytes"]),
        sha256=wire.digest(file["sha256"]),
        content_sha256="",
    )
