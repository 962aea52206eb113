"""Parsing of the values of shared options."""

from datetime import UTC, datetime

import pytest

from daybreak.cli.options import parse_expiry, parse_instant, parse_instant_or_age
from daybreak.domain.errors import OperatorError

NOW = datetime(2026, 11, 20, 4, tzinfo=UTC)


def test_instant_without_offset_is_utc() -> None:
    assert parse_instant("2026-11-20T04:00:00", "--until") == NOW
    assert parse_instant("2026-11-20T06:00:00+02:00", "--until") == NOW


def test_ages_and_expiries_count_from_now() -> None:
    assert parse_instant_or_age("2h", "--since", NOW) == datetime(2026, 11, 20, 2, tzinfo=UTC)
    assert parse_instant_or_age("2026-11-20T04:00:00Z", "--since", datetime.now(UTC)) == NOW
    assert parse_expiry("1d", "--expires", NOW) == datetime(2026, 11, 21, 4, tzinfo=UTC)


@pytest.mark.parametrize("text", ["soon", "0001-01-01T00:00:00+05:00", "9999-12-31T23:00:00-05:00"])
def test_invalid_instant_is_wrong_use(text: str) -> None:
    with pytest.raises(OperatorError, match="--until: Use an instant") as refused:
        parse_instant(text, "--until")
    assert refused.value.code == "wrong_use"


@pytest.mark.parametrize("text", ["999999w", "9999999999w", "a while"])
def test_duration_beyond_the_calendar_is_wrong_use(text: str) -> None:
    with pytest.raises(OperatorError, match=r"--since: Use an instant .* or an age") as refused:
        parse_instant_or_age(text, "--since", NOW)
    assert refused.value.code == "wrong_use"
    with pytest.raises(OperatorError, match="--expires: ") as refused:
        parse_expiry(text, "--expires", NOW)
    assert refused.value.code == "wrong_use"
