"""Parsing of manifests and accounts."""

from datetime import UTC, datetime
from typing import Any

import pytest

from daybreak_client.errors import WrongUse
from daybreak_client.published import parse_accounts, parse_manifest
from daybreak_client.wire import InvalidValue

SEGMENTS = "outbound_message_type_usage"


def manifest(*paths: tuple[str, str, str]) -> dict[str, Any]:
    """Return a manifest of (resource, format, path) triples."""
    return {
        "data": {
            "client_id": "a0000000-0000-4000-8000-000000000001",
            "snapshot_id": "c0000000-0000-4000-8000-000000000003",
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
                        {
                            "format": format_name,
                            "path": path,
                            "bytes": 9,
                            "sha256": "ab" * 32,
                            "content_sha256": "cd" * 32,
                        }
                    ],
                }
                for resource, format_name, path in paths
            ],
        }
    }


def test_file_names_have_the_endings_of_their_formats() -> None:
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
    "resource", ["..", "../members", "..\\..\\x", "members\n", "-rf", "Members", "", "usercustomize", 3]
)
def test_unknown_resource_is_refused(resource: Any) -> None:
    with pytest.raises(InvalidValue, match="a resource is unknown"):
        parse_manifest(manifest((resource, "csv", "/x")))


@pytest.mark.parametrize("format_name", ["../csv", "CSV", None, ["csv"]])
def test_invalid_format_is_refused(format_name: Any) -> None:
    with pytest.raises(InvalidValue, match="a code is invalid"):
        parse_manifest(manifest(("members", format_name, "/x")))


def test_incomplete_resources_are_listed() -> None:
    value = manifest(("members", "csv", "/x"), ("communities", "csv", "/y"))
    assert parse_manifest(value).incomplete == ()
    value["data"]["resources"][0]["incomplete"] = True
    assert parse_manifest(value).incomplete == ("members",)
    value["data"]["resources"][0]["incomplete"] = "yes"
    with pytest.raises(InvalidValue):
        parse_manifest(value)


def test_names_and_paths_are_not_taken_from_the_service() -> None:
    (file,) = parse_manifest(manifest(("members", "csv", "@other.example/usercustomize.py"))).files
    assert (file.name, file.path) == (
        "members.csv.gz",
        "/download/v1/files/a0000000-0000-4000-8000-000000000001/members.csv.gz",
    )


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
    with pytest.raises(WrongUse, match=r"Unknown resource 'member'\. Use one of campaigns, outbound"):
        found.select(["member"])
    with pytest.raises(WrongUse, match=r"Unknown format 'xlsx'\. Use one of csv, json"):
        found.select([], ["xlsx"])
    with pytest.raises(WrongUse, match="campaigns as json"):
        found.select(["campaigns"], ["json"])


def test_account_name_is_one_line() -> None:
    account = {
        "client_id": "a0000000-0000-4000-8000-000000000001",
        "first_name": "North\n Light",
        "last_name": "",
        "current_context": True,
        "roles": [],
    }
    assert [each.name for each in parse_accounts({"data": [account]})] == ["North Light"]
