"""Setting up a second factor: what its pages show. Shared by the forced way and by Settings > Security."""

from __future__ import annotations

from urllib.parse import quote

from markupsafe import Markup

from daybreak.access import second_factor
from daybreak.credentials import totp
from daybreak.domain.identity import Seat
from daybreak.web.dashboard.desk import Desk


async def begun_enrolment(desk: Desk, seat: Seat) -> second_factor.Enrolment | None:
    """The enrolment that was begun and not confirmed, drawn again from its sealed seed."""
    access = desk.services.access
    sealed = await desk.services.state.aread(lambda stores: stores.seats.pending_seed(seat.seat_id))
    if sealed is None:
        return None
    try:
        seed = totp.unseal(sealed, seat_id=seat.seat_id, keyring=access.keyring.current())
    except totp.SealBroken:
        return None
    return second_factor.enrolment_of(seed, email=seat.email)


def enrolment_context(enrolment: second_factor.Enrolment) -> dict[str, object]:
    """What the page that sets up a second factor shows. The picture is drawn here, from digits."""
    return {"enrolment": enrolment, "qr_picture": Markup(enrolment.qr_svg)}  # noqa: S704


def codes_context(codes: tuple[str, ...]) -> dict[str, object]:
    """What the page with recovery codes shows, and the same as a text to download."""
    text = "Recovery codes for Daybreak. Each works once.\n\n" + "\n".join(codes) + "\n"
    return {"codes": codes, "codes_download": f"data:text/plain;charset=utf-8,{quote(text)}"}
