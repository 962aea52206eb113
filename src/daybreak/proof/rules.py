"""Rules by which rows of the source are in no file, and anomalies that exclude no row. Each has a code."""

from collections.abc import Mapping
from dataclasses import dataclass

from daybreak.catalogue.written_sums import KEYS, ROWS
from daybreak.domain.run_report import Status, TableAccount

RULES: Mapping[str, str] = {
    "malformed": "a value cannot be converted to the type of its column, or a count is out of range",
    "merged": "part of another row of the file",
    "left": "the Member has left the community",
    "no_instant": "the time is NULL",
    "after_as_of": "later than the instant of the snapshot",
    "older_than_90_days": "accepted more than 90 days before the snapshot",
    "no_campaign": "not part of a campaign",
    "unknown_campaign": "the campaign is not in table campaigns",
    "campaign_no_instant": "the time of the campaign is NULL",
    "campaign_after_as_of": "the campaign is later than the instant of the snapshot",
    "unknown_link": "the link is not in table campaign_links",
    "unknown_community": "the community is not in table communities",
    "no_leader": "the Leader is NULL",
    "unknown_leader": "the Leader is not in table leaders",
}
"""Each rule and the reason that it states."""

FAULTS = frozenset(
    {
        "malformed", "no_instant", "campaign_no_instant", "unknown_campaign", "unknown_link", "unknown_community",
        "no_leader", "unknown_leader",
    }
)  # fmt: skip
"""Rules that apply only to faulty rows. `no_campaign` does not: most messages are not part of a campaign."""

ANOMALIES: Mapping[str, tuple[str, str]] = {
    "null_segment_count": ("outbound_messages", "segment_count is NULL and counts as 0"),
    "null_unit_count": ("outbound_messages", "unit_count is NULL and counts as 0"),
    "null_recipient": ("outbound_messages", "member_id is NULL and counts as no recipient"),
    "null_sender": ("inbound_messages", "member_id is NULL and counts as no reply of a Member"),
    "null_is_stop": ("inbound_messages", "is_stop is NULL and counts as false"),
    "other_leader": ("outbound_messages", "the Leader differs from that of the campaign"),
    "other_leader_of_reply": ("inbound_messages", "the Leader differs from that of the campaign"),
    "unknown_term": ("member_term_accepts", "the term is not in table terms"),
    "unknown_parent": ("leaders", "the parent Leader is not in table leaders"),
    "unknown_billing_entity": ("leaders", "the billed Leader is not in table leaders"),
}
"""Anomalies that exclude no row, with their table and description."""


def reason_of(rule: str) -> str:
    """Return the reason that a rule states. A rule of an own model states it itself."""
    return RULES.get(rule, rule)


def faulty_rows(table: TableAccount) -> Mapping[str, int]:
    """Return the rows by the rules that apply only to faulty rows."""
    return {rule: rows for rule, rows in table.excluded.items() if rule in FAULTS}


@dataclass(frozen=True, slots=True)
class Identity:
    """One identity: the rows of `table` are exported in `resource`, or excluded by a rule.

    `compared` pairs a figure of the source with a figure of the files, which are equal for every account. The source's
    figures are `rows`, `keys`, `segments` and `units`. `status` is that of the resource if they are equal.
    """

    resource: str
    table: str
    compared: tuple[tuple[str, str], ...] = ()
    status: Status = "proved"

    @property
    def exported(self) -> str | None:
        """The figure of the files that counts the exported rows, None if the files have no such figure."""
        return dict(self.compared).get("rows")


_FILE_ROWS = (("rows", ROWS), ("keys", KEYS))
_COUNTS = (("segments", "SEGMENT_COUNT"), ("units", "UNIT_COUNT"))

IDENTITIES: tuple[Identity, ...] = (
    Identity("members", "members", _FILE_ROWS),
    Identity("member_state_changes", "member_state_changes", _FILE_ROWS),
    Identity("custom_member_data", "custom_field_values", _FILE_ROWS),
    Identity("member_term_accepts", "member_term_accepts", _FILE_ROWS),
    Identity("communities", "communities", _FILE_ROWS),
    Identity("campaigns", "campaigns", _FILE_ROWS),
    Identity("campaigns", "outbound_messages", _COUNTS),
    Identity("campaigns", "inbound_messages", (("rows", "RESPONSE_COUNT"),)),
    Identity("outbound_message_type_usage", "outbound_messages", (("rows", "MESSAGE_COUNT"), *_COUNTS)),
    Identity("campaign_links", "campaign_links", _FILE_ROWS),
    Identity("campaign_links", "link_hits", (("rows", "HIT_COUNT"),)),
    Identity("member_communities", "community_memberships", _FILE_ROWS),
)
