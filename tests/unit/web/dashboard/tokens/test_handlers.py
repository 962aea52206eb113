"""What a token has fetched, as a table and as a sentence, and when it expires."""

from datetime import UTC, datetime, timedelta

import pytest

from daybreak.domain.audit import AuditEvent
from daybreak.domain.identity import ApiToken
from daybreak.web.dashboard.tokens.handlers import expiry_badge, trace_of

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)


def fetch(file: str, hours_ago: int, address: str = "198.51.100.23", agent: str = "curl/8.5.0") -> AuditEvent:
    at = NOW - timedelta(hours=hours_ago)
    details = {"file": file, "bytes": 1000 + hours_ago}
    return AuditEvent(at, "file.fetched", "ok", "maya@example.org", address=address, user_agent=agent, details=details)


def test_equal_fetches_are_one_row() -> None:
    events = [
        fetch("members.csv.gz", 1),
        fetch("campaigns.csv.gz", 2, address="203.0.113.9"),
        *(fetch("members.csv.gz", hours) for hours in (30, 60, 90)),
    ]
    trace = trace_of(events, is_live=True)
    assert [(row.file, row.size_bytes, row.address, row.client, row.count) for row in trace.rows] == [
        ("members.csv.gz", 1001, "198.51.100.23", "curl/8.5.0", 4),
        ("campaigns.csv.gz", 1002, "203.0.113.9", "curl/8.5.0", 1),
    ]
    assert trace.rows[0].last_at == NOW - timedelta(hours=1)
    assert trace.text == ("5 downloads of 2 files from 2 addresses since 23 Nov 2026, most often Member Details.")


def test_sentence_names_a_single_file_and_address() -> None:
    assert trace_of([], is_live=False).text == "It has fetched no files."
    events = [fetch("members.csv.gz", hours) for hours in (1, 2, 3, 4)]
    assert trace_of(events, is_live=False).text == (
        "It has fetched Member Details 4 times from 198.51.100.23 since 27 Nov 2026."
    )
    assert "Member Details once from" in trace_of(events[:1], is_live=False).text


@pytest.mark.parametrize(
    ("hours", "badge"),
    [
        (0.01, ("bad", "expires within a minute")),
        (3.5, ("bad", "expires in 3 h 30 min")),
        (25, ("bad", "expires in 2 days")),
        (24 * 10, ("warn", "expires in 10 days")),
        (24 * 60, ("good", "active")),
    ],
)
def test_last_day_of_a_token_is_shown_in_hours(hours: float, badge: tuple[str, str]) -> None:
    token = ApiToken("t", "d", "s", "c", "nightly", "ab12", NOW, NOW + timedelta(hours=hours))
    assert expiry_badge(token, NOW) == badge
