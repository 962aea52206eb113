"""Instants and JSON values round-trip, and the text of instants sorts by time."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.state.columns import instant_of, instant_text, json_of, json_text

INSTANTS = st.datetimes(
    min_value=datetime(2, 1, 1),
    max_value=datetime(9998, 12, 31),
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45)), timezone(-timedelta(hours=11))]),
)


@given(INSTANTS, INSTANTS)
def test_instants_round_trip_and_their_text_sorts_by_time(one: datetime, other: datetime) -> None:
    assert instant_of(instant_text(one)) == one
    assert instant_of(instant_text(one)).tzinfo is UTC
    assert len(instant_text(one)) == len("2026-11-20T04:00:00.000000Z")
    assert (instant_text(one) < instant_text(other)) == (one < other)


@pytest.mark.parametrize(
    "text", ["2026-11-20T04:00:00+00:00", "2026-11-20T04:00:00.5+00:00", "2026-11-20T04:00:00.000001Z"]
)
def test_instants_of_both_databases_are_read(text: str) -> None:
    assert instant_of(text).replace(microsecond=0) == datetime(2026, 11, 20, 4, tzinfo=UTC)
    assert instant_of(text).tzinfo is UTC


def test_naive_datetime_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        instant_text(datetime(2026, 11, 20))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@given(JSON_VALUES)
def test_json_values_round_trip(value: object) -> None:
    assert json_of(json_text(value)) == value
