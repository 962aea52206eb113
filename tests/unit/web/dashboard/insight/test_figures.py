"""Insight figures, computed from rows as the files contain them."""

from __future__ import annotations

from datetime import date

import pytest

from daybreak.catalogue.resources import resource_named
from daybreak.web.dashboard.insight.figures import campaign_figures, usage_figures

# PostgreSQL timestamps, as files contain them, that Python cannot represent.
OUT_OF_RANGE = ["infinity", "-infinity", "-43-03-15T00:00:00Z", "0044-03-15 (BC)", "10000-01-01T00:00:00Z"]


def _row(resource: str, **cells: str) -> list[str]:
    return [cells.get(name, "") for name in resource_named(resource).column_names]


def _campaign(name: str, sent_at: str) -> list[str]:
    return _row(
        "campaigns",
        CAMPAIGN_NAME=name,
        SENT_AT=sent_at,
        RECIPIENT_COUNT="3",
        REPLIED_COUNT="2",
        STOP_COUNT="1",
        TEST_CAMPAIGN="false",
    )


def _usage(day: str) -> list[str]:
    return _row("outbound_message_type_usage", DATE_DAY=day, USAGE_CHANNEL="sms", MESSAGE_COUNT="5", SEGMENT_COUNT="7")


@pytest.mark.parametrize("timestamp", OUT_OF_RANGE)
def test_campaign_with_invalid_timestamp_is_skipped(timestamp: str) -> None:
    rows = [_campaign("Odd", timestamp), _campaign("Spring", "2026-03-15T12:00:00Z")]

    found = campaign_figures(resource_named("campaigns").column_names, rows)

    assert [(campaign.name, campaign.sent_at.date()) for campaign in found] == [("Spring", date(2026, 3, 15))]


@pytest.mark.parametrize("timestamp", OUT_OF_RANGE)
def test_usage_with_invalid_timestamp_is_skipped(timestamp: str) -> None:
    rows = [_usage(timestamp), _usage("2026-03-15")]

    found = usage_figures(resource_named("outbound_message_type_usage").column_names, rows)

    assert found.messages == {date(2026, 3, 15): {"sms": 5}}
    assert found.segments == {date(2026, 3, 15): {"sms": 7}}
