"""Statements: what a service signs about the files of one account in one version (in-toto Statement v1, JSON)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from daybreak_client import wire
from daybreak_client.errors import NotProved

STATEMENT_NAME, SIGNATURE_NAME = "statement.json", "statement.json.sig"
_TYPE = "https://in-toto.io/Statement/v1"
_PREDICATE_TYPE = "https://daybreak.example/publication/v1"
_MAX_RULES = 1_000
_MAX_CLOCK_DIFFERENCE = timedelta(minutes=5)


class Edition(NamedTuple):
    """A version of the files and a revision of its statement. An erasure makes a new revision."""

    version: int
    revision: int

    def __str__(self) -> str:
        return f"version {self.version}" + (f", revision {self.revision}" if self.revision > 1 else "")


@dataclass(frozen=True, slots=True)
class SignedFile:
    """A file as the statement describes it. `content_sha256` is the digest of its uncompressed content."""

    name: str
    sha256: str
    size_bytes: int
    rows: int
    content_sha256: str

    @property
    def resource(self) -> str:
        return self.name.partition(".")[0]

    @property
    def format(self) -> str:
        return next(each for each, ending in wire.ENDINGS.items() if self.name.endswith(ending))


@dataclass(frozen=True, slots=True)
class SignedDelta:
    """The delta of a resource, as CSV: from the content at an earlier edition to the content at this one."""

    start: Edition
    content_sha256: str
    sha256: str
    to_content_sha256: str
    deleted: int
    inserted: int
    constants: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class TableAccount:
    """Rows of a source table for a resource: `source` = `exported` + those `excluded` by rule.

    `sums` are sums of columns of the files.
    """

    source: int
    exported: int
    excluded: Mapping[str, int]
    sums: Mapping[str, int] = field(default_factory=dict)

    @property
    def unexplained(self) -> int:
        """Rows of the source that are neither exported nor excluded, negative if there are more of these."""
        return self.source - self.exported - sum(self.excluded.values())


@dataclass(frozen=True, slots=True)
class Completeness:
    """Row accounting of an account, by resource and source table. `statuses` has the status of each resource."""

    status: str
    statuses: Mapping[str, str]
    tables: Mapping[str, Mapping[str, TableAccount]]

    def status_of(self, resource: str) -> str:
        """Return the status of a resource, such as `proved`."""
        return self.statuses.get(resource, self.status)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, `sha256` of its bytes, and the statement before it (`previous`) with its digest."""

    service: str
    client_id: str
    edition: Edition
    chain_id: str
    as_of: datetime
    signed_at: datetime
    expires_at: datetime
    previous: Edition | None
    previous_sha256: str
    files: Mapping[str, SignedFile]
    deltas: Mapping[str, SignedDelta]
    completeness: Completeness | None
    sha256: str


def parse_statement(content: bytes, sha256: str) -> Statement:
    """Parse a statement whose signature is valid. Raises NotProved."""
    try:
        return _statement(wire.mapping(wire.json_value(content)), sha256)
    except wire.InvalidValue as fault:
        raise NotProved(f"The statement is invalid: {fault}.") from None
    except (ValueError, LookupError, TypeError, AttributeError):
        raise NotProved("The statement is not one of Daybreak.") from None


def _statement(value: Mapping[str, Any], sha256: str) -> Statement:
    if (value["_type"], value["predicateType"]) != (_TYPE, _PREDICATE_TYPE):
        raise wire.InvalidValue("it is of another type")
    predicate = wire.mapping(value["predicate"])
    previous = predicate.get("previous") or None
    chain_id = predicate.get("chain_id")
    edition = _edition(predicate)
    before = None if previous is None else _edition(previous)
    if before is not None and before >= edition:
        raise wire.InvalidValue("it follows itself or a later version")
    if wire.instant(predicate["as_of"]) - wire.instant(predicate["signed_at"]) > _MAX_CLOCK_DIFFERENCE:
        raise wire.InvalidValue("its data is later than its signature")
    return Statement(
        service=wire.service_name(predicate["service"]),
        client_id=wire.uuid(predicate["client_id"]),
        edition=edition,
        chain_id="" if chain_id is None else wire.uuid(chain_id),
        as_of=wire.instant(predicate["as_of"]),
        signed_at=wire.instant(predicate["signed_at"]),
        expires_at=wire.instant(predicate["expires_at"]),
        previous=before,
        previous_sha256="" if previous is None else wire.digest(previous["sha256"]),
        files=_files(value["subject"], wire.mapping(predicate["files"])),
        deltas={
            wire.resource(resource): _delta(wire.mapping(delta))
            for resource, delta in wire.mapping(predicate.get("deltas") or {}).items()
        },
        completeness=_completeness(predicate.get("completeness")),
        sha256=sha256,
    )


def _edition(value: object) -> Edition:
    found = wire.mapping(value)
    return Edition(wire.count(found["version"]), wire.count(found["revision"]))


def _files(subjects: object, described: Mapping[str, Any]) -> dict[str, SignedFile]:
    """Return the files. The digests are those of the subjects. Files of a newer format are left out."""

    def file(subject: Mapping[str, Any]) -> SignedFile | None:
        if not isinstance(subject["name"], str) or not wire.is_file_name(subject["name"]):
            return None
        name, facts = subject["name"], wire.mapping(described[subject["name"]])
        return SignedFile(
            name=name,
            sha256=wire.digest(wire.mapping(subject["digest"])["sha256"]),
            size_bytes=wire.size_bytes(facts["bytes"]),
            rows=wire.count(facts["rows"]),
            content_sha256=wire.digest(facts["content_sha256"]),
        )

    found = [each for each in wire.items(subjects, file) if each is not None]
    files = {each.name: each for each in found}
    if len(files) != len(found):
        raise wire.InvalidValue("a file is listed twice")
    return files


def _delta(value: Mapping[str, Any]) -> SignedDelta:
    start = wire.mapping(value["from"])
    return SignedDelta(
        start=_edition(start),
        content_sha256=wire.digest(start["content_sha256"]),
        sha256=wire.digest(value["sha256"]),
        to_content_sha256=wire.digest(value["to_content_sha256"]),
        deleted=wire.count(value["deleted"]),
        inserted=wire.count(value["inserted"]),
        constants={
            wire.name(name): wire.cell(each) for name, each in wire.mapping(value.get("constants") or {}).items()
        },
    )


def _completeness(value: object) -> Completeness | None:
    if value is None:
        return None
    sections = dict(wire.mapping(value))
    status = wire.code(sections.pop("status"))
    statuses, tables = {}, {}
    for name, section in sections.items():
        if name not in wire.RESOURCES:
            continue
        found = dict(wire.mapping(section))
        statuses[name] = wire.code(found.pop("status", status))
        tables[name] = {wire.code(table): _table(wire.mapping(account)) for table, account in found.items()}
    return Completeness(status, statuses, tables)


def _table(value: Mapping[str, Any]) -> TableAccount:
    return TableAccount(
        source=wire.count(value["source"]),
        exported=wire.count(value["exported"]),
        excluded=_counts(value.get("excluded") or {}),
        sums=_counts(value.get("sums") or {}),
    )


def _counts(value: object) -> dict[str, int]:
    """Return counts by rule or column. SQL conditions may become equal as text for people: their counts are added."""
    found, counts = wire.mapping(value), Counter[str]()
    if len(found) > _MAX_RULES:
        raise wire.InvalidValue("a list is too long")
    for name, count in found.items():
        counts[wire.text(name)] += wire.count(count)
    return dict(counts)
