"""A service with deltas that tests control: publishes rows, and can damage, withdraw or exchange deltas.

It follows the specification independently of the service, so that a client is tested against both.
"""

import gzip
import hashlib
import itertools
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from daybreak.catalogue.resources import RESOURCES, Resource
from daybreak.catalogue.table_schema import data_package
from tests.parts.csv_content import csv_bytes
from tests.parts.scripted_service import Reply, Request, ScriptedService, scripted_service

Row = tuple[str | int | bool | None, ...]
Tables = Mapping[str, Sequence[Row]]
CONSTANT = "ETL_LOADED_AT"
INSTANT = "2026-11-20T04:00:00Z"
NORTH, SOUTH = "7d909222-adf5-4547-93e0-e8f60c50f980", "c6b3a8a2-3a45-4b5e-9d35-0f3a1c5b7e11"


@dataclass
class Version:
    """One publication: full files and deltas by file name, compressed, and the changes of the feed."""

    number: int
    as_of: str
    rows: dict[str, list[Row]]
    full: dict[str, bytes]
    deltas: dict[str, bytes] = field(default_factory=dict)
    changes: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass
class Publisher:
    """Publications of one account. `requests` counts what the client asked for, by kind."""

    client_id: str
    service: ScriptedService
    chain_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    versions: list[Version] = field(default_factory=list)
    chain_start: int = 1
    copies: int = 0
    first_day: datetime = datetime(2026, 11, 1, 4, tzinfo=UTC)
    late_reason: str | None = None
    incomplete: str = ""
    unlisted: str = ""
    before_reply: Callable[[Request], Reply | None] = lambda _: None
    columns: Callable[[dict[str, Any]], dict[str, Any]] = lambda schema: schema

    def publish(self, tables: Tables) -> Version:
        """Publish rows of each resource, in any order. Missing resources are empty."""
        number = len(self.versions) + 1
        as_of = f"{self.first_day + timedelta(days=number, microseconds=number):%Y-%m-%dT%H:%M:%S.%fZ}"
        rows = {
            resource.name: sorted((_stamped(resource, row, as_of) for row in tables.get(resource.name, ())),
                                  key=lambda row, resource=resource: _order(resource, row))  # type: ignore[misc]
            for resource in RESOURCES
        }  # fmt: skip
        full = {each.name: csv_bytes(each, rows[each.name]) for each in RESOURCES}
        version = Version(number, as_of, rows, full)
        if self.versions:
            for resource in RESOURCES:
                self._add_delta(resource, self.versions[-1], version)
        self.versions.append(version)
        return version

    def replace_delta(self, version: int, resource: str, packed: bytes, *, announce: bool) -> None:
        """Replace a delta, with `announce` also its digest in the feed."""
        found, name = self.versions[version - 1], f"{resource}.delta.csv.gz"
        found.deltas[name] = packed
        if announce:
            found.changes[resource]["files"]["csv"] |= {"bytes": len(packed), "sha256": _sha256(packed)}

    def close_chain(self) -> None:
        """Begin another chain with the current version."""
        self.chain_id, self.chain_start = str(uuid.uuid4()), len(self.versions)

    def restore(self, version: int) -> None:
        """Continue from a copy that was made at an earlier version. Later versions are published again, as others."""
        del self.versions[version:]
        self.copies += 1

    def _add_delta(self, resource: Resource, before: Version, after: Version) -> None:
        name, lines, inserted, deleted = resource.name, list[Row](), 0, 0
        old, new = (_by_key(resource, version.rows[name]) for version in (before, after))
        if before.full[name] == after.full[name]:
            after.changes[name] = {"state": "unchanged"}
            return
        constants = {CONSTANT: after.as_of} if CONSTANT in resource.column_names else {}
        for key in sorted(old.keys() | new.keys(), key=lambda key: [_sortable(value) for value in key]):
            was, now = (_without_constants(resource, rows.get(key, [])) for rows in (old, new))
            if was == now:
                continue
            if was:
                cells = dict(zip(resource.key, key, strict=True))
                lines.append(("D", *(cells.get(column) for column in resource.column_names)))
            lines += [("I", *row) for row in new.get(key, [])]
            inserted, deleted = inserted + len(now), deleted + len(was)
        content = csv_bytes(resource, lines, ("_OP", *resource.column_names))
        packed = gzip.compress(content, 1, mtime=0)
        file_name = f"{name}.delta.csv.gz"
        after.deltas[file_name] = packed
        after.changes[name] = {
            "state": "changed", "inserted": inserted, "deleted": deleted,
            "rows_before": len(before.rows[name]), "rows_after": len(after.rows[name]),
            "content_sha256_before": _sha256(before.full[name]), "content_sha256_after": _sha256(after.full[name]),
            "constants": constants,
            "files": {"csv": {"name": file_name, "bytes": len(packed), "sha256": _sha256(packed)}},
        }  # fmt: skip

    def reply(self, request: Request) -> Reply:
        """Answer a request of the client."""
        found = self.before_reply(request)
        if found is not None:
            return found
        path, _, query = request.path.partition("?")
        files = f"/download/v1/files/{self.client_id}"
        if path == "/download/v1/schema":
            return Reply(200, self.columns(schema()))
        if path == files:
            return Reply(200, {"data": self._manifest()})
        if path == f"{files}/deltas":
            return self._feed(request, int(query.partition("=")[2]) if query else None)
        if path.startswith(f"{files}/deltas/"):
            number, name = path.removeprefix(f"{files}/deltas/").split("/")
            version, packed = self.versions[int(number) - 1], self.versions[int(number) - 1].deltas.get(name)
            announced = version.changes.get(name.partition(".")[0], {}).get("files", {}).get("csv", {}).get("sha256")
            return self._link(path, packed, announced)
        if path.startswith(f"{files}/"):
            name = path.removeprefix(f"{files}/").removesuffix(".csv.gz")
            return self._link(path, gzip.compress(self.versions[-1].full[name], 1, mtime=0))
        if path.startswith("/links/"):
            return Reply(200, self._content(path.removeprefix("/links")))
        return Reply(404, {"code": "not_found", "detail": "No such page."})

    def _content(self, path: str) -> bytes:
        files = f"/download/v1/files/{self.client_id}/"
        parts = path.removeprefix(files).split("/")
        if parts[0] == "deltas":
            return self.versions[int(parts[1]) - 1].deltas[parts[2]]
        return gzip.compress(self.versions[-1].full[parts[0].removesuffix(".csv.gz")], 1, mtime=0)

    def _link(self, path: str, content: bytes | None, announced: str | None = None) -> Reply:
        if content is None:
            return Reply(404, {"code": "unknown_file", "detail": "Unknown file."})
        link = {"url": f"/links{path}", "sha256": announced or _sha256(content)}
        return Reply(302, {"data": link}, {"Location": f"/links{path}"})

    def _feed(self, request: Request, since: int | None) -> Reply:
        current, first = self.versions[-1], self.chain_start
        if since is not None and not first <= since <= current.number:
            return Reply(410, {"code": "chain_closed", "detail": "This version is not in the chain."})
        entries = [
            {"version": each.number, "from_version": each.number - 1, "snapshot_id": self._snapshot_id(each.number),
             "as_of": each.as_of, "published_at": each.as_of, "resources": each.changes}
            for each in self.versions[first:]
            if each.number > (since or 0)
        ]  # fmt: skip
        body = {"data": {"client_id": self.client_id, "chain_id": self.chain_id, "oldest_version": first,
                         "version": current.number, "snapshot_id": self._snapshot_id(current.number),
                         "as_of": current.as_of,
                         "published_at": current.as_of, "next_expected_at": INSTANT, "entries": entries}}  # fmt: skip
        etag = '"' + _sha256(msgspec.json.encode(body))[:16] + '"'
        if request.headers.get("if-none-match") == etag:
            return Reply(304, headers={"ETag": etag})
        return Reply(200, body, {"ETag": etag})

    def _manifest(self) -> dict[str, Any]:
        current = self.versions[-1]
        resources = []
        for resource in RESOURCES:
            if resource.name == self.unlisted:
                continue
            content = current.full[resource.name]
            packed = gzip.compress(content, 1, mtime=0)
            file = {"format": "csv", "path": f"/download/v1/files/{self.client_id}/{resource.name}.csv.gz",
                    "bytes": len(packed), "sha256": _sha256(packed), "content_sha256": _sha256(content)}  # fmt: skip
            rows = len(current.rows[resource.name])
            resources.append({"resource": resource.name, "title": resource.title, "rows": rows, "files": [file],
                              "incomplete": resource.name == self.incomplete})  # fmt: skip
        return {"client_id": self.client_id, "snapshot_id": self._snapshot_id(current.number),
                "version": current.number, "as_of": current.as_of,
                "published_at": current.as_of, "next_expected_at": INSTANT,
                "late": self.late_reason is not None, "reason": self.late_reason, "resources": resources}  # fmt: skip

    def _snapshot_id(self, version: int) -> str:
        return snapshot_id_of(version + 1000 * self.copies)

    def count(self, part: str) -> int:
        """Return the number of requests so far whose path contains `part`."""
        return sum(part in request.path for request in self.service.requests)


