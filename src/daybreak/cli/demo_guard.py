"""Refusal to serve the seats of the demo, whose passwords are published, to other machines."""

from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from daybreak.cli.options import state_of
from daybreak.domain.errors import OperatorError

if TYPE_CHECKING:
    from daybreak.settings import Settings
    from daybreak.state.stores import Stores
    from daybreak.web.listener import ListenAddress


def require_local_demo(settings: "Settings", address: "ListenAddress") -> None:
    """Check that a state database with enabled seats of the demo is served on this machine only.

    The seats identify a demo, because copies of its configuration or of its state database have them too.

    Args:
        settings: Configuration of the service.
        address: The resolved address of `listen`.

    Raises:
        OperatorError: `listen` or `base_url` is not a loopback address. Names the setting.
    """
    exposed = list(_exposed_settings(settings, address))
    if not exposed:
        return
    with state_of(settings) as state:
        seats = state.read(_enabled_demo_seats)
    if seats:
        raise OperatorError(
            f"{' and '.join(exposed)}: other machines could sign in as {', '.join(seats)}. Their passwords are "
            "published, because `daybreakd demo` created them. Set listen and base_url to 127.0.0.1, or create "
            "another instance with `daybreakd init FOLDER`. To serve this one, disable each of these seats with "
            "`daybreakd seat disable EMAIL`."
        )


def _exposed_settings(settings: "Settings", address: "ListenAddress") -> "list[str]":
    """Return the settings that let other machines reach the service. A Unix socket is local."""
    exposed = []
    if not isinstance(address, Path) and not ip_address(address.host).is_loopback:
        exposed.append(f"listen = {settings.listen!r}")
    if not _is_loopback(urlsplit(settings.base_url).hostname or ""):
        exposed.append(f"base_url = {settings.base_url!r}")
    return exposed


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):  # RFC 6761 §6.3
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _enabled_demo_seats(stores: "Stores") -> list[str]:
    from daybreak.demo.emails import DEMO_EMAILS

    found = [stores.seats.by_email(email) for email in DEMO_EMAILS]
    return [seat.email for seat in found if seat is not None and not seat.disabled]
