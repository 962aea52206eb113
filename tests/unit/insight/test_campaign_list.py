"""Pages of campaigns, and details of one campaign."""

from collections.abc import Callable
from datetime import date

import pytest

from daybreak.insight.campaigns import ORDERS, Link, campaign_details, campaign_page
from daybreak.insight.periods import Period
from tests.unit.insight.conftest import Published
from tests.unit.insight.test_figures import CAMPAIGNS, FORMATS, LAUNCH, LINKS, SPRING, TEST

Publish = Callable[..., Published]
ALWAYS = Period(date.min, date.max)


@pytest.mark.parametrize("format_name", FORMATS)
def test_details_have_message_and_links(publish: Publish, format_name: str) -> None:
    published = publish(format_name, campaigns=CAMPAIGNS, campaign_links=LINKS)
    with published.open() as tables:
        spring, test = campaign_details(tables, SPRING), campaign_details(tables, TEST)
        assert campaign_details(tables, "9" * 36) is None
    assert spring is not None
    assert test is not None
    assert (spring.campaign.name, spring.text, spring.is_test) == ("Spring", 'Hi, "you"\nReply STOP', False)
    assert (spring.campaign.links, spring.campaign.clicks) == (2, 45)
    assert spring.links == (
        Link("https://a.example", "link", 1, 100, 40),
        Link("https://b.example", "media", 1, 100, 5),
    )
    assert test.is_test


@pytest.mark.parametrize(
    ("text", "found"),
    [("", [LAUNCH, SPRING]), ("SPRING", [SPRING]), ("reply stop", [SPRING]), ("%", []), ("test", []), ("'", [])],
)
def test_search_finds_names_and_messages(publish: Publish, text: str, found: list[str]) -> None:
    published = publish(campaigns=CAMPAIGNS, campaign_links=LINKS)
    with published.open() as tables:
        page = campaign_page(tables, ALWAYS, text, number=1)
    assert [campaign.campaign_id for campaign in page.campaigns] == found
    assert page.total == len(found)


def test_pages_contain_every_campaign_once(publish: Publish) -> None:
    recipients = [number % 7 for number in range(120)]
    campaigns = [
        {**CAMPAIGNS[0], "CAMPAIGN_ID": f"{number:032}", "RECIPIENT_COUNT": count, "REPLIED_COUNT": number % 3}
        for number, count in enumerate(recipients)
    ]
    published = publish(campaigns=campaigns, campaign_links=[])
    with published.open() as tables:
        for order in ORDERS:
            pages = [campaign_page(tables, ALWAYS, "", order, number=number) for number in (1, 2, 3, 9)]
            assert [(page.total, page.first) for page in pages] == [(120, 0), (120, 50), (120, 100), (120, 100)]
            assert len(pages[2].campaigns) == 20
            assert len({campaign.campaign_id for page in pages for campaign in page.campaigns}) == 120
            if order in ("recipients", "recipients-up"):
                found = [each.recipients for each in pages[0].campaigns]
                assert found == sorted(recipients, reverse=order == "recipients")[:50]
