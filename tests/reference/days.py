"""A platform that changes every day: churn, deletions, returns, moves between Leaders, duplicates, hostile texts."""

import random
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

from daybreak.catalogue.resources import GENDERS, LINK_TYPES, OUTBOUND_MESSAGE_TYPES, SUBSCRIPTION_STATES
from daybreak.catalogue.source_tables import SOURCE_TABLES
from tests.reference.platforms import HOSTILE, Table

START = datetime(2026, 1, 1, 4, tzinfo=UTC)
_CHURN = 0.02


class ChangingPlatform:
    """The thirteen tables as of a day. `next_day` changes some of their rows.

    With `repeats`, Members occur twice. The order of their rows then depends on the engine.
    """

    def __init__(
        self,
        seed: int,
        *,
        leaders: Sequence[str] = (),
        members: int = 60,
        texts: Sequence[str] = HOSTILE,
        repeats: bool = True,
    ) -> None:
        self._random = random.Random(seed)
        self._texts, self._repeats = texts, repeats
        self.as_of = START
        self._leaders = list(leaders) or [self._id() for _ in range(4)]
        self._gone: list[dict[str, Any]] = []
        self.tables: dict[str, Table] = {table.name: [] for table in SOURCE_TABLES}
        self.tables["terms"] = [self._term() for _ in range(3)]
        self.tables["leaders"] = [self._leader(leader) for leader in self._leaders]
        for _ in range(members):
            self._add_member()
        for _ in range(members // 6):
            self._add_campaign()
        for _ in range(4):
            self._add_community()
        for _ in range(members):
            self._add_activity()

    def next_day(self) -> None:
        """Change rows, and continue to the next day."""
        self.as_of += timedelta(days=1)
        draw = self._random
        members = self.tables["members"]
        changes = max(1, int(len(members) * _CHURN * draw.choice([0, 1, 1, 1, 5])))
        for _ in range(changes):
            action = draw.choice(
                [self._change_member, self._delete_member, self._add_member, self._return_member, self._move_member,
                 self._add_campaign, self._add_activity, self._add_activity, self._drop_rows, self._repeat_member]
            )  # fmt: skip
            action()
        if draw.random() < 0.05:
            self._change_leaders()

    # --- Changes -------------------------------------------------------------------------------

    def _change_member(self) -> None:
        member = self._random.choice(self.tables["members"])
        member[self._random.choice(["first_name", "last_name", "city", "email", "device_type"])] = self._text()
        if self._random.random() < 0.3:
            member["subscription_state"] = self._random.choice(SUBSCRIPTION_STATES)
            self._add("member_state_changes", member, subscription_state=member["subscription_state"],
                      state_changed_at=self._recent())  # fmt: skip

    def _delete_member(self) -> None:
        members = self.tables["members"]
        if len(members) > 5:
            self._gone.append(members.pop(self._random.randrange(len(members))))

    def _return_member(self) -> None:
        if self._gone:
            self.tables["members"].append(self._gone.pop(self._random.randrange(len(self._gone))))

    def _move_member(self) -> None:
        member = self._random.choice(self.tables["members"])
        leader = self._random.choice(self._leaders)
        for name in ("members", "custom_field_values", "member_state_changes", "member_term_accepts"):
            for row in self.tables[name]:
                if row["member_id"] == member["member_id"]:
                    row["leader_id"] = leader

    def _repeat_member(self) -> None:
        """Add a second row with the same key: the source may violate uniqueness."""
        member = self._random.choice(self.tables["members"])
        if self._repeats and self._random.random() < 0.5:
            self.tables["members"].append({**member, "city": self._text()})
        changes = self.tables["member_state_changes"]
        if changes:
            changes.append(dict(self._random.choice(changes)))

    def _drop_rows(self) -> None:
        name = self._random.choice(["custom_field_values", "link_hits", "community_memberships", "outbound_messages"])
        rows = self.tables[name]
        for _ in range(min(len(rows), 3)):
            rows.pop(self._random.randrange(len(rows)))

    def _change_leaders(self) -> None:
        """Add a Leader, remove one, or rename one, which changes its files of term accepts."""
        draw = self._random.random()
        leaders = self.tables["leaders"]
        if draw < 0.3:
            self._leaders.append(self._id())
            leaders.append(self._leader(self._leaders[-1]))
        elif draw < 0.5 and len(leaders) > 2:
            leaders.pop()
        else:
            self._random.choice(leaders)["leader_name"] = self._text() or "A"

    # --- Rows ----------------------------------------------------------------------------------

    def _add_member(self) -> None:
        draw = self._random
        member = {
            "member_id": self._id(), "leader_id": draw.choice(self._leaders),
            "phone_number": f"+1{draw.randrange(10**10)}",
            "subscription_state": draw.choice(SUBSCRIPTION_STATES), "gender": draw.choice([None, *GENDERS]),
            **{name: self._text() for name in (
                "first_name", "last_name", "email", "city", "state", "state_code", "country", "country_code",
                "device_type")},
            "date_of_birth": draw.choice([None, date(1950, 1, 1) + timedelta(days=draw.randrange(20_000))]),
            "first_activated_at": draw.choice([None, self._recent()]),
        }  # fmt: skip
        self.tables["members"].append(member)
        self._add("custom_field_values", member, custom_field_name=self._text() or "", custom_field_value=self._text())
        if draw.random() < 0.7:
            self._add("member_term_accepts", member, term_id=draw.choice(self.tables["terms"])["term_id"],
                      member_email=self._text(), member_country_code="US", was_checked=True,
                      was_pre_checked=draw.random() < 0.5, accepted_at=self._recent())  # fmt: skip
        if self.tables["communities"]:
            self._join(member)

    def _add_campaign(self) -> None:
        draw = self._random
        campaign = {
            "campaign_id": self._id(), "leader_id": draw.choice(self._leaders), "campaign_name": self._text(),
            "channel": "sms", "usage_channel": draw.choice(["sms", "mms"]), "text": self._text(),
            "media_url": draw.choice([None, "https://media.example.org/1.jpg"]), "is_test": draw.random() < 0.1,
            "is_scheduled": draw.random() < 0.5, "is_filtered": draw.random() < 0.5, "sent_at": self._recent(),
        }  # fmt: skip
        self.tables["campaigns"].append(campaign)
        for _ in range(draw.randrange(3)):
            self.tables["campaign_links"].append({
                "link_id": self._id(), "campaign_id": campaign["campaign_id"],
                "link_type": draw.choice(LINK_TYPES), "link_url": self._text() or ""})  # fmt: skip

    def _add_community(self) -> None:
        self.tables["communities"].append({
            "community_id": self._id(), "leader_id": self._random.choice(self._leaders),
            "community_name": self._text() or ""})  # fmt: skip

    def _add_activity(self) -> None:
        draw = self._random
        member = draw.choice(self.tables["members"])
        campaign = draw.choice([None, *self.tables["campaigns"]])
        campaign_id = None if campaign is None else campaign["campaign_id"]
        self._add("outbound_messages", member, message_id=self._id(), campaign_id=campaign_id,
                  outbound_message_type=draw.choice(OUTBOUND_MESSAGE_TYPES), usage_channel="sms",
                  segment_count=draw.randrange(5), unit_count=draw.randrange(5), sent_at=self._recent())  # fmt: skip
        if draw.random() < 0.4:
            self._add("inbound_messages", member, message_id=self._id(), campaign_id=campaign_id,
                      is_stop=draw.random() < 0.1, received_at=self._recent())  # fmt: skip
        if self.tables["campaign_links"]:
            link = draw.choice(self.tables["campaign_links"])
            self.tables["link_hits"].append(
                {"link_id": link["link_id"], "member_id": member["member_id"], "hit_at": self._recent()}
            )
        self._join(member)

    def _join(self, member: dict[str, Any]) -> None:
        community = self._random.choice(self.tables["communities"])
        self.tables["community_memberships"].append({
            "community_id": community["community_id"], "member_id": member["member_id"],
            "joined_at": self._recent(), "left_at": self._random.choice([None, None, self._recent()])})  # fmt: skip

    def _add(self, table: str, member: dict[str, Any], **values: object) -> None:
        ids = {"member_id": member["member_id"], "leader_id": member["leader_id"]}
        self.tables[table].append({**ids, **values})

    def _leader(self, leader_id: str) -> dict[str, Any]:
        return {"leader_id": leader_id, "leader_name": self._text() or "A", "parent_leader_id": None,
                "billing_entity_leader_id": None}  # fmt: skip

    def _term(self) -> dict[str, Any]:
        names = ("term_language", "custom_signup_language", "additional_checkbox_language")
        return {"term_id": self._id(), **{name: self._text() for name in names}}

    def _text(self) -> str | None:
        draw = self._random
        return draw.choice([None, "".join(draw.choices(self._texts, k=draw.randrange(4)))])

    def _id(self) -> str:
        return str(UUID(int=self._random.getrandbits(128), version=4))

    def _recent(self) -> datetime:
        return self.as_of - timedelta(microseconds=self._random.randrange(100 * 86_400_000_000))
