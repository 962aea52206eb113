"""Template variables of Settings > Security."""

from __future__ import annotations

from dataclasses import dataclass

from daybreak.credentials.keyring import mac_of
from daybreak.credentials.passwords import MINIMUM_LENGTH
from daybreak.domain.identity import Device, Session
from daybreak.web.dashboard.formatting import format_datetime, format_user_agent
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.security.locations import locations_of

PASSWORD_HINT = f"At least {MINIMUM_LENGTH} characters. Several unrelated words work well."


@dataclass(frozen=True, slots=True)
class SessionView:
    """An open session. `reference` names it in this session only: the page does not reveal session ids."""

    session: Session
    reference: str
    agent: str
    address: str
    location: str
    current: bool

    @property
    def text(self) -> str:
        """The session as one line."""
        place = f"{self.address} ({self.location})" if self.location else self.address
        note = "this session" if self.current else "API" if self.session.kind == "api" else ""
        parts = (self.agent, place, note, f"signed in {format_datetime(self.session.started_at)}")
        return "\N{NO-BREAK SPACE}· ".join(part for part in parts if part)


async def session_views(page: PageRequest, sessions: list[tuple[Session, Device | None]]) -> list[SessionView]:
    """Return the open sessions of a seat, the current one first."""
    addresses = [device.address for _, device in sessions if device is not None]
    database = page.services.settings.access.location_database
    # The database may be on a slow disk.
    locations = await page.services.threads.run(page.seat.seat_id, lambda: locations_of(database, addresses))
    views = []
    for session, device in sessions:
        address, user_agent = (device.address, device.user_agent) if device is not None else ("", "")
        agent, is_current = format_user_agent(user_agent), session.sid == page.session.sid
        reference = session_reference(page, session)
        views.append(SessionView(session, reference, agent, address, locations.get(address, ""), is_current))
    return sorted(views, key=lambda view: not view.current)


def session_reference(page: PageRequest, session: Session) -> str:
    """Return a name for a session that is valid in this session only."""
    return mac_of(page.session.sid.encode(), session.sid)[:32]
