"""Accounts and seats for the demo platform, in the form that `directory import` reads; the same for the same seed."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from uuid import UUID

import duckdb

from daybreak.demo.draws import quoted

OWNER_EMAIL = "owner@demo.example"
ANALYST_EMAIL = "analyst@demo.example"
VISITOR_EMAIL = "visitor@demo.example"
CAREFUL_EMAIL = "careful@demo.example"
OPERATOR_EMAIL = "operator@demo.example"


@dataclass(frozen=True, slots=True)
class DemoSeat:
    """One seat as the demo prints it. `totp_seed` is the second factor's seed when it has one enrolled."""

    seat_id: str
    email: str
    password: str
    what: str
    client_ids: tuple[str, ...]
    totp_seed: bytes | None = None
    operator: bool = False


@dataclass(frozen=True, slots=True)
class DemoDirectory:
    """The document to import, and the seats with their passwords. `inactive_client_id` cannot be entered; small
    platforms have neither that account nor one that requires a second factor.
    """

    document: str
    seats: tuple[DemoSeat, ...]
    inactive_client_id: str | None
    second_factor_client_id: str | None

    def seat(self, email: str) -> DemoSeat:
        """The seat of that email. Raises KeyError."""
        for seat in self.seats:
            if seat.email == email:
                return seat
        raise KeyError(email)


@dataclass(frozen=True, slots=True)
class _Leader:
    leader_id: str
    name: str


def make_directory(platform: Path, seed: int) -> DemoDirectory:
    """The directory for the platform in that folder: every Leader is an account, ordered by size.

    The owner reaches the five largest, the analyst two of them; one account is inactive, one requires a second factor,
    one seat lacks `data_export`. Small platforms reuse accounts where they run out of them.
    """
    leaders = _leaders(platform)
    draw = random.Random(seed)  # noqa: S311 - a demo's passwords are printed, they only have to repeat
    reach = [leader.leader_id for leader in leaders]

    def nth(number: int) -> str:
        return reach[min(number, len(reach) - 1)]

    small = len(reach) <= 6
    inactive, careful = nth(6), nth(5)
    passwords = {
        email: _password(draw) for email in (OWNER_EMAIL, ANALYST_EMAIL, VISITOR_EMAIL, CAREFUL_EMAIL, OPERATOR_EMAIL)
    }

    def seat(
        email: str, what: str, client_ids: Sequence[str], *, totp: bool = False, operator: bool = False
    ) -> DemoSeat:
        unique = tuple(dict.fromkeys(client_ids))
        seed_bytes = sha256(f"demo second factor {seed}".encode()).digest()[:20] if totp else None
        return DemoSeat(_seat_id(seed, email), email, passwords[email], what, unique, seed_bytes, operator)

    first = [nth(number) for number in range(5)]
    seats = (
        seat(OWNER_EMAIL, "several accounts, API tokens", first if small else [*first, inactive]),
        seat(ANALYST_EMAIL, "two accounts, files only", [nth(0), nth(2)]),
        seat(VISITOR_EMAIL, "no data_export: sees the account, gets no file", [nth(1)]),
        seat(
            CAREFUL_EMAIL,
            "has a second factor" if small else "an account that requires a second factor",
            [careful],
            totp=True,
        ),
        seat(OPERATOR_EMAIL, "runs the service: operator pages", [nth(0)], operator=True),
    )
    document = {
        "accounts": [
            _account(
                leader,
                draw,
                active=small or leader.leader_id != inactive,
                tokens=leader.leader_id in first,
                second_factor=not small and leader.leader_id == careful,
            )
            for leader in leaders
        ],
        "seats": [_seat_form(each) for each in seats],
    }
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return DemoDirectory(text, seats, None, None) if small else DemoDirectory(text, seats, inactive, careful)


def _leaders(platform: Path) -> list[_Leader]:
    with duckdb.connect() as connection:
        rows = connection.execute(f"""
            SELECT leader_id::VARCHAR, leader_name
            FROM read_parquet({quoted(str(platform / "leaders.parquet"))})
            LEFT JOIN (
                SELECT leader_id, count(*) AS members
                FROM read_parquet({quoted(str(platform / "members.parquet"))}) GROUP BY leader_id
            ) USING (leader_id)
            ORDER BY members DESC NULLS LAST, leader_id
        """).fetchall()
    return [_Leader(leader_id, name) for leader_id, name in rows]


def _account(
    leader: _Leader, draw: random.Random, *, active: bool, tokens: bool, second_factor: bool
) -> dict[str, object]:
    first, _, last = leader.name.partition(" ")
    threshold = draw.choice((1_000, 10_000, 50_000, 250_000))
    return {
        "client_id": leader.leader_id,
        "first_name": first,
        "last_name": last,
        "phone_number": f"+1{draw.randrange(2_000_000_000, 9_999_999_999)}",
        "phone_number_type": draw.choice(("long_code", "toll_free", "short_code")),
        "status": "active" if active else "inactive",
        "campaign_messages_monthly_threshold": threshold,
        "campaign_messages_monthly_used": draw.randrange(threshold),
        "api_tokens_enabled": tokens,
        "second_factor_required": second_factor,
        "onboarding_billing_state": {
            "billing_provided": draw.random() < 0.9,
            "billing_required": True,
            "trial_length_days": draw.choice((0, 14, 30)),
            "trial_started": draw.random() < 0.5,
        },
    }


def _seat_form(seat: DemoSeat) -> dict[str, object]:
    exports = seat.email != VISITOR_EMAIL
    owner = seat.email == OWNER_EMAIL
    role = "owner" if owner else "admin" if seat.operator else "analyst"
    return {
        "seat_id": seat.seat_id,
        "email": seat.email,
        "password": seat.password,
        "disabled": False,
        "access": [
            {"client_id": client_id, "roles": [role], "data_export": exports, "async_rest_api": owner}
            for client_id in seat.client_ids
        ],
    }


def _seat_id(seed: int, email: str) -> str:
    return str(UUID(bytes=sha256(f"{seed}/{email}".encode()).digest()[:16], version=4))


def _password(draw: random.Random) -> str:
    words = (
        "amber",
        "birch",
        "cobalt",
        "dune",
        "ember",
        "fjord",
        "grove",
        "harbor",
        "indigo",
        "juniper",
        "kelp",
        "lantern",
    )
    return "-".join(draw.sample(words, 3)) + f"-{draw.randrange(1000, 9999)}"
