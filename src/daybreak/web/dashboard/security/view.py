"""Template variables of Settings > Security."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.concurrency import run_in_threadpool

from daybreak.credentials import mac
from daybreak.credentials.passwords import MINIMUM_LENGTH
from daybreak.domain.identity import Device, Session
from daybreak.web.dashboard.form_ids import new_form_id
from daybreak.web.dashboard.formatting import format_user_agent
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.security.locations import locations_of

_PASSWORD_HINT = f"At least {MINIMUM_LENGTH} characters. Several unrelated words work well."


def security_context(page: PageRequest, codes_left: int, sessions: list[dict[str, object]]) -> dict[str, object]:
    """Return the variables of the page. `sessions` are those of `session_views`."""
    return {
        "has_password": page.dashboard.services.settings.oidc.password_login and page.seat.password_hash is not None,
        "password_hint": _PASSWORD_HINT,
        "codes_left": codes_left,
        "form_id": new_form_id(page),
        "sessions": sessions,
        "shows_locations": page.dashboard.services.settings.access.location_database is not None,
    }


async def session_views(page: PageRequest, sessions: list[tuple[Session, Device | None]]) -> list[dict[str, object]]:
    """Return the variables of each session, the current one first."""
    addresses = [device.address for _, device in sessions if device is not None]
    database = page.dashboard.services.settings.access.location_database
    # The database may be on a slow disk.
    locations = await run_in_threadpool(locations_of, database, addresses)
    views = [_session_view(page, session, device, locations) for session, device in sessions]
    return sorted(views, key=lambda view: not view["current"])


def session_reference(page: PageRequest, session: Session) -> str:
    """Return a name for a session that is valid in this session only. The page does not reveal session ids."""
    return mac.sign(page.session.sid.encode(), session.sid)[:32]


def _session_view(
    page: PageRequest, session: Session, device: Device | None, locations: Mapping[str, str]
) -> dict[str, object]:
    address = device.address if device is not None else ""
    return {
        "reference": session_reference(page, session),
        "agent": format_user_agent(device.user_agent if device is not None else ""),
        "address": address,
        "location": locations.get(address, ""),
        "started_at": session.started_at,
        "expires_at": session.expires_at,
        "current": session.sid == page.session.sid,
        "api": session.kind == "api",
    }
