"""Which rows of an account an operator sees."""

from types import SimpleNamespace
from typing import cast

import pytest

from daybreak.web.dashboard.operator.explanation import may_see
from daybreak.web.dashboard.page_request import PageRequest
from tests.unit.access.conftest import instance
from tests.unit.access.instance import ALPHA, CLOSED, FOREIGN, ROSA, STRICT, Instance

__all__ = ["instance"]


@pytest.mark.parametrize(
    ("client_id", "amr", "expected"),
    [
        (ALPHA, ("pwd",), True),
        (STRICT, ("pwd", "otp"), True),
        # Operators may need no second factor, but this account does.
        (STRICT, ("pwd",), False),
        (CLOSED, ("pwd", "otp"), False),
        (FOREIGN, ("pwd", "otp"), False),
    ],
)
async def test_operator_sees_rows_that_the_session_may_download(
    instance: Instance, client_id: str, amr: tuple[str, ...], expected: bool
) -> None:
    for granted in (ALPHA, CLOSED, STRICT):
        instance.put_grant(ROSA, granted)
    page = SimpleNamespace(
        read=instance.state.aread,
        seat=SimpleNamespace(seat_id=ROSA),
        session=SimpleNamespace(amr=amr),
        services=instance.services,
    )
    assert await may_see(cast("PageRequest", page), client_id) is expected
