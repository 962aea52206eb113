"""Members of an account, by state, day and community, and their messages by day.

Each figure is a sum over every row of a file, so blocks of a page agree. Days are UTC days.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from daybreak.catalogue.resources import SUBSCRIPTION_STATES
from daybreak.insight.published_tables import PublishedTables

MAXIMUM_HOMES = 500
MAXIMUM_COMMUNITIES = 500
_MAXIMUM_NAME_LENGTH = 200

_STATES = ", ".join(f"'{state}'" for state in SUBSCRIPTION_STATES)
# Both groupings in one pass over the file.
_MEMBERS = f"""
    SELECT state, home, COUNT(*) AS members, GROUPING(state) = 1 AS is_home
    FROM (
        SELECT
            CASE WHEN SUBSCRIPTION_STATE IN ({_STATES}) THEN SUBSCRIPTION_STATE ELSE 'other' END AS state,
            CASE WHEN SUBSCRIPTION_STATE <> 'deleted' THEN left(STATE, {_MAXIMUM_NAME_LENGTH}) END AS home
        FROM members
    )
    GROUP BY GROUPING SETS ((state), (home))
    HAVING NOT is_home OR home IS NOT NULL
    QUALIFY ROW_NUMBER() OVER (PARTITION BY is_home ORDER BY members DESC, home) <= {MAXIMUM_HOMES}
    ORDER BY members DESC, home
"""
# Rows of a Member follow each other, in the order of time. LAG without PARTITION BY and ORDER BY compares neighbors
# in the order of the file, without sorting it.
_GROWTH = f"""
    SELECT
        CAST(STATE_CHANGED_AT AS DATE),
        COUNT(*) FILTER (is_live AND NOT is_same_member),
        COUNT(*) FILTER (is_live AND is_same_member AND NOT was_live),
        COUNT(*) FILTER (was_live AND SUBSCRIPTION_STATE = 'opted_out'),
        COUNT(*) FILTER (was_live AND SUBSCRIPTION_STATE = 'blocked'),
        COUNT(*) FILTER (was_live AND SUBSCRIPTION_STATE = 'deleted'),
        COUNT(*) FILTER (was_live AND SUBSCRIPTION_STATE NOT IN ({_STATES})),
        COUNT(*)
    FROM (
        SELECT
            STATE_CHANGED_AT,
            SUBSCRIPTION_STATE,
            SUBSCRIPTION_STATE = 'live' AS is_live,
            coalesce(MEMBER_ID = LAG(MEMBER_ID) OVER (), false) AS is_same_member,
            is_same_member AND coalesce(LAG(SUBSCRIPTION_STATE) OVER () = 'live', false) AS was_live
        FROM member_state_changes
    )
    GROUP BY 1
"""
_COMMUNITIES = f"""
    SELECT left(COMMUNITY_NAME, {_MAXIMUM_NAME_LENGTH}), MEMBER_COUNT
    FROM communities
    ORDER BY 2 DESC, 1
    LIMIT {MAXIMUM_COMMUNITIES}
"""
_COMMUNITY_TOTALS = "SELECT COUNT(*), coalesce(SUM(MEMBER_COUNT), 0) FROM communities"

_USAGE = """
    SELECT
        CAST(DATE_DAY AS DATE), USAGE_CHANNEL, OUTBOUND_MESSAGE_TYPE,
        SUM(MESSAGE_COUNT), SUM(SEGMENT_COUNT), SUM(UNIT_COUNT), COUNT(*)
    FROM outbound_message_type_usage
    GROUP BY ALL
"""


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


UsageFigures = Mapping[tuple[date, str, str], tuple[int, int, int]]
"""Messages, segments and units by day, channel and type of message."""


GrowthFigures = Mapping[date, GrowthDay]
"""Changes of subscription states by day. Changes without a valid time are left out."""


def member_figures(tables: PublishedTables) -> MemberFigures:
    """Count the Members by subscription state and by home state. Raises FileStoreError."""
    rows = tables.rows(_MEMBERS)
    by_subscription = {state: count for state, _, count, is_home in rows if not is_home}
    total = sum(by_subscription.values())
    tables.check_rows("members", total)
    by_home = tuple((home, count) for _, home, count, is_home in rows if is_home)
    other = total - by_subscription.get("deleted", 0) - sum(count for _, count in by_home)
    return MemberFigures(by_subscription, by_home, other)


def growth_figures(tables: PublishedTables) -> GrowthFigures:
    """Count the changes of subscription states by day. Raises FileStoreError."""
    rows = tables.rows(_GROWTH)
    tables.check_rows("member_state_changes", sum(row[-1] for row in rows))
    return {row[0]: GrowthDay(*row[1:-1]) for row in rows if row[0] is not None}


def community_figures(tables: PublishedTables) -> CommunityFigures:
    """Return the largest communities, and sums of the rest. Raises FileStoreError."""
    largest = tuple(Community(name, members) for name, members in tables.rows(_COMMUNITIES))
    ((communities, members),) = tables.rows(_COMMUNITY_TOTALS)
    tables.check_rows("communities", communities)
    other_members = int(members) - sum(community.members for community in largest)
    return CommunityFigures(largest, communities - len(largest), other_members)


def usage_figures(tables: PublishedTables) -> UsageFigures:
    """Return the sums of the message segment usage file. Raises FileStoreError."""
    rows = tables.rows(_USAGE)
    tables.check_rows("outbound_message_type_usage", sum(row[-1] for row in rows))
    return {(row[0], row[1], row[2]): (int(row[3]), int(row[4]), int(row[5])) for row in rows if row[0] is not None}
