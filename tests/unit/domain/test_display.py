"""Times and numbers in the zone and format of a seat."""

from datetime import UTC, date, datetime

import pytest

from daybreak.domain.display import (
    NUMBER_FORMATS,
    display_for,
    format_count,
    format_duration,
    format_size,
    local,
    localized,
    start_of,
    time_zones,
    zone_name,
)
from daybreak.domain.identity import Seat

WINTER = datetime(2026, 11, 27, 23, 30, tzinfo=UTC)


def seat(time_zone: str | None = None, number_format: str | None = None) -> Seat:
    return Seat("seat", "a@example.org", time_zone=time_zone, number_format=number_format)


@pytest.mark.parametrize(
    ("zone", "name", "day"),
    [("Europe/Berlin", "CET", 28), ("Asia/Dubai", "UTC+04", 28), ("America/New_York", "EST", 27), (None, "UTC", 27)],
)
def test_instants_have_the_zone_of_the_seat(zone: str | None, name: str, day: int) -> None:
    with display_for(seat(zone)):
        assert (local(WINTER).day, zone_name(WINTER)) == (day, name)
        assert local(start_of(date(2026, 7, 1))).hour == 0
    assert zone_name(WINTER) == "UTC"


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../etc/passwd", "", "/etc/passwd"])
def test_unknown_zone_is_utc(zone: str) -> None:
    with display_for(seat(zone, "no format")):
        assert (zone_name(WINTER), localized("1,234.5")) == ("UTC", "1,234.5")


@pytest.mark.parametrize("number_format", NUMBER_FORMATS)
def test_numbers_have_the_format_of_the_seat(number_format: str) -> None:
    with display_for(seat(None, number_format)):
        assert localized("1,234.5").replace("\N{NARROW NO-BREAK SPACE}", " ") == number_format
        assert format_count(1234, "row").endswith("234 rows")


def test_zones_of_this_system_are_offered() -> None:
    assert time_zones()[0] == "UTC"
    assert {"Europe/Berlin", "America/New_York"} <= set(time_zones())
    assert not [name for name in time_zones() if name.startswith("Etc/")]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (999_999, "1.0 MB"),
        (167_400, "167 kB"),
        (5_000_000_000, "5.0 GB"),
    ],
)
def test_size_uses_decimal_units(count: int, text: str) -> None:
    assert format_size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.02, "20 ms"), (3.2, "3.2 s"), (61, "1 min 1 s"), (3599.9, "1 h"), (22_320, "6 h 12 min"), (259_200, "3 days")],
)
def test_duration_uses_two_units_at_most(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
