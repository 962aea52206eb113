"""Conditional requests, evaluated in the order of RFC 9110 §13.2.2."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.web.http.files import evaluate, http_date, parse_http_date, range_applies

MODIFIED = datetime(2026, 11, 22, 4, 0, 0, 250_000, UTC)
ETAG = '"abc-f"'
AT, BEFORE, AFTER = (
    "Sun, 22 Nov 2026 04:00:00 GMT",
    "Sun, 22 Nov 2026 03:59:59 GMT",
    "Sun, 22 Nov 2026 04:00:01 GMT",
)


@pytest.mark.parametrize(
    ("headers", "outcome"),
    [
        ({}, "proceed"),
        ({"if-none-match": ETAG}, "not_modified"),
        ({"if-none-match": 'W/"abc-f"'}, "not_modified"),
        ({"if-none-match": '"x", "abc-f"'}, "not_modified"),
        ({"if-none-match": "*"}, "not_modified"),
        ({"if-none-match": '"abc-c"'}, "proceed"),
        ({"if-none-match": '"x"', "if-modified-since": AT}, "proceed"),
        ({"if-modified-since": AT}, "not_modified"),
        ({"if-modified-since": AFTER}, "not_modified"),
        ({"if-modified-since": BEFORE}, "proceed"),
        ({"if-modified-since": "yesterday"}, "proceed"),
        ({"if-match": ETAG}, "proceed"),
        ({"if-match": 'W/"abc-f"'}, "failed"),
        ({"if-match": '"x"', "if-none-match": ETAG}, "failed"),
        ({"if-unmodified-since": BEFORE}, "failed"),
        ({"if-unmodified-since": AT}, "proceed"),
        ({"if-match": ETAG, "if-unmodified-since": BEFORE}, "proceed"),
    ],
)
def test_conditions_are_evaluated_in_order(headers: dict[str, str], outcome: str) -> None:
    assert evaluate(headers, etag=ETAG, modified=MODIFIED) == outcome


@pytest.mark.parametrize(
    ("if_range", "applies"),
    [
        (None, True),
        (ETAG, True),
        ('W/"abc-f"', False),
        ('"x"', False),
        (AT, True),
        (BEFORE, False),
        ("nonsense", False),
    ],
)
def test_if_range_requires_a_strong_match(if_range: str | None, applies: bool) -> None:
    assert range_applies(if_range, etag=ETAG, modified=MODIFIED) is applies


def test_http_dates_round_trip() -> None:
    assert http_date(MODIFIED) == AT
    assert parse_http_date(AT) == MODIFIED.replace(microsecond=0)
    assert parse_http_date("Sunday, 22-Nov-26 04:00:00 GMT") == MODIFIED.replace(microsecond=0)
    assert parse_http_date("Fri, 31 Dec 9999 23:00:00 -1400") is None, "datetime cannot represent it in UTC"


# Commas are allowed in entity tags (RFC 9110 §8.8.3).
OPAQUE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters='"'), max_size=6)
TAGS = st.tuples(st.sampled_from(["", "W/"]), st.sampled_from(["abc-f", "abc-c"]) | OPAQUE)
INSTANTS = st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC))
NEAR = st.integers(-2, 2).map(lambda seconds: MODIFIED + timedelta(seconds=seconds))
TAG_LISTS = st.just("*") | st.lists(TAGS, max_size=4)
DATES = (NEAR | INSTANTS).map(http_date)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "if-match": TAG_LISTS,
            "if-none-match": TAG_LISTS,
            "if-modified-since": DATES | st.just("soon"),
            "if-unmodified-since": DATES | st.just("soon"),
        },
    )
)
def test_any_conditions_agree_with_the_rules(conditions: dict[str, Any]) -> None:
    """The rules of RFC 9110 §13.2.2 on the values before they are formatted."""
    headers = {
        name: value if isinstance(value, str) else ", ".join(f'{weak}"{opaque}"' for weak, opaque in value)
        for name, value in conditions.items()
    }
    match, none_match = conditions.get("if-match"), conditions.get("if-none-match")
    since, unmodified = (parse_http_date(headers.get(name)) for name in ("if-modified-since", "if-unmodified-since"))
    modified = MODIFIED.replace(microsecond=0)
    if match is not None:
        failed = match != "*" and ("", "abc-f") not in match
    else:
        failed = unmodified is not None and modified > unmodified
    if none_match is not None:
        unchanged = none_match == "*" or bool({("", "abc-f"), ("W/", "abc-f")} & set(none_match))
    else:
        unchanged = since is not None and modified <= since
    expected = "failed" if failed else "not_modified" if unchanged else "proceed"
    assert evaluate(headers, etag=ETAG, modified=MODIFIED) == expected


@given(
    st.dictionaries(
        st.sampled_from(["if-match", "if-none-match", "if-modified-since", "if-unmodified-since"]), st.text()
    )
)
def test_any_text_is_evaluated(headers: dict[str, str]) -> None:
    assert evaluate(headers, etag=ETAG, modified=MODIFIED) in {"proceed", "not_modified", "failed"}
    for value in headers.values():
        assert not range_applies(value, etag=ETAG, modified=MODIFIED) or value.strip() in {ETAG, AT}


@given(INSTANTS)
def test_any_http_date_round_trips(instant: datetime) -> None:
    assert parse_http_date(http_date(instant)) == instant.replace(microsecond=0)


@given(st.text(max_size=40) | st.text("0123456789 :,-+GMTSunNov", max_size=40))
def test_any_text_is_a_date_in_utc_or_none(text: str) -> None:
    found = parse_http_date(text)
    assert found is None or found.utcoffset() == timedelta(0)
