"""SMS segment counts in Python and SQL."""

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.demo.sms_segments import GSM7_BASIC, GSM7_EXTENSION, segment_count_sql


def segment_count(text: str) -> int:
    """Return the number of segments, written independently of the SQL."""
    if all(character in GSM7_BASIC + GSM7_EXTENSION for character in text):
        length, single, joined = len(text) + sum(text.count(each) for each in GSM7_EXTENSION), 160, 153
    else:
        length, single, joined = len(text.encode("utf-16-le")) // 2, 70, 67
    return 1 if length <= single else -(-length // joined)


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("", 1),
        ("a" * 160, 1),
        ("a" * 161, 2),
        ("a" * 306, 2),
        ("a" * 307, 3),
        ("€" * 80, 1),
        ("€" * 81, 2),
        ("я" * 70, 1),
        ("я" * 71, 2),
        ("я" * 134, 2),
        ("я" * 135, 3),
        ("🎉" * 35, 1),
        ("🎉" * 36, 2),
        ("a" * 69 + "\u2019", 1),
        ("a" * 70 + "\u2019", 2),
        ("a\tb", 1),
    ],
)
def test_segments_follow_gsm7_and_ucs2_limits(text: str, segments: int) -> None:
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT {segment_count_sql('?')}".replace("?", "$1"), [text]).fetchone()
    assert found == (segments,)
    assert segment_count(text) == segments


@pytest.mark.release
@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.text(alphabet=GSM7_BASIC + GSM7_EXTENSION, max_size=400),
            st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=200),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_sql_and_python_counts_agree(texts: list[str]) -> None:
    with duckdb.connect() as connection:
        rows = connection.execute(
            f"SELECT t, {segment_count_sql('t')} FROM unnest(?::VARCHAR[]) AS texts(t)", [texts]
        ).fetchall()
    assert [(text, count) for text, count in rows] == [(text, segment_count(text)) for text in texts]
