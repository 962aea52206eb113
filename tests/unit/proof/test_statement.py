"""Statements of accounts."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from daybreak.domain.delta import ResourceDelta
from daybreak.domain.signing import Edition
from daybreak.domain.snapshot import ManifestEntry, StoredFormat
from daybreak.proof.statement import (
    AccountFacts,
    Facts,
    ListedFiles,
    completeness_of,
    listed,
    reconciled,
    statement,
    statement_template,
)

NOW = datetime(2026, 11, 27, 4, 0, tzinfo=UTC)
TEMPLATE = statement_template(Facts("export.example.org", 48, NOW, NOW, NOW))
ACCOUNT = "7d909222-adf5-4547-93e0-e8f60c50f980"
STORED = StoredFormat(10, "a" * 64, 20, "b" * 64, "key")
ENTRY = ManifestEntry(ACCOUNT, "members", 3, "", {"json": STORED, "csv": STORED, "parquet": STORED})
ENTRIES = (listed(ENTRY, {"csv", "json"}),)
SECTION = completeness_of(
    {"members": {"members": {"source": 4, "exported": 3, "excluded": {"malformed": 1}}}}, {"members": "proved"}
)


def raw(section: Mapping[str, object]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(section, order="sorted"))


COMPLETENESS = raw(SECTION)


def test_statement_lists_each_file_once() -> None:
    content = json.loads(statement(TEMPLATE, AccountFacts(ACCOUNT, "chain", ENTRIES, COMPLETENESS)))
    assert [each["name"] for each in content["subject"]] == ["members.json.gz", "members.csv.gz"]
    assert content["predicate"]["files"]["members.csv.gz"] == {"bytes": 10, "rows": 3, "content_sha256": "b" * 64}
    assert content["predicate"]["previous"] is None
    assert content["predicate"]["as_of"] == "2026-11-27T04:00:00Z"


def test_statement_is_canonical() -> None:
    content = statement(TEMPLATE, AccountFacts(ACCOUNT, "chain", ENTRIES, COMPLETENESS))
    assert content == json.dumps(json.loads(content), sort_keys=True, separators=(",", ":")).encode()


def test_delta_needs_a_previous_edition_and_a_file() -> None:
    deltas = {
        "members": ResourceDelta(2, 3, inserted=2, deleted=1, content_sha256_before="c", formats={"csv": STORED}),
        "campaigns": ResourceDelta(2, 3, reason="larger_than_full"),
    }
    before = Edition(47, 2, "d" * 64)
    account = AccountFacts(ACCOUNT, "chain", ENTRIES, COMPLETENESS, before, deltas)
    found = json.loads(statement(TEMPLATE, account))["predicate"]
    assert list(found["deltas"]) == ["members"]
    assert found["deltas"]["members"]["from"] == {"version": 47, "revision": 2, "content_sha256": "c"}
    assert found["previous"] == {"version": 47, "revision": 2, "sha256": "d" * 64}


def test_weakest_status_is_that_of_the_whole() -> None:
    found = completeness_of({}, {"members": "proved", "campaigns": "unaccounted"})
    assert found == {"status": "unaccounted", "members": {"status": "proved"}}
    assert completeness_of({}, {"members": "unexplained", "campaigns": "unaccounted"})["status"] == "unexplained"


def test_erased_rows_are_excluded_by_a_rule() -> None:
    def left(section: Mapping[str, object], rows: int) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(reconciled(raw(section), {"members": ListedFiles(rows, b"", b"")}))
        return found

    found = left(SECTION, 2)
    assert found["members"]["members"] == {"source": 4, "exported": 2, "excluded": {"malformed": 1, "erased": 1}}
    again = left(found, 1)
    assert again["members"]["members"] == {"source": 4, "exported": 1, "excluded": {"malformed": 1, "erased": 2}}
    assert left(SECTION, 3) == SECTION
