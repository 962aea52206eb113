"""Members of an account: current states, growth by day, and communities."""

from daybreak.catalogue.resources import SUBSCRIPTION_STATES
from daybreak.insight.figures import Community, CommunityFigures, GrowthDay, GrowthFigures, MemberFigures, UsageFigures
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
