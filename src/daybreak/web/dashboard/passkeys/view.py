"""Template variables of the passkey pages."""

from __future__ import annotations

from collections.abc import Sequence

from daybreak.access.passkeys import MAX_PASSKEYS, are_available
from daybreak.domain.identity import Passkey
from daybreak.web.dashboard.page_request import PageRequest


def passkeys_context(page: PageRequest, passkeys: Sequence[Passkey]) -> dict[str, object]:
    """Return the variables of the list of passkeys."""
    available = are_available(page.dashboard.services)
    return {
        "passkeys": passkeys,
        "passkeys_available": available,
        "maximum_passkeys": MAX_PASSKEYS,
        "may_add_passkey": available and page.seat.second_factor_enrolled and len(passkeys) < MAX_PASSKEYS,
    }
