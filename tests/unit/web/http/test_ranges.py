"""Parsing of Range headers (RFC 9110 §14)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.web.http.files import MAX_RANGES, Span, Unsatisfiable, parse_ranges


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes=0-0", (Span(0, 1),)),
        ("bytes=0-", (Span(0, 100),)),
        ("bytes=90-200", (Span(90, 100),)),
        ("bytes=-1", (Span(99, 100),)),
        ("bytes=-500", (Span(0, 100),)),
        ("BYTES = 1-2", (Span(1, 3),)),
        ("bytes=5-6, 0-1", (Span(5, 7), Span(0, 2))),
        ("bytes=0-10,5-20", (Span(0, 21),)),
        ("bytes=0-4,5-9", (Span(0, 10),)),
        ("bytes=0-1,50-60,1-50", (Span(0, 61),)),
        ("bytes=0-1,100-", (Span(0, 2),)),
        ("bytes=,0-1,", (Span(0, 2),)),
        # The largest numbers of 64 bits, which some clients send for "to the end".
        ("bytes=3-18446744073709551615", (Span(3, 100),)),
        ("bytes=-18446744073709551615", (Span(0, 100),)),
    ],
)
def test_range_header_is_parsed_into_spans(header: str, expected: tuple[Span, ...]) -> None:
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
