"""What the page of a seat says about its invitation."""

from datetime import UTC, datetime

import pytest

from daybreak.domain.events import Delivery, DeliveryState, EventType
from daybreak.web.dashboard.operator.seats import describe_mail

AT = datetime(2026, 11, 30, 13, 40, tzinfo=UTC)


@pytest.mark.parametrize(
    ("state", "detail", "expected"),
    [
        (DeliveryState.PENDING, "", "Not sent yet."),
        (DeliveryState.PENDING, "The mail server cannot be used.", "Not sent yet. The mail server cannot be used."),
        (DeliveryState.DELIVERED, "Accepted.", "Sent 30 Nov 2026, 13:40 UTC."),
        (DeliveryState.FAILED, "no such user", "Not sent 30 Nov 2026, 13:40 UTC: no such user"),
        (DeliveryState.SKIPPED, "The request expired.", "Not sent 30 Nov 2026, 13:40 UTC: The request expired."),
    ],
)
def test_operator_sees_whether_an_invitation_was_sent(state: DeliveryState, detail: str, expected: str) -> None:
    delivery = Delivery(
        "d", "e", "m", EventType.SEAT_INVITED, "mail", "{}", AT, state=state, finished_at=AT, detail=detail
    )
    assert describe_mail(delivery) == expected
