"""Sample rows of one account, and their encoding as JSON."""

import json
import random
import uuid
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Any

from daybreak.catalogue.resources import RESOURCES, Resource
from tests.acceptance.dashboard.sample.directory import HOSTILE
from tests.parts.csv_content import text_of

Row = list[Any]
Rows = dict[str, list[Row]]

_COMMUNITIES = ("Subscribers", "Volunteers", "Press & critics", "Students", "Donors", HOSTILE)
_CAMPAIGNS = (
    "Opening night", "Rehearsal call", "Two for one", "Season tickets", "Tonight only", "Thank you, volunteers",
    "Doors at seven", "Matinée, 15 % off", "Behind the curtain 🎭", "早鳥チケット", "Último día", "Encore!",
)  # fmt: skip
_STATES = ("New York", "California", "Texas", "Illinois", "Massachusetts", "Washington", "Ontario", "Québec", "Oregon")
_FIRST_NAMES = ("Ada", "José", "Mei", "Noor", "Luca", "Fatima", "Olga", "Kwame", "Zoë", "Yuki", "Ana", "Piotr")
_LAST_NAMES = (
    "Okafor", "García", "Chen", "Haddad", "Rossi", "O'Neil", "Ivanova", "Mensah", "Müller", "Tanaka", "Silva",
)  # fmt: skip


def sample_rows(leader_id: str, members: int, due: datetime) -> Rows:
    """Return the rows of each resource, in key order, for a publication at `due`. The leader id seeds the data."""
    return _RowBuilder(leader_id, due).build(members)


def encode_json(resource: Resource, rows: Iterable[Row]) -> bytes:
    """Encode rows as the published JSON files are encoded."""
    records = [dict(zip(resource.column_names, map(_json_value, row), strict=True)) for row in rows]
    return ("[" + ",\n".join(json.dumps(record, ensure_ascii=False) for record in records) + "]\n").encode()


def _json_value(value: object) -> object:
    return text_of(value) if isinstance(value, date) else value


class _RowBuilder:
    def __init__(self, leader_id: str, due: datetime) -> None:
        self._leader_id = leader_id
        self._due = due
        self._random = random.Random(leader_id)
        self._rows: Rows = {resource.name: [] for resource in RESOURCES}

    def build(self, members: int) -> Rows:
        communities = [(self._uuid(), name) for name in _COMMUNITIES]
        sizes = dict.fromkeys(communities, 0)
        for number, member_id in enumerate(sorted(self._uuid() for _ in range(members))):
            self._add_member(number, member_id, communities[0][0])
            for community in communities:
                if self._random.random() < 0.3:
                    sizes[community] += 1
                    self._rows["member_communities"].append([*community, self._leader_id, member_id, self._due])
        self._rows["communities"] = sorted([*community, self._leader_id, sizes[community]] for community in communities)
        # One account has the rows of all ranges of Insight.
        for days_ago in range(400 if members > 100 else 100):
            self._add_usage(self._due.date() - timedelta(days=days_ago), members * max(0.3, 1.3 - days_ago / 180))
        self._rows["outbound_message_type_usage"].sort(key=lambda row: (row[2], row[3], row[4]))
        for number in range(max(2, min(64, members // 20))):
            self._add_campaign(number, members)
        self._rows["campaigns"].sort()
        self._rows["campaign_links"].sort()
        return self._rows

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def _add_member(self, number: int, member_id: str, community_id: str) -> None:
        rng, leader_id, due = self._random, self._leader_id, self._due
        state = rng.choices(("live", "opted_out", "blocked", "deleted"), (86, 10, 2, 2))[0]
        person = self._person(number)
        changed_at = due - timedelta(days=rng.randrange(3, 900), seconds=rng.randrange(86400))
        if state == "deleted":
            person = [None] * len(person)
        self._rows["members"].append([member_id, leader_id, person[0], state, *person[1:], changed_at])
        self._rows["member_state_changes"].append([member_id, leader_id, "live", changed_at])
        if state != "live":
            left_at = changed_at + (due - changed_at) * rng.random()
            self._rows["member_state_changes"].append([member_id, leader_id, state, left_at])
        seat = None if state == "deleted" else rng.choice(("stalls", "circle", "box"))
        self._rows["custom_member_data"].append([member_id, leader_id, "favourite_seat", seat])
        if number % 3 == 0:
            self._rows["member_term_accepts"].append(
                [
                    member_id, leader_id, community_id, person[3], "US", True, False, due - timedelta(days=number % 80),
                    "Northlight Theatre", None, "Northlight Theatre", "You agree to receive messages.", None, None, due,
                ]
            )  # fmt: skip

    def _person(self, number: int) -> Row:
        """Return the personal columns of a Member, in file order. The first Member's contain HTML and formulas."""
        rng = self._random
        first, last = rng.choice(_FIRST_NAMES), rng.choice(_LAST_NAMES)
        home = rng.choices(_STATES, (30, 20, 12, 9, 8, 7, 6, 5, 3))[0]
        canadian = home in ("Ontario", "Québec")
        person: Row = [
            f"+1{rng.randrange(2_000_000_000, 9_999_999_999)}", first, last,
            f"{first}.{last}{number}@example.com".lower(),
            self._due.date() - timedelta(days=rng.randrange(6500, 24000)) if rng.random() < 0.6 else None,
            rng.choice(("male", "female", "non_binary", "no_answer", None)), "Springfield", home, home[:2].upper(),
            "Canada" if canadian else "United States", "CA" if canadian else "US",
            rng.choice(("ios", "android", None)),
        ]  # fmt: skip
        if number == 0:
            person[1], person[2], person[6] = HOSTILE, '=HYPERLINK("http://x.example")', "-2+3"
        return person

    def _add_usage(self, day: date, volume: float) -> None:
        for channel, channel_share in (("sms", 1.0), ("mms", 0.35), ("whatsapp", 0.5)):
            weekday_factor = 1.6 if day.weekday() in (3, 4) else 0.7
            messages = volume * channel_share * weekday_factor * (1 + 0.25 * self._random.random())
            for kind, share in (("campaign", 0.8), ("dm", 0.12), ("automated", 0.08)):
                count = max(1, int(messages * share))
                segments = int(count * (1.4 if channel == "sms" else 1))
                self._rows["outbound_message_type_usage"].append(
                    [self._leader_id, self._leader_id, day, channel, kind, count, segments, count]
                )

    def _add_campaign(self, number: int, members: int) -> None:
        rng, leader_id, campaign_id = self._random, self._leader_id, self._uuid()
        days_ago = rng.randrange(2, 88) if number % 4 else rng.randrange(2, 380)
        sent_at = self._due - timedelta(days=days_ago, hours=rng.randrange(24))
        recipients = rng.randrange(members // 3 + 1, members + 2)
        name = rng.choice(_CAMPAIGNS) if number else HOSTILE
        replied, stopped = int(recipients * rng.uniform(0.04, 0.22)), int(recipients * rng.uniform(0.001, 0.012))
        self._rows["campaigns"].append(
            [
                campaign_id, leader_id, leader_id, "sms", sent_at, number % 17 == 5, f"{name}\nReply STOP to opt out",
                "sms", None, True, False, recipients, int(replied * 1.2), replied, stopped, recipients * 2,
                recipients * 2, name,
            ]
        )  # fmt: skip
        if number % 2:
            url = f"https://northlight.example/t/{number}?a=1&b=2"
            clicks = int(recipients * rng.uniform(0.05, 0.4))
            self._rows["campaign_links"].append([campaign_id, leader_id, "link", url, recipients, clicks])
