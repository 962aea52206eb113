"""The statement about the files of one account in one version: in-toto Statement v1, as JSON with sorted keys."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from daybreak.catalogue.formats import format_named
from daybreak.domain.delta import ResourceDelta
from daybreak.domain.signing import Edition
from daybreak.domain.snapshot import ManifestEntry

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PUBLICATION_TYPE = "https://daybreak.example/publication/v1"
ERASURE_TYPE = "https://daybreak.example/erasure/v1"
ERASED = "erased"
"""Rule under which a statement counts the rows of an erased Member."""
UNACCOUNTED = msgspec.Raw(b'{"status":"unaccounted"}')
"""Completeness of files without row accounting."""

_json = partial(msgspec.json.encode, order="sorted")

_STATUSES = ("unexplained", "unaccounted", "derived", "declared", "proved")
"""Statuses of a resource, the weakest first."""
_ROWS_ARE_ROWS = frozenset(
    {
        ("members", "members"),
        ("member_state_changes", "member_state_changes"),
        ("custom_member_data", "custom_field_values"),
        ("member_term_accepts", "member_term_accepts"),
        ("member_communities", "community_memberships"),
    }
)
"""Resources of Members and their tables: a row of the table is a row of the file."""


class Facts(msgspec.Struct, frozen=True):
    """What the statements of all accounts in one version have in common."""

    service: str
    version: int
    as_of: datetime
    signed_at: datetime
    expires_at: datetime


class ListedFiles(NamedTuple):
    """The files of one entry: the number of their rows, and what a statement contains about them, as JSON."""

    rows: int
    subjects: bytes
    files: bytes


class AccountFacts(msgspec.Struct, frozen=True):
    """What a statement says about one account. `entries` are in the order of the documentation, `deltas` are those
    from the edition `previous`.
    """

    client_id: str
    chain_id: str
    entries: Sequence[ListedFiles]
    completeness: msgspec.Raw
    previous: Edition | None = None
    deltas: Mapping[str, ResourceDelta] = {}
    revision: int = 1


def statement(template: bytes, account: AccountFacts) -> bytes:
    """Return the statement of an account from the `statement_template` of all accounts."""
    previous = account.previous
    deltas = {} if previous is None else _deltas(account.deltas, previous)
    return template % (
        account.chain_id.encode(),
        account.client_id.encode(),
        account.completeness,
        _json(deltas),
        b",".join(sorted([entry.files for entry in account.entries])),
        _json(previous),
        account.revision,
        b",".join([entry.subjects for entry in account.entries]),
    )


def statement_template(facts: Facts) -> bytes:
    """Return the statement of any account, with places for what accounts do not have in common, in their order."""
    common = {name: _json(value).replace(b"%", b"%%") for name, value in structs.asdict(facts).items()}
    own = {"chain_id": b'"%b"', "client_id": b'"%b"', "completeness": b"%b", "deltas": b"%b", "files": b"{%b}",
           "previous": b"%b", "revision": b"%d"}  # fmt: skip
    predicate = {name: msgspec.Raw(value) for name, value in (common | own).items()}
    return in_toto(PUBLICATION_TYPE, msgspec.Raw(b"[%b]"), predicate)


def listed(entry: ManifestEntry, formats: Collection[str]) -> ListedFiles:
    """Return what statements contain about the files of an entry in the configured formats: those that the manifest
    lists. Written as text, because there may be two million files.
    """
    subjects, files = [], []
    for format, stored in entry.formats.items():
        if format in formats:
            name = _file_name(entry.resource, format)
            subjects.append(f'{{"digest":{{"sha256":"{stored.sha256}"}},"name":"{name}"}}')
            content = f'"content_sha256":"{stored.content_sha256}","rows":{entry.rows}'
            files.append(f'"{name}":{{"bytes":{stored.bytes},{content}}}')
    return ListedFiles(entry.rows, ",".join(subjects).encode(), ",".join(sorted(files)).encode())


@cache
def _file_name(resource: str, format: str) -> str:
    return f"{resource}{format_named(format).ending}"


def in_toto(predicate_type: str, subjects: object, predicate: Mapping[str, Any]) -> bytes:
    """Return an in-toto statement with sorted keys."""
    value = {"_type": STATEMENT_TYPE, "subject": subjects, "predicateType": predicate_type, "predicate": predicate}
    return _json(value)


def completeness_of(tables: Mapping[str, Mapping[str, Any]], statuses: Mapping[str, str]) -> dict[str, Any]:
    """Return the section about the rows of one account. `tables` are accounts by resource and table, `statuses` those
    of each resource. The status of the whole is the weakest.
    """
    found = set(statuses.values())
    weakest = next(each for each in _STATUSES if each in found)
    section: dict[str, Any] = {"status": weakest}
    for resource, status in statuses.items():
        own = {"status": status} if status != weakest else {}
        accounts = dict(tables.get(resource, {}))
        if own or accounts:
            section[resource] = own | accounts
    return section


def reconciled(completeness: msgspec.Raw, entries: Mapping[str, ListedFiles]) -> msgspec.Raw:
    """Return the section after an erasure: rows that are no longer in the files, by resource, count as `erased`."""
    section: dict[str, Any] = msgspec.json.decode(completeness)
    for resource, table in sorted(_ROWS_ARE_ROWS):
        account, entry = section.get(resource, {}).get(table), entries.get(resource)
        rows = 0 if account is None or entry is None else account["exported"] - entry.rows
        if rows <= 0:
            continue
        excluded = dict(account["excluded"])
        excluded[ERASED] = excluded.get(ERASED, 0) + rows
        changed = {**account, "exported": account["exported"] - rows, "excluded": excluded}
        section[resource] = {**section[resource], table: changed}
    return msgspec.Raw(_json(section))


def _deltas(deltas: Mapping[str, ResourceDelta], previous: Edition) -> dict[str, dict[str, Any]]:
    """Return the deltas that consumers can apply. Digests of content and files are those of CSV."""
    return {
        resource: {
            "from": {
                "version": previous.version,
                "revision": previous.revision,
                "content_sha256": delta.content_sha256_before,
            },
            "sha256": delta.formats["csv"].sha256,
            "to_content_sha256": delta.content_sha256_after,
            "deleted": delta.deleted,
            "inserted": delta.inserted,
            "constants": dict(delta.constants),
        }
        for resource, delta in deltas.items()
        if "csv" in delta.formats
    }
