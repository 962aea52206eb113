"""Handlers of Settings > Display."""

from __future__ import annotations

from starlette.responses import Response

from daybreak.domain.display import DEFAULT_NUMBER_FORMAT, DEFAULT_ZONE, NUMBER_FORMATS, time_zones
from daybreak.web.dashboard.outcome import SUCCESS, PageOutcome, invalid_field
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest

_PATH = "settings/display"


async def show_display(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
    fields = page.fields
    context = {
        "time_zone": fields.get("time_zone", page.seat.time_zone or DEFAULT_ZONE),
        "number_format": fields.get("number_format", page.seat.number_format or DEFAULT_NUMBER_FORMAT),
        "time_zones": time_zones(),
        "number_formats": NUMBER_FORMATS,
    }
    return render_page(page, "display/page.html", context, outcome)


async def save_display(page: PageRequest) -> Response | PageOutcome:
    time_zone, number_format = page.form.get("time_zone", ""), page.form.get("number_format", "")
    if time_zone not in time_zones():
        return invalid_field("time_zone", "Choose a time zone from the list.")
    if number_format not in NUMBER_FORMATS:
        return invalid_field("number_format", "Choose a number format from the list.")
    seat_id = page.seat.seat_id
    await page.services.state.awrite(lambda stores: stores.seats.set_display(seat_id, time_zone, number_format))
    return page.redirect(_PATH, done="display-saved")
