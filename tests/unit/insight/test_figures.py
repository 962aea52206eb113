"""Insight figures, computed from files as they are published."""

from collections.abc import Callable
from datetime import date, datetime

import pytest
from msgspec import structs

from daybreak.domain.errors import FileDamaged, FileStoreError
from daybreak.domain.snapshot import ManifestEntry
from daybreak.insight.campaigns import CampaignDay, Link, campaign_figures, largest_campaigns, link_figures
from daybreak.insight.members import (
    Community,
    GrowthDay,
    community_figures,
    growth_figures,
    member_figures,
    usage_figures,
)
from daybreak.insight.periods import Period
from daybreak.insight.published_tables import PublishedTables
from tests.unit.insight.conftest import Published

Publish = Callable[..., Published]

# PostgreSQL timestamps, as files contain them, that Python cannot represent.
OUT_OF_RANGE = ["infinity", "-infinity", "-43-03-15T00:00:00Z", "0044-03-15 (BC)", "10000-01-01T00:00:00Z"]
LEADER = "00000000-0000-4000-8000-000000000000"
ADA, LIN, SAM, ZOE = (f"00000000-0000-4000-8000-00000000000{number}" for number in range(1, 5))
SPRING, LAUNCH, TEST = (f"10000000-0000-4000-8000-00000000000{number}" for number in range(1, 4))

CAMPAIGNS: list[dict[str, object]] = [
    {"CAMPAIGN_ID": SPRING, "CAMPAIGN_NAME": "Spring", "CHANNEL": "sms", "SENT_AT": "2026-03-15T12:00:00.000000Z",
     "TEST_CAMPAIGN": False, "TEXT": 'Hi, "you"\nReply STOP', "RECIPIENT_COUNT": 100, "RESPONSE_COUNT": 12,
     "REPLIED_COUNT": 10, "STOP_COUNT": 1, "SEGMENT_COUNT": 200, "UNIT_COUNT": 200},
    {"CAMPAIGN_ID": LAUNCH, "CAMPAIGN_NAME": None, "CHANNEL": "whatsapp", "SENT_AT": "2026-03-15T23:59:59.999999Z",
     "TEST_CAMPAIGN": False, "RECIPIENT_COUNT": 300, "RESPONSE_COUNT": 30, "REPLIED_COUNT": 25, "STOP_COUNT": 2,
     "SEGMENT_COUNT": 300, "UNIT_COUNT": 300},
    {"CAMPAIGN_ID": TEST, "CAMPAIGN_NAME": "Test", "CHANNEL": "sms", "SENT_AT": "2026-03-15T13:00:00.000000Z",
     "TEST_CAMPAIGN": True, "RECIPIENT_COUNT": 1, "RESPONSE_COUNT": 1, "REPLIED_COUNT": 1, "STOP_COUNT": 1,
     "SEGMENT_COUNT": 1, "UNIT_COUNT": 1},
]  # fmt: skip
LINKS = [
    {"CAMPAIGN_ID": campaign, "LINK_TYPE": kind, "LINK_URL": url, "RECIPIENT_COUNT": recipients, "HIT_COUNT": hits}
    for campaign, kind, url, recipients, hits in (
        (SPRING, "link", "https://a.example", 100, 40),
        (SPRING, "media", "https://b.example", 100, 5),
        (LAUNCH, "link", "https://a.example", 300, 60),
        (TEST, "link", "https://t.example", 1, 9),
    )
]
FORMATS = ["csv", "json", "ndjson", "parquet"]


def _usage(day: str, channel: str = "sms", kind: str = "campaign") -> dict[str, object]:
    return {
        "DATE_DAY": day, "USAGE_CHANNEL": channel, "OUTBOUND_MESSAGE_TYPE": kind, "MESSAGE_COUNT": 5,
        "SEGMENT_COUNT": 7, "UNIT_COUNT": 6,
    }  # fmt: skip


def _change(member: str, state: str, at: str) -> dict[str, object]:
    return {"MEMBER_ID": member, "LEADER_ID": LEADER, "SUBSCRIPTION_STATE": state, "STATE_CHANGED_AT": at}


