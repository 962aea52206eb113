"""Attempts are counted before the expensive work, in the state database, for all workers at once.

Counting is by sliding window, so a limit is a delay and never a lock: guessing at a seat from one
address does not keep its owner out from another one, and a device that the seat has used before is
counted on its own, whatever others do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv6Address, ip_address, ip_network

from daybreak.domain.errors import RateLimited
from daybreak.domain.identity import folded_email
from daybreak.ports.access_stores import ThrottleRule
from daybreak.ports.state import State, Stores


@dataclass(frozen=True, slots=True)
class Limits:
    """Attempts allowed, as (limit, window in seconds)."""

    login_seat_and_address: tuple[int, int] = (10, 300)
    login_address: tuple[int, int] = (300, 300)
    login_global: tuple[int, int] = (6000, 300)
    second_factor: tuple[tuple[int, int], ...] = ((5, 300), (20, 3600), (50, 86400))


async def admit(state: State, rules: Sequence[ThrottleRule], now: datetime) -> None:
    """Counts one attempt against every rule. Raises RateLimited when one is exceeded."""

    def work(stores: Stores) -> tuple[ThrottleRule, int] | None:
        exceeded = stores.throttle.count(rules, now)
        if exceeded is None:
            return None
        return exceeded, stores.throttle.retry_after_seconds(exceeded, now)

    refused = await state.awrite(work)
    if refused is not None:
        rule, seconds = refused
        raise RateLimited(
            "Too many attempts. Wait and try again.",
            retry_after_seconds=max(1, seconds),
            limit=rule.limit,
            window_seconds=rule.window_seconds,
        )


def login_rules(limits: Limits, *, email: str, address: str) -> list[ThrottleRule]:
    """Per seat and address, per address, over all."""
    group = address_group(address)
    return [
        _rule(f"login:{_email_key(email)}:{group}", limits.login_seat_and_address),
        _rule(f"login:{group}", limits.login_address),
        _rule("login", limits.login_global),
    ]


def known_device_rules(limits: Limits, *, seat_id: str, device_id: str) -> list[ThrottleRule]:
    """A device that this seat has logged in from: counted by itself, shut out by nobody."""
    return [_rule(f"login:{seat_id}:{device_id}", limits.login_seat_and_address)]


def password_rules(limits: Limits, *, seat_id: str, sid: str) -> list[ThrottleRule]:
    """A password asked for again within a session."""
    return [_rule(f"password:{seat_id}:{sid}", limits.login_seat_and_address)]


def second_factor_rules(limits: Limits, *, seat_id: str) -> list[ThrottleRule]:
    """Per seat, the shortest window first."""
    return [_rule(f"second_factor:{seat_id}", window) for window in limits.second_factor]


def address_group(address: str) -> str:
    """What one caller can be taken for: an IPv4 address, or the /64 of an IPv6 one."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ip_network((parsed, 64), strict=False))
    return str(parsed)


def _rule(key: str, limit_and_window: tuple[int, int]) -> ThrottleRule:
    limit, window_seconds = limit_and_window
    return ThrottleRule(f"{key}:{window_seconds}", limit, window_seconds)


def _email_key(email: str) -> str:
    # Hashed: what is typed into the field may be anything, a password included.
    return hashlib.sha256(folded_email(email).encode("utf-8", "surrogatepass")).hexdigest()[:32]
