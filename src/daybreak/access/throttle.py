"""Rate limits on logins and second factors, counted in the state database for all workers.

An attempt is counted before the expensive work. Windows slide, so that a limit delays attempts and never locks a seat
out. Attempts on a seat from one address do not block its owner at another address, and each known device of the seat
has a separate limit.
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import IPv6Address, ip_address, ip_network

from daybreak.domain.errors import RateLimited
from daybreak.domain.identity import folded_email
from daybreak.settings import AccessSettings, Rate
from daybreak.state.stores import State
from daybreak.state.throttle import ThrottleRule

# Each known device has its own second-factor limit, so this number bounds the guesses at a seat.
MAX_KNOWN_DEVICES = 10
_RESETS_PER_EMAIL = (Rate(3, timedelta(hours=1)), Rate(6, timedelta(days=1)))
# Far more than a person needs. The number of rows in the audit trail has this bound.
CHANGES_PER_SEAT = Rate(600, timedelta(minutes=10))
# A script switches to each account of its seat. A second one may do so at the same time.
CHANGES_PER_ACCOUNT = 2
TEST_EVENTS_PER_ACCOUNT = Rate(30, timedelta(hours=1))


async def count_attempt(state: State, rules: Sequence[ThrottleRule], now: datetime) -> None:
    """Count one attempt against every rule. Raises RateLimited when one is exceeded."""
    refused = await state.awrite(lambda stores: stores.throttle.count(rules, now))
    if refused is not None:
        raise RateLimited(
            "Too many attempts. Wait and try again.",
            retry_after_seconds=refused.wait_seconds,
            limit=refused.rule.limit,
            window_seconds=refused.rule.window_seconds,
        )


def login_rules(settings: AccessSettings, *, email: str, address: str) -> list[ThrottleRule]:
    """Return the rules of a login from an unknown device: per seat and address, address, network, and in total."""
    return [
        _rule(f"login:{_email_key(email)}:{address_group(address)}", settings.login_per_seat),
        *origin_rules(settings, "login", address),
        _rule("login", settings.login_overall),
    ]


def known_device_rules(settings: AccessSettings, *, seat_id: str, device_id: str) -> list[ThrottleRule]:
    """Return the rules of a login from a device that the seat has used before. Other attempts do not count."""
    return [_rule(f"login:{seat_id}:{device_id}", settings.login_per_seat)]


def password_rules(settings: AccessSettings, *, seat_id: str, sid: str) -> list[ThrottleRule]:
    """Return the rules of entering the password again within a session."""
    return [_rule(f"password:{seat_id}:{sid}", settings.login_per_seat)]


def origin_rules(settings: AccessSettings, form: str, address: str) -> list[ThrottleRule]:
    """Return the rules of a public form for the address and the network of a client."""
    return [
        _rule(f"{form}:{address_group(address)}", settings.login_per_address),
        _rule(f"{form}_network:{address_network(address)}", settings.login_per_network),
    ]


def password_reset_rules(settings: AccessSettings, *, email: str, address: str) -> list[ThrottleRule]:
    """Return the rules of a request for a password reset: per email, whether or not a seat has it, and as for logins
    per address, network, and in total.
    """
    return [
        *(_rule(f"reset:{_email_key(email)}", rate) for rate in _RESETS_PER_EMAIL),
        *origin_rules(settings, "reset", address),
        _rule("reset", settings.login_overall),
    ]


def second_factor_rules(settings: AccessSettings, *, seat_id: str, device_id: str | None = None) -> list[ThrottleRule]:
    """Return the rules of a seat's second factor, in the order of the setting.

    `device_id` is a known device of the seat. All unknown devices share the rules without one.
    """
    key = f"second_factor:{seat_id}" if device_id is None else f"second_factor:{seat_id}:{device_id}"
    return [_rule(key, rate) for rate in settings.second_factor_per_seat]


def change_rules(*, seat_id: str, accounts: int) -> list[ThrottleRule]:
    """Return the rules of requests of a signed-in seat with this number of accounts that write rows: forms, and
    switches of the account.
    """
    attempts = max(CHANGES_PER_SEAT.attempts, CHANGES_PER_ACCOUNT * accounts)
    return [_rule(f"change:{seat_id}", Rate(attempts, CHANGES_PER_SEAT.window))]


def test_event_rules(*, client_id: str) -> list[ThrottleRule]:
    """Return the rules of test events, each of which is sent and stored for 30 days."""
    return [_rule(f"webhook_test:{client_id}", TEST_EVENTS_PER_ACCOUNT)]


def address_group(address: str) -> str:
    """Return the group that an address is counted in: itself for IPv4, its /64 network for IPv6."""
    return _network(address, 32, 64)


def address_network(address: str) -> str:
    """Return the network that an address is counted in: a /24 for IPv4, a /48 for IPv6, which is the assignment to one
    site (RFC 6177 §2).
    """
    return _network(address, 24, 48)


def _network(address: str, ipv4_bits: int, ipv6_bits: int) -> str:
    """Return the network of an address, of IPv4 if an IPv6 address contains one, and `unknown` for a Unix socket."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    parsed = parsed.ipv4_mapped or parsed if isinstance(parsed, IPv6Address) else parsed
    return str(ip_network((parsed, ipv6_bits if isinstance(parsed, IPv6Address) else ipv4_bits), strict=False))


def _rule(key: str, rate: Rate) -> ThrottleRule:
    return ThrottleRule(f"{key}:{rate.window_seconds}", rate.attempts, rate.window_seconds)


def _email_key(email: str) -> str:
    # Hashed, because users sometimes enter their password in the email field.
    return hashlib.sha256(folded_email(email).encode("utf-8", "surrogatepass")).hexdigest()[:32]
