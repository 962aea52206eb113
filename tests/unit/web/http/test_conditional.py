"""Conditions are judged in the order of RFC 9110 §13.2.2."""

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
    ("headers", "verdict"),
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
def test_verdict(headers: dict[str, str], verdict: str) -> None:
    assert evaluate(headers, etag=ETAG, modified=MODIFIED) == verdict


@pytest.mark.parametrize(
    ("if_range", "stands"),
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
def test_if_range(if_range: str | None, stands: bool) -> None:
    assert range_applies(if_range, etag=ETAG, modified=MODIFIED) is stands


def test_dates_go_there_and_back() -> None:
    assert http_date(MODIFIED) == AT
    assert parse_http_date(AT) == MODIFIED.replace(microsecond=0)
    assert parse_http_date("Sunday, 22-Nov-26 04:00:00 GMT") == MODIFIED.replace(microsecond=0)
    assert parse_http_date("Fri, 31 Dec 9999 23:00:00 -1400") is None, "no calendar here has it in UTC"