def _member(member: str, state: str, home: str | None) -> dict[str, object]:
    return {"MEMBER_ID": member, "LEADER_ID": LEADER, "SUBSCRIPTION_STATE": state, "STATE": home}


@pytest.mark.parametrize("format_name", FORMATS)
def test_usage_is_summed_by_day_channel_and_type(publish: Publish, format_name: str) -> None:
    rows = [_usage("2026-03-15"), _usage("2026-03-15", "mms"), _usage("2026-03-16", kind="dm")]
    published = publish(format_name, outbound_message_type_usage=rows)
    with published.open() as tables:
        found = usage_figures(tables)
    assert found == {
        (date(2026, 3, 15), "sms", "campaign"): (5, 7, 6),
        (date(2026, 3, 15), "mms", "campaign"): (5, 7, 6),
        (date(2026, 3, 16), "sms", "dm"): (5, 7, 6),
    }


@pytest.mark.parametrize("timestamp", OUT_OF_RANGE)
def test_rows_with_invalid_times_are_left_out(publish: Publish, timestamp: str) -> None:
    odd: dict[str, object] = {**CAMPAIGNS[0], "CAMPAIGN_ID": TEST, "SENT_AT": timestamp}
    published = publish(
        outbound_message_type_usage=[_usage(timestamp), _usage("2026-03-15")],
        member_state_changes=[_change(ADA, "live", timestamp), _change(LIN, "live", "2026-03-15T00:00:00Z")],
        campaigns=[CAMPAIGNS[0], odd],
        campaign_links=[],
    )
    day = date(2026, 3, 15)
    with published.open() as tables:
        assert {key[0] for key in usage_figures(tables)} == {day}
        assert growth_figures(tables) == {day: GrowthDay(joined=1)}
        found = campaign_figures(tables)
        assert {sent: sums.campaigns for sent, sums in found.items()} == {day: 1}
        always = Period(date.min, date.max)
        assert [campaign.name for campaign in largest_campaigns(tables, always, limit=10)] == ["Spring"]


@pytest.mark.parametrize("format_name", FORMATS)
def test_every_member_is_counted(publish: Publish, format_name: str) -> None:
    rows = [
        _member(ADA, "live", "Ohio"),
        _member(LIN, "live", None),
        _member(SAM, "opted_out", "Ohio"),
        _member(ZOE, "deleted", None),
    ]
    published = publish(format_name, members=rows)
    with published.open() as tables:
        found = member_figures(tables)
    assert found.by_subscription == {"live": 2, "opted_out": 1, "deleted": 1}
    assert (found.by_home, found.other_homes) == ((("Ohio", 2), ("", 1)), 0)
    assert (found.total, found.live) == (4, 2)


def test_rare_homes_are_summed(publish: Publish) -> None:
    rows = [{**_member(ADA, "live", f"Home {number:03}"), "MEMBER_ID": f"{number}"} for number in range(510)]
    published = publish(members=rows)
    with published.open() as tables:
        found = member_figures(tables)
    assert (len(found.by_home), found.other_homes) == (500, 10)


@pytest.mark.parametrize("format_name", FORMATS)
def test_growth_compares_each_change_with_the_state_before(publish: Publish, format_name: str) -> None:
    rows = [
        _change(ADA, "live", "2026-03-01T00:00:00Z"),
        _change(ADA, "opted_out", "2026-03-02T00:00:00Z"),
        _change(ADA, "blocked", "2026-03-03T00:00:00Z"),  # was not live
        _change(ADA, "live", "2026-03-04T00:00:00Z"),
        _change(LIN, "opted_out", "2026-03-01T00:00:00Z"),  # was never live
        _change(SAM, "live", "2026-03-01T00:00:00Z"),
        _change(SAM, "live", "2026-03-02T00:00:00Z"),  # was live already
        _change(SAM, "deleted", "2026-03-04T00:00:00Z"),
        _change(ZOE, "live", "2026-03-02T00:00:00Z"),
        _change(ZOE, "blocked", "2026-03-04T00:00:00Z"),
    ]
    published = publish(format_name, member_state_changes=rows)
    with published.open() as tables:
        found = growth_figures(tables)
    assert {day.day: growth for day, growth in found.items() if growth != GrowthDay()} == {
        1: GrowthDay(joined=2),
        2: GrowthDay(joined=1, opted_out=1),
        4: GrowthDay(returned=1, deleted=1, blocked=1),
    }
    # Ada is live at the end.
    assert sum(growth.net for growth in found.values()) == 1


