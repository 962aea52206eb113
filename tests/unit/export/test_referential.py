"""Referential checks: every declared relation is checked on the rows of known Leaders."""

from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path

import pytest

from daybreak.catalogue.resources import RESOURCE_NAMES, RESOURCES
from daybreak.domain.run_report import ReferentialFault
from daybreak.export.referential import referential_faults
from tests.parts.export_rows import sample_rows

ONE, TWO = (f"0000000{number}-0000-4000-8000-000000000000" for number in (1, 2))
UNKNOWN = "00000009-0000-4000-8000-000000000000"
MEMBER, OTHER, ALONE = (f"1111111{number}-0000-4000-8000-000000000000" for number in (1, 2, 3))
CAMPAIGN = "22222222-0000-4000-8000-000000000000"
COMMUNITY = "33333333-0000-4000-8000-000000000000"
INSTANT = datetime(2026, 1, 1)
Rows = dict[str, list[tuple[object, ...]]]


def member(member_id: str, leader: str = ONE) -> tuple[object, ...]:
    return (member_id, leader, "+1", "live", *([None] * 12))


def campaign(campaign_id: str, leader: str = ONE) -> tuple[object, ...]:
    return (campaign_id, leader, leader, "sms", INSTANT, False, None, "sms", None, False, False, *([0] * 6), None)


def usage() -> tuple[object, ...]:
    return (ONE, ONE, date(2026, 1, 1), "sms", "campaign", 1, 1, 1)


def valid_rows() -> Rows:
    """Return rows of two Leaders without violations."""
    return {
        "campaigns": [campaign(CAMPAIGN)],
        "outbound_message_type_usage": [usage()],
        "campaign_links": [(CAMPAIGN, ONE, "link", "https://example.org", 0, 0)],
        "members": [member(MEMBER), member(ALONE), member(OTHER, TWO)],
        "member_state_changes": [(MEMBER, ONE, "live", INSTANT)],
        "member_term_accepts": [(MEMBER, ONE, CAMPAIGN, None, None, True, True, INSTANT, *([None] * 6), INSTANT)],
        "custom_member_data": [(MEMBER, ONE, "field", "value"), (MEMBER, ONE, "other", "value")],
        "communities": [(COMMUNITY, "All", ONE, 1)],
        "member_communities": [(COMMUNITY, "All", ONE, MEMBER, INSTANT)],
    }


def faults(folder: Path, rows: Rows, resources: Sequence[str] = RESOURCE_NAMES) -> list[ReferentialFault]:
    with sample_rows(folder, rows, [ONE, TWO]) as sample:
        return referential_faults(sample, resources)


def test_valid_rows_have_no_faults(tmp_path: Path) -> None:
    assert faults(tmp_path, valid_rows()) == []


@pytest.mark.parametrize(
    ("resource", "row", "check", "example"),
    [
        ("members", member(MEMBER), "MEMBER_ID is unique in members", MEMBER),
        ("members", member(MEMBER, TWO), "MEMBER_ID is unique in members", MEMBER),
        ("campaigns", campaign(CAMPAIGN), "CAMPAIGN_ID is unique in campaigns", CAMPAIGN),
        (
            "custom_member_data",
            (MEMBER, ONE, "field", "again"),
            "MEMBER_ID and CUSTOM_FIELD_NAME are unique together in custom_member_data",
            MEMBER,
        ),
        (
            "campaign_links",
            (CAMPAIGN, ONE, "link", "https://example.org", 1, 1),
            "CAMPAIGN_ID, LINK_TYPE and LINK_URL are unique together in campaign_links",
            CAMPAIGN,
        ),
        (
            "outbound_message_type_usage",
            usage(),
            "DATE_DAY, USAGE_CHANNEL and OUTBOUND_MESSAGE_TYPE are unique together in outbound_message_type_usage",
            "2026-01-01",
        ),
        (
            "member_state_changes",
            (OTHER, ONE, "live", INSTANT),
            "MEMBER_ID of member_state_changes exists in members",
            OTHER,
        ),
        (
            "campaign_links",
            (MEMBER, ONE, "link", "https://example.org", 0, 0),
            "CAMPAIGN_ID of campaign_links exists in campaigns",
            MEMBER,
        ),
        (
            "member_communities",
            (COMMUNITY, "All", ONE, ALONE, INSTANT),
            "MEMBER_COUNT of communities equals the rows of member_communities",
            COMMUNITY,
        ),
    ],
)
def test_violation_is_reported(
    tmp_path: Path, resource: str, row: tuple[object, ...], check: str, example: str
) -> None:
    """OTHER is a member of the second Leader, so references to it from the first Leader are violations."""
    rows = valid_rows()
    rows[resource].append(row)
    (found,) = faults(tmp_path, rows)
    assert (found.check, found.rows, found.example) == (check, 1, example)


def test_rows_of_unknown_leaders_are_not_checked(tmp_path: Path) -> None:
    rows = valid_rows()
    rows["member_state_changes"].append((MEMBER, UNKNOWN, "live", INSTANT))
    rows["members"] += [member(OTHER, UNKNOWN), member(OTHER, UNKNOWN)]
    assert faults(tmp_path, rows) == []


def test_resources_without_rows_are_not_queried(tmp_path: Path) -> None:
    rows = valid_rows()
    rows["members"].append(member(MEMBER))
    assert faults(tmp_path, rows, [name for name in RESOURCE_NAMES if name != "members"]) == []


def test_catalogue_declares_every_reference_to_another_resource() -> None:
    targets = {"MEMBER_ID": "members", "CAMPAIGN_ID": "campaigns", "COMMUNITY_ID": "communities"}
    for resource in RESOURCES:
        declared = {reference.column: reference.resource for reference in resource.references}
        expected = {
            column: target
            for column, target in targets.items()
            if column in resource.column_names and target != resource.name
        }
        assert declared == expected, resource.name
