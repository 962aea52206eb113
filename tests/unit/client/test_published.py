"""Parsing of manifests and accounts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from daybreak_client.errors import WrongUse
from daybreak_client.published import parse_accounts, parse_manifest

SEGMENTS = "outbound_message_type_usage"


def manifest(*paths: tuple[str, str, str]) -> dict[str, Any]:
    """Return a manifest of (resource, format, path) triples."""
    return {
        "data": {
            "client_id": "north",
            "snapshot_id": "s1",
            "version": 41,
            "as_of": "2026-11-20T04:00:00Z",
            "published_at": "2026-11-20T04:00:00.5Z",
            "next_expected_at": "2026-11-21T04:00:00Z",
            "late": False,
            "reason": None,
            "resources": [
                {
                    "resource": resource,
                    "title": resource,
                    "rows": 3,
                    "files": [
                        {"format": format_name, "path": path, "bytes": 9, "sha256": "ab", "content_sha256": "cd"}
                    ],
                }
                for resource, format_name, path in paths
            ],
        }
    }


def test_file_names_come_from_the_paths() -> None:
    found = parse_manifest(
        manifest(
            ("members", "csv", "/download/v1/files/north/members.csv.gz"),
            (SEGMENTS, "json", f"/download/v1/files/north/{SEGMENTS}.json.gz/segment-based-subscription"),
            ("communities", "parquet", "/download/v1/files/north/communities.parquet"),
        )
    )
    assert [file.name for file in found.files] == ["members.csv.gz", f"{SEGMENTS}.json.gz", "communities.parquet"]
    assert found.as_of == datetime(2026, 11, 20, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        ("members", "/download/v1/files/north/members"),
        ("members", "/download/v1/files/north/other.csv.gz"),
        ("..", "/download/v1/files/north/.../x"),
        ("..\\..\\x", "/download/v1/files/north/..\\..\\x.csv"),
        ("members", "/download/v1/files/north/members.csv.gz\n"),
        ("-rf", "/download/v1/files/north/-rf.csv.gz"),
    ],
)
def test_unsafe_file_name_is_refused(resource: str, path: str) -> None:
    with pytest.raises(WrongUse, match="without a valid file name"):
        parse_manifest(manifest((resource, "csv", path)))


def test_files_are_selected_by_resource_and_format() -> None:
    found = parse_manifest(
        manifest(
            ("members", "csv", "/f/members.csv.gz"),
            ("members", "json", "/f/members.json.gz"),
            ("campaigns", "csv", "/f/campaigns.csv.gz"),
        )
    )
    assert [file.name for file in found.select()] == ["members.csv.gz", "campaigns.csv.gz"]
    assert [file.name for file in found.select(["members"], ["json"])] == ["members.json.gz"]
    with pytest.raises(WrongUse, match=r"Unknown resource 'member'\. Use one of members, campaigns"):
        found.select(["member"])
    with pytest.raises(WrongUse, match=r"Unknown format 'xlsx'\. Use one of csv, json"):
        found.select([], ["xlsx"])
    with pytest.raises(WrongUse, match="campaigns as json"):
        found.select(["campaigns"], ["json"])


def test_account_name_is_one_line() -> None:
    account = {
        "client_id": "north",
        "first_name": "North\n Light",
        "last_name": "",
        "current_context": True,
        "roles": [],
    }
    assert [each.name for each in parse_accounts({"data": [account]})] == ["North Light"]
