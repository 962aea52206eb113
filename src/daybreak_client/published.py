"""What the service says of an account: its name, and the files that are published of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from daybreak_client.errors import WrongUse


@dataclass(frozen=True, slots=True)
class Account:
    """An account in reach. `current` is the one that the session is in."""

    client_id: str
    name: str
    current: bool
    roles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """One resource in one format.

    `name` is that of a copy, `members.csv.gz`; `path`, which begins with `/`, where the service has it; `sha256` in
    lower-case hex is of the file as it is fetched.
    """

    resource: str
    title: str
    format: str
    name: str
    path: str
    rows: int
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Published:
    """The files of one account that are served now, all of one snapshot.

    `as_of` is the instant that they show. `late`: a publication that should be out is not, for `reason`.
    """

    client_id: str
    snapshot_id: str
    as_of: datetime
    published_at: datetime
    next_expected_at: datetime
    late: bool
    reason: str | None
    files: tuple[PublishedFile, ...]

    def select(self, resources: Sequence[str] = (), formats: Sequence[str] = ("csv",)) -> tuple[PublishedFile, ...]:
        """The files of these resources, of all when none is named, in these formats. Raises WrongUse."""
        files = {(file.resource, file.format): file for file in self.files}
        known_resources = dict.fromkeys(resource for resource, _ in files)
        known_formats = dict.fromkeys(format_name for _, format_name in files)
        for kind, wanted, known in (("resource", resources, known_resources), ("format", formats, known_formats)):
            unknown = [name for name in wanted if name not in known]
            if unknown:
                raise WrongUse(f"There is no {kind} {unknown[0]!r}; there are {', '.join(known)}.")
        pairs = dict.fromkeys((resource, each) for resource in resources or known_resources for each in formats)
        missing = [f"{resource} as {each}" for resource, each in pairs if (resource, each) not in files]
        if missing:
            raise WrongUse(f"There is no {missing[0]}.")
        return tuple(files[pair] for pair in pairs)


@dataclass(frozen=True, slots=True)
class Issued:
    """A signed link, and the digest of what it opens."""

    url: str
    sha256: str


def issued_of(answer: Mapping[str, Any]) -> Issued:
    """The link that a download request gives."""
    return Issued(str(answer["data"]["url"]), str(answer["data"]["sha256"]))


def accounts_of(answer: Mapping[str, Any]) -> list[Account]:
    """The accounts of a context list."""
    return [
        Account(
            client_id=each["client_id"],
            name=" ".join(f"{each['first_name']} {each['last_name']}".split()),
            current=each["current_context"],
            roles=tuple(each["roles"]),
        )
        for each in answer["data"]
    ]


def published_of(answer: Mapping[str, Any]) -> Published:
    """What a manifest says."""
    data = answer["data"]
    return Published(
        client_id=data["client_id"],
        snapshot_id=data["snapshot_id"],
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
                name=_name_in(file["path"], entry["resource"]),
                path=file["path"],
                rows=entry["rows"],
                size_bytes=file["bytes"],
                sha256=file["sha256"],
            )


def _name_in(path: str, resource: str) -> str:
    """The part of a path that names the file. Raises WrongUse when none could be a file's name anywhere."""
    for part in path.split("/"):
        if part.startswith(f"{resource}.") and re.fullmatch(r"[a-z_]+(\.[a-z]+){1,2}", part):
            return part
    raise WrongUse(f"The service has a file at {path!r}, which has no name to go by: is it another service?")
