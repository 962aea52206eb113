"""Responses to requests for files: headers, conditions and ranges."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.domain.snapshot import CurrentFile, StoredFormat
from daybreak.web.http.files import (
    MAX_RANGES,
    FileAnswer,
    Unsatisfiable,
    entity_of,
    evaluate,
    file_answer,
    file_headers,
    http_date,
    parse_http_date,
    parse_ranges,
    range_applies,
)
from daybreak.web.http.negotiation import Representation

PUBLISHED_AT = datetime(2026, 11, 22, 4, tzinfo=UTC)
FILE = CurrentFile(
    "s", PUBLISHED_AT, PUBLISHED_AT, 1, "members", "csv", 7, StoredFormat(1000, "ab" * 32, 1, "cd" * 32, "key")
)
OTHER = CurrentFile(
    "s", PUBLISHED_AT, PUBLISHED_AT, 1, "members", "csv", 7, StoredFormat(1000, "ef" * 32, 1, "cd" * 32, "key")
)
AS_FILE = Representation("application/gzip", None, "members.csv.gz", "f", varies=True)
AS_TEXT = Representation("text/csv", "gzip", "members.csv", "c", varies=True)


def answer(method: str = "GET", **headers: str) -> FileAnswer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return file_answer(entity_of(FILE, AS_FILE), named, method=method)


def test_head_has_the_headers_of_get_and_no_body() -> None:
    assert answer("HEAD") == FileAnswer(200, answer().headers)
    assert answer("HEAD", range="bytes=0-9") == answer("HEAD")


def test_matching_etag_returns_no_content() -> None:
    found = answer(if_none_match=answer().headers["etag"])
    assert (found.status, found.segments) == (304, ())
    assert not {"content-type", "content-length", "content-disposition"} & found.headers.keys()
    assert found.headers["etag"] == answer().headers["etag"]


def test_headers_differ_by_file_and_representation() -> None:
    one, other, text = file_headers(FILE, AS_FILE), file_headers(OTHER, AS_FILE), file_headers(FILE, AS_TEXT)
    assert len({one["etag"], other["etag"], text["etag"]}) == 3
    assert one["repr-digest"] != other["repr-digest"]
    assert "content-encoding" not in one
    assert text["content-encoding"] == "gzip"


def test_cached_headers_are_not_modified() -> None:
    before = dict(file_headers(FILE, AS_FILE))
    answer(range="bytes=0-9,20-29")
    answer(range="bytes=0-9")
    assert file_headers(FILE, AS_FILE) == before


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


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes=0-0", (range(1),)),
        ("bytes=0-", (range(100),)),
        ("bytes=90-200", (range(90, 100),)),
        ("bytes=-1", (range(99, 100),)),
        ("bytes=-500", (range(100),)),
        ("BYTES = 1-2", (range(1, 3),)),
        ("bytes=5-6, 0-1", (range(5, 7), range(2))),
        ("bytes=0-10,5-20", (range(21),)),
        ("bytes=0-4,5-9", (range(10),)),
        ("bytes=0-1,50-60,1-50", (range(61),)),
        ("bytes=0-1,100-", (range(2),)),
        ("bytes=,0-1,", (range(2),)),
        # The largest numbers of 64 bits, which some clients send for "to the end".
        ("bytes=3-18446744073709551615", (range(3, 100),)),
        ("bytes=-18446744073709551615", (range(100),)),
    ],
)
def test_range_header_is_parsed_into_spans(header: str, expected: tuple[range, ...]) -> None:
    assert parse_ranges(header, 100) == expected


@pytest.mark.parametrize(
    "header",
    [
        "",
        "bytes",
        "lines=0-1",
        "bytes=",
        "bytes=x",
        "bytes=-",
        "bytes=5-4",
        "bytes=1-2-3",
        "bytes=\u0661-\u0662",
        "bytes=0x1-2",
    ],
)
def test_invalid_range_header_is_ignored(header: str) -> None:
    assert parse_ranges(header, 100) is None


@pytest.mark.parametrize("header", ["bytes=100-", "bytes=-0", "bytes=100-200,300-", "bytes=" + ",".join(["0-0"] * 9)])
def test_unsatisfiable_range_is_refused(header: str) -> None:
    assert isinstance(parse_ranges(header, 100), Unsatisfiable)


def test_eight_ranges_are_accepted() -> None:
    header = "bytes=" + ",".join(f"{at * 10}-{at * 10 + 1}" for at in range(MAX_RANGES))
    spans = parse_ranges(header, 100)
    assert isinstance(spans, tuple)
    assert len(spans) == MAX_RANGES


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)).map(sorted), min_size=1, max_size=MAX_RANGES),
    st.integers(1, 200),
)
def test_spans_contain_exactly_the_requested_bytes(requested: list[list[int]], size: int) -> None:
    header = "bytes=" + ",".join(f"{first}-{last}" for first, last in requested)
    expected = {at for first, last in requested for at in range(first, last + 1) if at < size}
    spans = parse_ranges(header, size)
    if not expected:
        assert isinstance(spans, Unsatisfiable)
        return
    assert isinstance(spans, tuple)
    returned = [at for span in spans for at in range(span.start, span.stop)]
    assert sorted(returned) == sorted(expected)


NUMBERS = st.integers(0, 250).map(str) | st.integers(0, 2**70).map(str) | st.sampled_from(["", "00", "007", "x", "1 2"])
SPECS = st.tuples(NUMBERS, NUMBERS).map("-".join) | st.text("0123456789-, \tx", max_size=8)
HEADERS = st.tuples(
    st.sampled_from(["bytes=", "Bytes =", " bytes=", "bytes", "items=", ""]),
    st.lists(SPECS, max_size=10),
    st.sampled_from([",", ", ", " ,\t", ",,"]),
).map(lambda parts: parts[0] + parts[2].join(parts[1]))


def reference(header: str, size: int) -> set[int] | str | None:
    """Return the requested bytes, "unsatisfiable", or None: RFC 9110 §14.1.1 and §14.2, without regular expressions."""
    unit, equals, listed = header.strip().partition("=")
    specs = [spec for spec in (part.strip() for part in listed.split(",")) if spec]
    if not equals or unit.rstrip(" \t").lower() != "bytes" or not specs:
        return None
    if len(specs) > MAX_RANGES:
        return "unsatisfiable"
    requested: set[int] = set()
    for spec in specs:
        first, dash, last = spec.partition("-")
        if not dash or not (first or last) or set(first + last) - set("0123456789") or max(len(first), len(last)) > 30:
            return None
        if not first:
            requested |= set(range(max(0, size - int(last)), size))
        elif last and int(last) < int(first):
            return None
        else:
            requested |= set(range(int(first), min(size, int(last) + 1) if last else size))
    return requested or "unsatisfiable"


@given(HEADERS | st.text(max_size=40), st.integers(0, 200))
def test_any_header_agrees_with_a_reference_parser(header: str, size: int) -> None:
    spans, expected = parse_ranges(header, size), reference(header, size)
    if not isinstance(spans, tuple):
        assert expected == ("unsatisfiable" if isinstance(spans, Unsatisfiable) else None)
        return
    assert 1 <= len(spans) <= MAX_RANGES
    assert all(0 <= span.start < span.stop <= size for span in spans)
    returned = [at for span in spans for at in range(span.start, span.stop)]
    assert len(returned) == len(set(returned)), "a byte is sent twice"
    assert set(returned) == expected
