"""Figures of written files that row accounting compares with the source: rows, a sum over keys, and sums of counts."""

from collections.abc import Mapping

ROWS = "rows"
KEYS = "keys"

KEY_PARTS: Mapping[str, tuple[str, ...]] = {
    "campaigns": ("CAMPAIGN_ID",),
    "campaign_links": ("CAMPAIGN_ID", "LINK_TYPE", "LINK_URL"),
    "members": ("MEMBER_ID",),
    "member_state_changes": ("MEMBER_ID", "STATE_CHANGED_AT"),
    "member_term_accepts": ("MEMBER_ID", "TERM_ID", "ACCEPTED_AT"),
    "custom_member_data": ("MEMBER_ID", "CUSTOM_FIELD_NAME"),
    "communities": ("COMMUNITY_ID",),
    "member_communities": ("COMMUNITY_ID", "MEMBER_ID"),
}
"""Columns of a resource whose values are part of the sum over its keys."""

SUMMED_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "campaigns": ("SEGMENT_COUNT", "UNIT_COUNT", "RESPONSE_COUNT"),
    "outbound_message_type_usage": ("MESSAGE_COUNT", "SEGMENT_COUNT", "UNIT_COUNT"),
    "campaign_links": ("HIT_COUNT",),
}
"""Counts that are summed by Leader."""


def figure_names(resource: str) -> tuple[str, ...]:
    """Return the names of the sums of a resource: that over the keys, if there is one, and those of its counts."""
    keys = (KEYS,) if resource in KEY_PARTS else ()
    return keys + SUMMED_COLUMNS.get(resource, ())
