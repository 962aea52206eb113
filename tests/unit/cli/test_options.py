"""Options that many verbs share: what is typed, and what is said of what cannot be meant."""

from datetime import UTC, datetime

import pytest

from daybreak.cli.options import ahead, back_or_instant, instant
from daybreak.domain.errors import OperatorError

NOW = datetime(2026, 11, 20, 4, tzinfo=UTC)


def test_an_instant_is_utc_unless_it_says_otherwise() -> None:
    assert instant("2026-11-20T04:00:00", "--until") == NOW
    assert instant("2026-11-20T06:00:00+02:00", "--until") == NOW


def test_a_time_back_and_a_time_ahead_count_from_now() -> None:
    assert back_or_instant("2h", "--since", NOW) == datetime(2026, 11, 20, 2, tzinfo=UTC)
    assert back_or_instant("2026-11-20T04:00:00Z", "--since", datetime.now(UTC)) == NOW
    assert ahead("1d", "--expires", NOW) == datetime(2026, 11, 21, 4, tzinfo=UTC)


@pytest.mark.parametrize("text", ["soon", "0001-01-01T00:00:00+05:00", "9999-12-31T23:00:00-05:00"])
def test_what_is_no_instant_of_the_calendar_is_wrong_use(text: str) -> None:
    with pytest.raises(OperatorError, match="--until: write an instant") as refused:
        instant(text, "--until")
    assert refused.value.code == "wrong_use"


@pytest.mark.parametrize("text", ["999999w", "9999999999w", "a while"])
def test_a_time_before_or_after_the_calendar_is_wrong_use(text: str) -> None:
    with pytest.raises(OperatorError, match=r"--since: write an instant .* or a time back") as refused:
        back_or_instant(text, "--since", NOW)
    assert refused.value.code == "wrong_use"
    with pytest.raises(OperatorError, match="--expires: ") as refused:
        ahead(text, "--expires", NOW)
    assert refused.value.code == "wrong_use"
