"""Comparison of the addresses that the service listens on."""

from __future__ import annotations

from ipaddress import ip_address

from daybreak.settings.text_forms import LOOPBACK_HOSTS


def addresses_overlap(first: str, second: str) -> bool:
    """Return whether two `host:port` settings cannot be bound at the same time.

    A wildcard address occupies the port on every address. Names other than `localhost` are not resolved.
    """
    first_host, first_port = _host_and_port(first)
    second_host, second_port = _host_and_port(second)
    hosts = {first_host, second_host}
    if first_port != second_port:
        return False
    return len(hosts) == 1 or any(map(_is_wildcard, hosts)) or ("localhost" in hosts and hosts <= LOOPBACK_HOSTS)


def _host_and_port(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    host = host.strip("[]").lower()
    try:
        return str(ip_address(host)), port
    except ValueError:
        return host, port


def _is_wildcard(host: str) -> bool:
    return host in {"0.0.0.0", "::"}  # noqa: S104 - compared, not bound
