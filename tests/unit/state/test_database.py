"""URLs of state databases."""

import pytest

from daybreak.state.database import redacted_url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://service:s3cret@db.internal:5432/daybreak", "postgresql://service@db.internal:5432/daybreak"),
        ("postgresql://service:a@b@db1,db2/daybreak?sslmode=require", "postgresql://service@db1,db2/daybreak"),
        ("postgresql://db.internal/daybreak?user=service&password=s3cret", "postgresql://db.internal/daybreak"),
    ],
)
def test_redacted_url_has_no_password(url: str, shown: str) -> None:
    assert redacted_url(url) == shown
