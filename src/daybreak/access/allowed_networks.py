"""Networks that the requests of an API token must come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from daybreak.domain.errors import FieldFault, InvalidRequest

MAX_NETWORKS = 50
_Network = IPv4Network | IPv6Network


def parse_networks(texts: Iterable[str]) -> tuple[str, ...]:
    """Return networks in CIDR form, without repetitions, in the order of the texts. An address is a network of one.

    Raises InvalidRequest. Its message names the invalid texts, up to 50.
    """
    networks, remedies = dict[str, None](), []
    for text in texts:
        try:
            networks[str(_parsed(text))] = None
        except ValueError as error:
            remedies.append(str(error))
    if len(networks) > MAX_NETWORKS:
        remedies.append(f"Use up to {MAX_NETWORKS} addresses and networks.")
    if remedies:
        faults = tuple(FieldFault("/allowed_networks", remedy) for remedy in remedies[:MAX_NETWORKS])
        raise InvalidRequest(f"Invalid allowed addresses. {' '.join(fault.detail for fault in faults)}", faults=faults)
    return tuple(networks)


def allows(networks: Sequence[str], address: str) -> bool:
    """Return whether an address is in one of the networks. Without networks, every address is allowed.

    An unknown address, which is empty, is in no network.
    """
    if not networks:
        return True
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    return any(parsed in network for network in _networks(tuple(networks)))


@lru_cache(1024)  # each request of a token reads the same networks
def _networks(texts: tuple[str, ...]) -> tuple[_Network, ...]:
    return tuple(ip_network(text) for text in texts)


def _parsed(text: str) -> _Network:
    """Return the network. Raises ValueError with the remedy."""
    shown = text.strip()[:60]
    try:
        network = ip_network(text.strip())
    except ValueError:
        pass
    else:
        if isinstance(network, IPv4Network) or network.network_address.ipv4_mapped is None:
            return network
        # Addresses of clients are compared in their IPv4 form.
        raise ValueError(f"{shown} contains an IPv4 address. Write it as IPv4.")
    try:
        containing = ip_network(text.strip(), strict=False)
    except ValueError:
        raise ValueError(f"{shown!r} is not an address or a network. Use one such as 203.0.113.0/24.") from None
    raise ValueError(f"{shown} is an address within a network. Use {containing}.")
