"""The nine resources computed row by row from the source tables, independent of the models."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

Row = Mapping[str, Any]
Tables = Mapping[str, Sequence[Row]]
Cells = tuple[Any, ...]

PERSONAL = (
    "first_name",
    "last_name",
    "email",
    "date_of_birth",
    "gender",
    "city",
    "state",
    "state_code",
    "country",
    "country_code",
    "device_type",
)


def compute(tables: Tables, as_of: datetime) -> dict[str, list[Cells]]:
    """Return the rows of every resource for known Leaders, unordered.

    Cells are str, int, bool, date, aware datetime or None, in the order of the file's columns.
    """
    facts = _Facts(tables, as_of)
    functions: dict[str, Callable[[_Facts], Iterable[Cells]]] = {
        "campaigns": _campaigns,
        "outbound_message_type_usage": _usage,
        "campaign_links": _campaign_links,
        "members": _members,
        "member_state_changes": _member_state_changes,
        "member_term_accepts": _member_term_accepts,
        "custom_member_data": _custom_member_data,
        "communities": _communities,
        "member_communities": _member_communities,
    }
    return {
        resource: [row for row in rows_of(facts) if row[_LEADER_COLUMN[resource]] in facts.leaders]
        for resource, rows_of in functions.items()
    }


def rows_of_leader(rows: Iterable[Cells], resource: str, leader_id: str) -> list[Cells]:
    """Return the rows of one Leader."""
    return [row for row in rows if row[_LEADER_COLUMN[resource]] == leader_id]


_LEADER_COLUMN = {
    "campaigns": 1,
    "outbound_message_type_usage": 0,
    "campaign_links": 1,
    "members": 1,
    "member_state_changes": 1,
    "member_term_accepts": 1,
    "custom_member_data": 1,
    "communities": 2,
    "member_communities": 2,
}


class _Facts:
    """The tables up to `as_of`, with lookups by id."""

    def __init__(self, tables: Tables, as_of: datetime) -> None:
        self.tables = tables
        self.as_of = as_of
        self.leaders = {row["leader_id"]: row for row in tables["leaders"]}
        self.deleted = {row["member_id"] for row in tables["members"] if row["subscription_state"] == "deleted"}
        self.sent_to: dict[str, list[Row]] = defaultdict(list)
        for row in self.events_until("outbound_messages", "sent_at"):
            if row["campaign_id"] is not None:
                self.sent_to[row["campaign_id"]].append(row)

    def events_until(self, table: str, column: str) -> list[Row]:
        return [row for row in self.tables[table] if row[column] <= self.as_of]

    def billing_entity(self, leader_id: str) -> str | None:
        leader = self.leaders.get(leader_id)
        return (
            leader_id
            if leader is None or leader["billing_entity_leader_id"] is None
            else leader["billing_entity_leader_id"]
        )

    def recipients(self, campaign_id: str) -> int:
        return len({row["member_id"] for row in self.sent_to[campaign_id]})

    def memberships(self) -> dict[tuple[str, str], datetime]:
        """Return the earliest `joined_at` of each current membership, by (community_id, member_id)."""
        joined: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in self.events_until("community_memberships", "joined_at"):
            joined[row["community_id"], row["member_id"]].append(row)
        return {
            pair: min(row["joined_at"] for row in rows)
            for pair, rows in joined.items()
            if any(row["left_at"] is None or row["left_at"] > self.as_of for row in rows)
        }


def _campaigns(facts: _Facts) -> Iterable[Cells]:
    answers: dict[str, list[Row]] = defaultdict(list)
    for row in facts.events_until("inbound_messages", "received_at"):
        if row["campaign_id"] is not None:
            answers[row["campaign_id"]].append(row)
    for campaign in facts.events_until("campaigns", "sent_at"):
        sent, answered = facts.sent_to[campaign["campaign_id"]], answers[campaign["campaign_id"]]
        yield (
            campaign["campaign_id"],
            campaign["leader_id"],
            facts.billing_entity(campaign["leader_id"]),
            campaign["channel"],
            campaign["sent_at"],
            campaign["is_test"],
            campaign["text"],
            campaign["usage_channel"],
            campaign["media_url"],
            campaign["is_scheduled"],
            campaign["is_filtered"],
            len({row["member_id"] for row in sent}),
            len(answered),
            len({row["member_id"] for row in answered}),
            len({row["member_id"] for row in answered if row["is_stop"]}),
            sum(row["unit_count"] for row in sent),
            sum(row["segment_count"] for row in sent),
            campaign["campaign_name"],
        )


def _usage(facts: _Facts) -> Iterable[Cells]:
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in facts.events_until("outbound_messages", "sent_at"):
        day = row["sent_at"].astimezone(UTC).date()
        groups[row["leader_id"], day, row["usage_channel"], row["outbound_message_type"]].append(row)
    for (leader_id, *rest), rows in groups.items():
        segments, units = sum(row["segment_count"] for row in rows), sum(row["unit_count"] for row in rows)
        yield (leader_id, facts.billing_entity(leader_id), *rest, len(rows), segments, units)


def _campaign_links(facts: _Facts) -> Iterable[Cells]:
    campaigns = {row["campaign_id"]: row for row in facts.events_until("campaigns", "sent_at")}
    hits: dict[str, int] = defaultdict(int)
    for row in facts.events_until("link_hits", "hit_at"):
        hits[row["link_id"]] += 1
    groups: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for link in facts.tables["campaign_links"]:
        if link["campaign_id"] in campaigns:
            groups[link["campaign_id"], link["link_type"], link["link_url"]].add(link["link_id"])
    for (campaign_id, kind, url), links in groups.items():
        count = sum(hits[link_id] for link_id in links)
        yield (campaign_id, campaigns[campaign_id]["leader_id"], kind, url, facts.recipients(campaign_id), count)


def _members(facts: _Facts) -> Iterable[Cells]:
    for row in facts.tables["members"]:
        deleted = row["subscription_state"] == "deleted"
        personal = [None if deleted else row[column] for column in PERSONAL]
        phone = None if deleted else row["phone_number"]
        identity = (row["member_id"], row["leader_id"], phone, row["subscription_state"])
        yield (*identity, *personal, row["first_activated_at"])


def _member_state_changes(facts: _Facts) -> Iterable[Cells]:
    for row in facts.events_until("member_state_changes", "state_changed_at"):
        yield (row["member_id"], row["leader_id"], row["subscription_state"], row["state_changed_at"])


def _member_term_accepts(facts: _Facts) -> Iterable[Cells]:
    terms = {row["term_id"]: row for row in facts.tables["terms"]}
    for row in facts.events_until("member_term_accepts", "accepted_at"):
        if row["accepted_at"] < facts.as_of - timedelta(days=90):
            continue
        leader = facts.leaders.get(row["leader_id"])
        if leader is None:
            continue
        parent = facts.leaders.get(leader["parent_leader_id"])
        top = leader
        while top["parent_leader_id"] in facts.leaders:
            top = facts.leaders[top["parent_leader_id"]]
        term = terms.get(row["term_id"], {})
        yield (
            row["member_id"],
            row["leader_id"],
            row["term_id"],
            None if row["member_id"] in facts.deleted else row["member_email"],
            None if row["member_id"] in facts.deleted else row["member_country_code"],
            row["was_checked"],
            row["was_pre_checked"],
            row["accepted_at"],
            leader["leader_name"],
            None if parent is None else parent["leader_name"],
            top["leader_name"],
            term.get("term_language"),
            term.get("custom_signup_language"),
            term.get("additional_checkbox_language"),
            facts.as_of,
        )


def _custom_member_data(facts: _Facts) -> Iterable[Cells]:
    for row in facts.tables["custom_field_values"]:
        value = None if row["member_id"] in facts.deleted else row["custom_field_value"]
        yield (row["member_id"], row["leader_id"], row["custom_field_name"], value)


def _communities(facts: _Facts) -> Iterable[Cells]:
    counts: dict[str, int] = defaultdict(int)
    for community_id, _ in facts.memberships():
        counts[community_id] += 1
    for row in facts.tables["communities"]:
        yield (row["community_id"], row["community_name"], row["leader_id"], counts[row["community_id"]])


def _member_communities(facts: _Facts) -> Iterable[Cells]:
    communities = {row["community_id"]: row for row in facts.tables["communities"]}
    for (community_id, member_id), joined_at in facts.memberships().items():
        community = communities.get(community_id)
        if community is not None:
            yield (community_id, community["community_name"], community["leader_id"], member_id, joined_at)
