"""Second factor setup and recovery codes: the parts that sign-in and Settings > Security share."""

from __future__ import annotations

import unicodedata
from urllib.parse import quote

from markupsafe import Markup

from daybreak.access.enrolment import Enrolment, enrolment_of
from daybreak.credentials import totp
from daybreak.domain.identity import Seat
from daybreak.web.dashboard.context import DashboardContext

MAXIMUM_CODE_LENGTH = 64


async def load_pending_enrolment(dashboard: DashboardContext, seat: Seat) -> Enrolment | None:
    """Return the enrolment that was started and not confirmed, from its sealed seed."""
    services = dashboard.services
    sealed = await dashboard.services.state.aread(lambda stores: stores.seats.pending_seed(seat.seat_id))
    if sealed is None:
        return None
    try:
        seed = totp.decrypt_seed(sealed, seat_id=seat.seat_id, keyring=services.keyring.current())
    except totp.SeedDecryptionError:
        return None
    return enrolment_of(seed, email=seat.email)


def enrolment_context(enrolment: Enrolment) -> dict[str, object]:
    """Return the variables of the setup steps. The QR code is generated SVG without user input."""
    key = enrolment.manual_key
    grouped = " ".join(key[start : start + 4] for start in range(0, len(key), 4))
    return {"enrolment": enrolment, "manual_key": grouped, "qr_code": Markup(enrolment.qr_svg)}  # noqa: S704


def recovery_codes_context(codes: tuple[str, ...]) -> dict[str, object]:
    """Return the variables of the recovery code list, with a data URL to download it."""
    text = "Recovery codes for Daybreak. Each code works once.\n\n" + "\n".join(codes) + "\n"
    return {"codes": codes, "codes_url": f"data:text/plain;charset=utf-8,{quote(text)}"}


def normalize_code(code: str) -> str:
    """Return a typed six-digit code without spaces and dashes, with ASCII digits."""
    return "".join(
        str(unicodedata.digit(character, character))
        for character in code[:MAXIMUM_CODE_LENGTH]
        if not character.isspace() and character not in "-\u2013"
    )