@pytest.mark.parametrize("format_name", FORMATS)
def test_campaign_sums_leave_out_tests(publish: Publish, format_name: str) -> None:
    published = publish(format_name, campaigns=CAMPAIGNS, campaign_links=LINKS)
    day = date(2026, 3, 15)
    with published.open() as tables:
        by_day = campaign_figures(tables)
        largest = largest_campaigns(tables, Period(day, day), limit=10)
        links = link_figures(tables, Period(day, day))
        assert largest_campaigns(tables, Period(date(2026, 3, 16), date.max), limit=10) == ()
        assert link_figures(tables, Period(date.min, date(2026, 3, 14))).largest == ()
    assert by_day == {
        day: CampaignDay(
            campaigns=2, recipients=400, responses=42, replied=35, stopped=3, segments=500, units=500,
            linked_recipients=400, clicks=105,
        )
    }  # fmt: skip
    assert [(each.campaign_id, each.name, each.links, each.clicks) for each in largest] == [
        (LAUNCH, "", 1, 60),
        (SPRING, "Spring", 2, 45),
    ]
    assert largest[1].sent_at == datetime(2026, 3, 15, 12)
    assert sum(campaign.clicks for campaign in largest) == sum(link.clicks for link in links.largest) == 105
    assert links.largest == (
        Link("https://a.example", "link", campaigns=2, recipients=400, clicks=100),
        Link("https://b.example", "media", campaigns=1, recipients=100, clicks=5),
    )
    assert (links.other_links, links.other_clicks) == (0, 0)


def test_communities_beyond_the_limit_are_summed(publish: Publish) -> None:
    rows = [{"COMMUNITY_ID": str(n), "COMMUNITY_NAME": f"C{n:03}", "MEMBER_COUNT": n} for n in range(503)]
    published = publish(communities=rows)
    with published.open() as tables:
        found = community_figures(tables)
    assert found.largest[0] == Community("C502", 502)
    assert (len(found.largest), found.other_communities, found.other_members) == (500, 3, 0 + 1 + 2)


def test_file_with_missing_rows_is_damaged(publish: Publish) -> None:
    published = publish(members=[_member(ADA, "live", None)])
    entry = published.entries["members"]
    longer = ManifestEntry(entry.client_id, entry.resource, 2, entry.fingerprint, entry.formats)
    damaged = pytest.raises(FileDamaged, match="has 1 rows instead of 2")
    with PublishedTables.open(published.store, [longer]) as tables, damaged:
        member_figures(tables)


def test_file_that_ends_too_early_cannot_be_read(publish: Publish) -> None:
    published = publish(member_state_changes=[_change(f"{n}", "live", "2026-03-01T00:00:00Z") for n in range(5000)])
    entry = published.entries["member_state_changes"]
    stored = entry.formats["csv"]
    entry = structs.replace(entry, formats={"csv": structs.replace(stored, key=f"{stored.key.split('+')[0]}+2000")})
    with PublishedTables.open(published.store, [entry]) as tables, pytest.raises(FileStoreError):
        growth_figures(tables)


def test_files_of_an_object_store_are_copied(publish: Publish, monkeypatch: pytest.MonkeyPatch) -> None:
    published = publish(members=[_member(ADA, "live", None)])
    monkeypatch.setattr(type(published.store), "open_local", lambda *_: None)
    with published.open() as tables:
        assert member_figures(tables).live == 1


def test_line_of_several_megabytes_is_read(publish: Publish) -> None:
    published = publish(campaigns=[{**CAMPAIGNS[0], "TEXT": "x" * 10_000_000}], campaign_links=[])
    with published.open() as tables:
        assert len(largest_campaigns(tables, Period(date.min, date.max), limit=10)) == 1