@contextmanager
def publishing(*client_ids: str) -> Iterator[list[Publisher]]:
    """Run a service with these accounts."""
    with scripted_service() as service:
        publishers = [Publisher(client_id, service) for client_id in client_ids]

        def script(request: Request) -> Reply:
            found = [each for each in publishers if each.client_id in request.path]
            return (found or publishers)[0].reply(request)

        service.script = script
        yield publishers


def id_of(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


def community(number: int, name: str, leader: str = NORTH) -> Row:
    """Return a row of communities."""
    return (id_of(number), name, leader, number)


def member(number: int, first_name: str | None = None, leader: str = NORTH, *, phone: str | None = None) -> Row:
    """Return a row of members."""
    return (id_of(number), leader, phone, "live", first_name, None, "a@example.org", *[None] * 9)


def schema() -> dict[str, Any]:
    """Return the response of `/download/v1/schema`."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(data_package()))
    for described, resource in zip(found["resources"], RESOURCES, strict=True):
        described["schema"]["primaryKey"] = list(resource.key) if resource.key_is_unique else []
    return found


def _stamped(resource: Resource, row: Row, as_of: str) -> Row:
    return tuple(as_of if name == CONSTANT else value for name, value in zip(resource.column_names, row, strict=True))


def _without_constants(resource: Resource, rows: Sequence[Row]) -> list[Row]:
    return [_stamped(resource, row, "") for row in rows]


def _by_key(resource: Resource, rows: Sequence[Row]) -> dict[Row, list[Row]]:
    places = [resource.column_names.index(name) for name in resource.key]
    grouped = itertools.groupby(rows, key=lambda row: tuple(row[place] for place in places))
    return {key: list(group) for key, group in grouped}


def _order(resource: Resource, row: Row) -> list[tuple[bool, object]]:
    names = resource.column_names
    places = [names.index(name) for name in resource.key]
    return [_sortable(row[place]) for place in [*places, *range(len(names))]]


def _sortable(value: str | int | bool | None) -> tuple[bool, object]:
    """Return a value in a form that sorts NULL first and text by its UTF-8 bytes."""
    return value is not None, value.encode() if isinstance(value, str) else (value or 0)


def snapshot_id_of(version: int) -> str:
    """Return the snapshot of a version."""
    return f"00000000-0000-4000-8000-{version:012}"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
