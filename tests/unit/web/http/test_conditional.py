"""Conditional requests, evaluated in the order of RFC 9110 §13.2.2."""

from datetime import UTC, datetime

import pytest

from daybreak.web.http.conditional import evaluate, http_date, parse_http_date, range_applies

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
