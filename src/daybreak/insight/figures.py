"""Figures of one account by UTC day. Each is a sum over every row of a file, so blocks of a page agree."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime


@dataclass(frozen=True, slots=True)
class MemberFigures:
    """Current Members by subscription state, and those who are not deleted by home state.

    `by_home` has the largest home states first, "" for an unknown one. `other_homes` are the Members of the rest.
    """

    by_subscription: Mapping[str, int]
    by_home: tuple[tuple[str, int], ...]
    other_homes: int

    @property
    def total(self) -> int:
        """Every Member, deleted ones included."""
        return sum(self.by_subscription.values())

    @property
    def live(self) -> int:
        """Members who can receive messages."""
        return self.by_subscription.get("live", 0)


@dataclass(frozen=True, slots=True)
class GrowthDay:
    """Changes of subscription states on one day.

    `joined` and `returned` are Members who became live for the first time, or again. The others were live before.
    """

    joined: int = 0
    returned: int = 0
    opted_out: int = 0
    blocked: int = 0
    deleted: int = 0
    other: int = 0

    @property
    def net(self) -> int:
        """Change of the number of live Members."""
        return self.joined + self.returned - self.opted_out - self.blocked - self.deleted - self.other


@dataclass(frozen=True, slots=True)
class Community:
    """Name and number of Members of one community."""

    name: str
    members: int


@dataclass(frozen=True, slots=True)
class CommunityFigures:
    """The largest communities first, and number and memberships of the rest."""

    largest: tuple[Community, ...]
    other_communities: int
    other_members: int


@dataclass(frozen=True, slots=True)
class CampaignDay:
    """Sums of the campaigns sent on one day, without tests. `linked_recipients` received a campaign with links."""

    campaigns: int = 0
    recipients: int = 0
    responses: int = 0
    replied: int = 0
    stopped: int = 0
    segments: int = 0
    units: int = 0
    linked_recipients: int = 0
    clicks: int = 0


@dataclass(frozen=True, slots=True)
class Campaign:
    """One campaign. `links` is the number of its links; `clicks` is how often they were opened."""

    campaign_id: str
    name: str
    channel: str
    sent_at: datetime
    recipients: int
    responses: int
    replied: int
    stopped: int
    segments: int
    units: int
    links: int
    clicks: int


@dataclass(frozen=True, slots=True)
class Link:
    """One link, summed over the campaigns that contain it."""

    url: str
    link_type: str
    campaigns: int
    recipients: int
    clicks: int


@dataclass(frozen=True, slots=True)
class LinkFigures:
    """The links with the most clicks, and number and clicks of the rest."""

    largest: tuple[Link, ...]
    other_links: int
    other_clicks: int


@dataclass(frozen=True, slots=True)
class CampaignDetails:
    """One campaign with its message, settings and links, those with the most clicks first."""

    campaign: Campaign
    text: str
    media_url: str
    usage_channel: str
    is_test: bool
    is_scheduled: bool
    is_filtered: bool
    links: tuple[Link, ...]


UsageFigures = Mapping[tuple[date, str, str], tuple[int, int, int]]
"""Messages, segments and units by day, channel and type of message."""
GrowthFigures = Mapping[date, GrowthDay]
"""Changes of subscription states by day. Changes without a valid time are left out."""
CampaignFigures = Mapping[date, CampaignDay]
"""Sums of campaigns by day of sending."""
