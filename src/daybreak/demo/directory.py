"""Accounts and seats of the demo platform, as the document that `daybreakd directory import` reads."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from uuid import UUID

import duckdb

from daybreak.demo.emails import ANALYST_EMAIL, CAREFUL_EMAIL, DEMO_EMAILS, OPERATOR_EMAIL, OWNER_EMAIL, VISITOR_EMAIL
from daybreak.export.sql import literal

_SMALL_PLATFORM_LEADERS = 6
_PASSWORD_WORDS = (
    "amber", "birch", "cobalt", "dune", "ember", "fjord", "grove", "harbor", "indigo", "juniper", "kelp", "lantern",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DemoSeat:
    """A seat and its password. `totp_seed` is None without a second factor."""

    seat_id: str
    email: str
    password: str
    description: str
    client_ids: tuple[str, ...]
    totp_seed: bytes | None = None
    operator: bool = False


@dataclass(frozen=True, slots=True)
class DemoDirectory:
    """The document to import and its seats.

    A platform of up to six Leaders has neither an inactive account nor one that requires a second factor.
    """

    document: str
    seats: tuple[DemoSeat, ...]
    inactive_client_id: str | None

    def seat(self, email: str) -> DemoSeat:
        """Return the seat with that email. Raises KeyError."""
        return {seat.email: seat for seat in self.seats}[email]


def make_directory(platform: Path, seed: int) -> DemoDirectory:
    """Return the directory for the platform in that folder. The result depends only on the platform and the seed.

    Every Leader becomes an account. The owner has access to the five largest, the analyst to two of them. One account
    is inactive, one requires a second factor, and the visitor lacks `data_export`. Small platforms reuse accounts.
    """
    leaders = _leaders(platform)
    draw = random.Random(seed)  # noqa: S311 - the demo prints the passwords; they must be reproducible
    passwords = {
        email: "-".join([*draw.sample(_PASSWORD_WORDS, 3), str(draw.randrange(1000, 9999))]) for email in DEMO_EMAILS
    }
    seats = _seats(seed, [leader_id for leader_id, _ in leaders], passwords)
    inactive = None if len(leaders) <= _SMALL_PLATFORM_LEADERS else leaders[6][0]
    accounts = [_account(*leader, draw) for leader in leaders]
    for account in accounts[:5]:
        account["api_tokens_enabled"] = True
    if inactive is not None:
        accounts[5]["second_factor_required"] = True
        accounts[6]["status"] = "inactive"
    document = {"accounts": accounts, "seats": [_seat_document(seat) for seat in seats]}
    return DemoDirectory(json.dumps(document, indent=2, ensure_ascii=False) + "\n", seats, inactive)


def _seats(seed: int, client_ids: Sequence[str], passwords: Mapping[str, str]) -> tuple[DemoSeat, ...]:
    """Return the five seats. `client_ids` are ordered by size, largest first."""
    small = len(client_ids) <= _SMALL_PLATFORM_LEADERS

    def seat(email: str, description: str, *ranks: int, totp: bool = False, operator: bool = False) -> DemoSeat:
        accounts = tuple(dict.fromkeys(client_ids[min(rank, len(client_ids) - 1)] for rank in ranks))
        totp_seed = sha256(f"demo second factor {seed}/{email}".encode()).digest()[:20] if totp else None
        seat_id = str(UUID(bytes=sha256(f"{seed}/{email}".encode()).digest()[:16], version=4))
        return DemoSeat(seat_id, email, passwords[email], description, accounts, totp_seed, operator)

    second_factor = "has a second factor" if small else "an account that requires a second factor"
    return (
        seat(OWNER_EMAIL, "several accounts, API tokens", 0, 1, 2, 3, 4, *(() if small else (6,))),
        seat(ANALYST_EMAIL, "two accounts, files only", 0, 2),
        seat(VISITOR_EMAIL, "sees an account but no files: no data_export", 1),
        seat(CAREFUL_EMAIL, second_factor, 5, totp=True),
        seat(OPERATOR_EMAIL, "runs the service: operator pages", 0, totp=True, operator=True),
    )


def _leaders(platform: Path) -> list[tuple[str, str]]:
    """Return id and name of the Leaders, largest first."""
    with duckdb.connect() as connection:
        return connection.execute(f"""
            SELECT leader_id::VARCHAR, leader_name
            FROM read_parquet({literal(str(platform / "leaders.parquet"))})
            LEFT JOIN (
                SELECT leader_id, count(*) AS members
                FROM read_parquet({literal(str(platform / "members.parquet"))}) GROUP BY leader_id
            ) USING (leader_id)
            ORDER BY members DESC NULLS LAST, leader_id
        """).fetchall()


def _account(leader_id: str, name: str, draw: random.Random) -> dict[str, object]:
    first, _, last = name.partition(" ")
    threshold = draw.choice((1_000, 10_000, 50_000, 250_000))
    return {
        "client_id": leader_id,
        "first_name": first,
        "last_name": last,
        "phone_number": f"+1{draw.randrange(2_000_000_000, 9_999_999_999)}",
        "phone_number_type": draw.choice(("long_code", "toll_free", "short_code")),
        "status": "active",
        "campaign_messages_monthly_threshold": threshold,
        "campaign_messages_monthly_used": draw.randrange(threshold),
        "api_tokens_enabled": False,
        "second_factor_required": False,
        "onboarding_billing_state": {
            "billing_provided": draw.random() < 0.9,
            "billing_required": True,
            "trial_length_days": draw.choice((0, 14, 30)),
            "trial_started": draw.random() < 0.5,
        },
    }


def _seat_document(seat: DemoSeat) -> dict[str, object]:
    owner = seat.email == OWNER_EMAIL
    role = "owner" if owner else "admin" if seat.operator else "analyst"
    grant = {"roles": [role], "data_export": seat.email != VISITOR_EMAIL, "async_rest_api": owner}
    return {
        "seat_id": seat.seat_id,
        "email": seat.email,
        "password": seat.password,
        "disabled": False,
        "access": [{"client_id": client_id, **grant} for client_id in seat.client_ids],
    }
